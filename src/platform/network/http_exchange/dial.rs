//! A TCP connection to one address.
//!
//! To a pod or to the node itself the kernel shakes hands within `connect`, so that the connection is there when the call
//! returns: it is then taken at once, and what is said first is sent at once. A wait for the event that tells the same
//! costs a wake of the thread, for each probe anew. Where it is not there yet, it is waited for as usual. For the same
//! reason no events are asked for until something is waited for ([`Line`]): many a connection goes without any.

use std::io;
use std::mem::MaybeUninit;
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The protocol on a connection once it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// Something is sent at once.
    Speaks,
    /// Something is waited for, or nothing is done.
    Listens,
}

/// A connection that is there.
#[derive(Debug)]
pub(in crate::platform) enum Line {
    /// Nobody waits for events of it.
    Bare(net::TcpStream),
    /// The thread's loop of events knows it.
    Watched(TcpStream),
}

impl Line {
    /// To be waited for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watched(self) -> io::Result<TcpStream> {
        match self {
            Self::Bare(stream) => TcpStream::from_std(stream),
            Self::Watched(stream) => Ok(stream),
        }
    }

    /// The address that it goes from.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Bare(stream) => stream.local_addr().ok(),
            Self::Watched(stream) => stream.local_addr().ok(),
        }
    }

    /// Sends what there is room for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn speak(&self, bytes: &[u8]) -> io::Result<usize> {
        at_once(rustix::net::send(self, bytes, SendFlags::NOSIGNAL)).map(Option::unwrap_or_default)
    }

    /// The bytes that have come, if any have, or the end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn heard<'a>(&self, room: &'a mut [MaybeUninit<u8>]) -> io::Result<Option<&'a [u8]>> {
        let heard = at_once(rustix::net::recv(self, room, RecvFlags::empty()))?;
        Ok(heard.map(|((heard, _), _)| &*heard))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Bare(stream) => stream.as_fd(),
            Self::Watched(stream) => stream.as_fd(),
        }
    }
}

/// The result of the kernel's work without a wait.
fn at_once<T>(done: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Connects. The first bytes acknowledge the handshake, too: one packet less, and the other side wakes once.
///
/// # Errors
/// The kernel's.
pub(super) async fn dial(address: SocketAddr, first: First) -> io::Result<Line> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if first == First::Speaks {
        let _ = rustix::net::sockopt::set_tcp_quickack(&socket, false); // It only saves work.
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = net::TcpStream::from(socket);
    if stream.peer_addr().is_ok() {
        return Ok(Line::Bare(stream));
    }
    let stream = TcpStream::from_std(stream)?;
    stream.writable().await?;
    stream.take_error()?.map_or(Ok(Line::Watched(stream)), Err)
}

/// A new connection whose first bytes do not wait for the event that tells that there is room for them.
#[derive(Debug)]
pub(super) struct Forward {
    stream: TcpStream,
    has_spoken: bool,
}

impl Forward {
    /// Of a connection that is there, on which nothing was sent.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(line: Line) -> io::Result<Self> {
        Ok(Self { stream: line.watched()?, has_spoken: false })
    }

    fn speak(&mut self, bytes: &[u8]) -> Option<io::Result<usize>> {
        if std::mem::replace(&mut self.has_spoken, true) {
            return None;
        }
        at_once(rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL)).transpose()
    }
}

impl AsyncRead for Forward {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Forward {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.speak(bytes) {
            Some(outcome) => Poll::Ready(outcome),
            None => Pin::new(&mut self.stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Nothing is awaited: neither the connection nor room for the first bytes.
    #[tokio::test]
    async fn to_the_node_itself_it_connects_and_speaks_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let line = dial(address, First::Speaks).now_or_never().expect("at once").expect("connected");
        let mut stream = Forward::new(line).expect("watched");
        assert_eq!(stream.write(b"hello").now_or_never().expect("at once").expect("sent"), 5);
        stream.write_all(b", and more").await.expect("sent");
        drop(stream);
        let mut heard = String::new();
        listener.accept().expect("accepted").0.read_to_string(&mut heard).expect("an orderly end");
        assert_eq!(heard, "hello, and more");
    }

    #[tokio::test]
    async fn more_than_there_is_room_for_is_sent_as_room_comes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let line = dial(address, First::Speaks).await.expect("connected");
        let mut stream = Forward::new(line).expect("watched");
        let (mut other_side, _) = listener.accept().expect("accepted");
        let reader = std::thread::spawn(move || {
            let mut heard = vec![];
            other_side.read_to_end(&mut heard).map(|_| heard)
        });
        let said: Vec<u8> = (0..20_000_000u32).map(|number| number.to_le_bytes()[1]).collect();
        stream.write_all(&said).await.expect("sent");
        drop(stream);
        assert!(reader.join().expect("no panic").expect("an orderly end") == said);
    }

    #[tokio::test]
    async fn a_line_that_nobody_waits_on_tells_what_has_come() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let line = dial(address, First::Speaks).now_or_never().expect("at once").expect("connected");
        assert!(matches!(line, Line::Bare(_)), "{line:?}");
        assert_eq!(line.speak(b"hello").expect("sent"), 5);
        let mut room = [MaybeUninit::uninit(); 8];
        assert_eq!(line.heard(&mut room).expect("still there"), None);
        let (mut other_side, _) = listener.accept().expect("accepted");
        let mut heard = [0; 5];
        other_side.read_exact(&mut heard).expect("heard");
        other_side.write_all(b"and you").expect("sent");
        assert_eq!(line.heard(&mut room).expect("still there"), Some(b"and you".as_slice()));
        drop(other_side);
        assert_eq!(line.heard(&mut room).expect("an orderly end"), Some(b"".as_slice()));
    }

    /// The loopback device refuses and connects alike, before `connect` returns; the error is the kernel's.
    #[tokio::test]
    async fn nobody_there_is_an_error() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let error = dial(address, First::Listens).await.expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
