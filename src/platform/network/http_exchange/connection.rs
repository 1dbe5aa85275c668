//! One connection for one request: connect, TLS, handshake. The waiting for the answer also drives the connection, so
//! that nothing outlives the request: dropping it closes everything.
//!
//! Upstream sets `SO_LINGER` to one second here. On Linux that only makes `close` wait for the other side's
//! acknowledgement, which would let a silent pod hold one of our few threads; so it is left out, and `close` goes on in
//! the kernel.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{setsockopt, sockopt};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use super::HEADER_BYTES_MAX;
use super::brief::Resumed;
use super::dial::{self, First, Forward, Line};
use super::error::WireError;
use super::peeked::{Beginning, Peeked};
use super::target::Target;
use crate::platform::network::names::Names;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that is ready for its one request.
pub(super) struct Connection {
    sender: Sender,
    driver: Driver,
    ends: Ends,
}

/// The body of a request: nothing, or one piece.
pub(super) struct Payload(pub Option<Bytes>);

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

enum Sender {
    Http1(http1::SendRequest<Payload>),
    Http2(http2::SendRequest<Payload>),
}

/// The two ends, for texts.
pub(super) struct Ends {
    local: Option<SocketAddr>,
    remote: SocketAddr,
    beginning: Beginning,
    http2: bool,
}

impl Connection {
    /// Connects over TLS.
    pub async fn open_tls(target: &Target, config: Arc<ClientConfig>, names: &Names) -> Result<Self, WireError> {
        let (stream, mut ends) = begin(&target.host, target.port, names).await?;
        let (stream, beginning) = Peeked::new(stream);
        ends.beginning = beginning;
        let name = ServerName::try_from(target.host.clone()).map_err(|error| WireError::Tls(error.to_string()))?;
        let stream = match TlsConnector::from(config).connect(name, stream).await {
            Ok(stream) => stream,
            Err(error) => return Err(ends.tls_problem(&error)),
        };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let (stream, beginning) = Peeked::new(stream);
        (ends.beginning, ends.http2) = (beginning, http2);
        if http2 {
            return Self::http2(stream, ends).await;
        }
        Self::http1(stream, ends).await
    }

    /// Connects, and speaks HTTP/2 from the first byte on, without TLS.
    pub async fn open_http2(host: &str, port: u16, names: &Names) -> Result<Self, WireError> {
        let (stream, mut ends) = begin(host, port, names).await?;
        let (stream, beginning) = Peeked::new(stream);
        (ends.beginning, ends.http2) = (beginning, true);
        Self::http2(stream, ends).await
    }

    /// Goes on where the request was sent, and the answer has begun.
    pub async fn resume(stream: Resumed, mut ends: Ends) -> Result<Self, WireError> {
        let (stream, beginning) = Peeked::new(stream);
        ends.beginning = beginning;
        Self::http1(stream, ends).await
    }

    /// How the other side began.
    pub fn beginning(&self) -> Beginning {
        self.ends.beginning.clone()
    }

    async fn http1(stream: impl Stream, ends: Ends) -> Result<Self, WireError> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEADER_BYTES_MAX).title_case_headers(true);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| ends.problem(&error))?;
        let driver = Driver::new(async { drop(connection.await) }, None);
        Ok(Self { sender: Sender::Http1(sender), driver, ends })
    }

    async fn http2(stream: impl Stream, ends: Ends) -> Result<Self, WireError> {
        let (start, started) = mpsc::unbounded_channel();
        let mut builder = http2::Builder::new(Beside { start });
        builder.timer(TokioTimer::new()).max_header_list_size(HEADER_BYTES_MAX as u32);
        let (sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|error| ends.problem(&error))?;
        let driver = Driver::new(async { drop(connection.await) }, Some(started));
        Ok(Self { sender: Sender::Http2(sender), driver, ends })
    }

    /// Whether the request must be put in the words of HTTP/2.
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Sends the request and waits for the answer's header.
    pub async fn send(&mut self, request: Request<Payload>) -> Result<Response<Incoming>, WireError> {
        let outcome = match &mut self.sender {
            Sender::Http1(sender) => self.driver.beside(sender.send_request(request)).await,
            Sender::Http2(sender) => self.driver.beside(sender.send_request(request)).await,
        };
        outcome.map_err(|error| self.ends.problem(&error))
    }

    /// Waits for something of the answer, while the connection goes on.
    pub async fn beside<F: Future + Unpin>(&mut self, future: F) -> F::Output {
        self.driver.beside(future).await
    }

    /// The meaning of an error of the body.
    pub fn body_problem(&self, error: &hyper::Error) -> WireError {
        match self.ends.problem(error) {
            WireError::End => WireError::EndInBody,
            other => other,
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Connects, to send something at once, and more later: nothing is gained by waiting for that.
async fn begin(host: &str, port: u16, names: &Names) -> Result<(Forward, Ends), WireError> {
    let (line, ends) = lift(host, port, names).await?;
    let _ = setsockopt(&line, sockopt::TcpNoDelay, &true);
    let stream = Forward::new(line).map_err(|error| dial_problem(ends.remote, &error))?;
    Ok((stream, ends))
}

/// Connects, to send one thing at once.
pub(super) async fn lift(host: &str, port: u16, names: &Names) -> Result<(Line, Ends), WireError> {
    let (line, remote) = reach(host, port, names, First::Speaks).await?;
    let local = line.local_addr();
    Ok((line, Ends { local, remote, beginning: Beginning::default(), http2: false }))
}

/// Connects to the first address of `host`, a name or an address without brackets, that takes the connection.
///
/// # Errors
/// The problem of the last one.
pub(in crate::platform) async fn connect(
    host: &str,
    port: u16,
    names: &Names,
) -> Result<(Line, SocketAddr), WireError> {
    reach(host, port, names, First::Listens).await
}

async fn reach(host: &str, port: u16, names: &Names, first: First) -> Result<(Line, SocketAddr), WireError> {
    if let Ok(address) = host.parse() {
        let address = SocketAddr::new(address, port);
        let dialled = dial::dial(address, first).await;
        return dialled.map(|stream| (stream, address)).map_err(|error| dial_problem(address, &error));
    }
    Box::pin(reach_by_name(host, port, names, first)).await
}

async fn reach_by_name(host: &str, port: u16, names: &Names, first: First) -> Result<(Line, SocketAddr), WireError> {
    let mut problem = None;
    for address in names.find(host, port).await? {
        match dial::dial(address, first).await {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => problem = Some(dial_problem(address, &error)),
        }
    }
    Err(problem.expect("invariant: a name that was found has an address"))
}

fn dial_problem(address: SocketAddr, error: &io::Error) -> WireError {
    WireError::Dial { address: address.to_string(), problem: kernel_text(error) }
}

/// The kernel's words for an error, as upstream's client writes them: lower case, without the number.
fn kernel_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// `HandshakeFailure` as ` handshake failure`.
fn words(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, letter| {
        if letter.is_ascii_uppercase() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
        text
    })
}

impl Ends {
    fn tls_problem(&self, error: &io::Error) -> WireError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            _ if self.beginning.bytes().starts_with(b"HTTP/") => WireError::PlainAfterAll,
            Some(rustls::Error::InvalidMessage(_)) => WireError::NoTls,
            Some(rustls::Error::AlertReceived(alert)) => WireError::Alert(words(&format!("{alert:?}"))),
            Some(other) => WireError::Tls(other.to_string()),
            None => self.io_problem(error),
        }
    }

    /// The meaning of an error of the connection.
    pub fn io_problem(&self, error: &io::Error) -> WireError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return WireError::End;
        }
        let local = self.local.map(|local| format!("{local}->")).unwrap_or_default();
        WireError::Read { between: format!("{local}{}", self.remote), problem: kernel_text(error) }
    }

    fn problem(&self, error: &hyper::Error) -> WireError {
        let beginning = self.beginning.bytes();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            if let Some(error) = inner.downcast_ref::<io::Error>() {
                return self.io_problem(error);
            }
            source = inner.source();
        }
        if error.is_parse_too_large() {
            return WireError::LargeHeader;
        }
        // One that speaks first is cut off before the request: what it said tells more than that.
        let foreign = !beginning.is_empty() && !beginning.starts_with(b"HTTP/") && !self.http2;
        if error.is_parse() || foreign {
            let line = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches('\r');
            return WireError::Malformed(line.to_owned());
        }
        if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            return WireError::End;
        }
        WireError::Other(error.to_string())
    }
}

/// Runs what a connection needs beside the request, in the place of the one who waits.
struct Driver {
    connection: Option<Task>,
    started: Option<Started>,
}

/// The tasks of an HTTP/2 connection: those it has just started, and those under way.
struct Started {
    fresh: mpsc::UnboundedReceiver<Task>,
    tasks: FuturesUnordered<Task>,
}

impl Driver {
    fn new(
        connection: impl Future<Output = ()> + Send + 'static,
        started: Option<mpsc::UnboundedReceiver<Task>>,
    ) -> Self {
        let started = started.map(|fresh| Started { fresh, tasks: FuturesUnordered::new() });
        Self { connection: Some(Box::pin(connection)), started }
    }

    async fn beside<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            self.turn(cx);
            future.as_mut().poll(cx)
        })
        .await
    }

    fn turn(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(cx).is_ready()
        {
            self.connection = None;
        }
        let Some(Started { fresh, tasks }) = &mut self.started else { return };
        while let Poll::Ready(Some(task)) = fresh.poll_recv(cx) {
            tasks.push(task);
        }
        while let Poll::Ready(Some(())) = tasks.poll_next_unpin(cx) {}
    }
}

/// Gives the tasks that HTTP/2 wants to start to the [`Driver`].
#[derive(Clone)]
struct Beside {
    start: mpsc::UnboundedSender<Task>,
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beside")
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Beside {
    fn execute(&self, task: F) {
        // The driver is gone only when nobody waits any more.
        let _ = self.start.send(Box::pin(task));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// PRB-26: a connection never holds up whoever closes it, and is closed all the same.
    #[tokio::test]
    async fn a_connection_is_closed_without_lingering() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let (stream, _) = connect(&address.ip().to_string(), address.port(), &Names::OfNode).await.expect("connected");
        assert_eq!(nix::sys::socket::getsockopt(&stream, sockopt::Linger).expect("told").l_onoff, 0);
        let (mut other_side, _) = listener.accept().expect("accepted");
        drop(stream); // The other side has acknowledged nothing of an end, and never reads.
        let mut bytes = vec![];
        assert_eq!(other_side.read_to_end(&mut bytes).expect("an orderly end"), 0);
    }
}
