//! A TCP connection to one address.
//!
//! To a pod or to the node itself the kernel shakes hands within `connect`, so that the connection is there when the call
//! returns: it is then taken at once, and what is said first is sent at once. A wait for the event that tells the same
//! costs a wake of the thread, for each probe anew. Where it is not there yet, it is waited for as usual.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What is done on a connection once it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// Something is sent at once.
    Speaks,
    /// Something is waited for, or nothing is done.
    Listens,
}

/// Connects. What is sent first acknowledges the handshake, too: one packet less, and the other side wakes once.
///
/// # Errors
/// The kernel's.
pub(super) async fn dial(address: SocketAddr, first: First) -> io::Result<TcpStream> {
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
    let stream = std::net::TcpStream::from(socket);
    let is_there = stream.peer_addr().is_ok();
    let stream = TcpStream::from_std(stream)?;
    if !is_there {
        stream.writable().await?;
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
    }
    Ok(stream)
}

/// A new connection whose first bytes do not wait for the event that tells that there is room for them.
#[derive(Debug)]
pub(super) struct Forward {
    stream: TcpStream,
    has_spoken: bool,
}

impl Forward {
    /// Of a connection that is there, on which nothing was sent.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, has_spoken: false }
    }

    fn speak(&mut self, bytes: &[u8]) -> Option<io::Result<usize>> {
        if std::mem::replace(&mut self.has_spoken, true) {
            return None;
        }
        match rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => Some(Ok(sent)),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(error) => Some(Err(error.into())),
        }
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
    use std::io::Read;

    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Nothing is awaited: neither the connection nor room for the first bytes.
    #[tokio::test]
    async fn to_the_node_itself_it_connects_and_speaks_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let stream = dial(address, First::Speaks).now_or_never().expect("at once").expect("connected");
        let mut stream = Forward::new(stream);
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
        let mut stream = Forward::new(dial(address, First::Speaks).await.expect("connected"));
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
