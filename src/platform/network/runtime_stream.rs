//! The runtime's stream server: dials the URL that the runtime gave, sends one upgrade request, and hands over the
//! connection once it is upgraded. Never follows a redirect; any other answer ends the connection (SEC-32).
//!
//! Only the machine itself is dialled (SEC-33): a runtime that names another host would have the agent carry a user's
//! terminal there. The question is whether the kernel would send to the address by itself; a name is looked up once, and
//! the addresses found are what is dialled.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsConnector;
use url::Url;

use super::tls::{self, Offer};
use crate::platform::host::blocking::lookup::{self, LookupError};

/// From dialling to a connection that takes requests.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// From the request to the head of its answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// For the body of a refusal, as upstream.
const REFUSAL_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a refusal's body.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the answer's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A read of so many bytes is worth what it costs: they fill a record of TLS.
const FULL_BYTES: usize = 16 * 1024;
/// Smaller reads that make a flow, when they come within this time and nothing was sent in between.
const FLOW_READS: u32 = 4;
const FLOW_WINDOW: Duration = Duration::from_millis(3);
/// For how long a flow is left to gather.
const GATHER: Duration = Duration::from_millis(1);

/// An upgrade request.
pub struct Ask {
    /// Where, as the runtime says.
    pub url: String,
    /// `GET` for WebSocket, `POST` or `GET` for SPDY.
    pub method: Method,
    /// All headers, `Connection` and `Upgrade` too.
    pub headers: HeaderMap,
}

/// The stream server's answer.
pub enum Answer {
    /// 101: the connection is the client's now.
    Upgraded(HeaderMap, RuntimeStream),
    /// Anything else; the connection is closed.
    Refused(Refusal),
}

/// An answer that is no upgrade.
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, up to a bound.
    pub body: Bytes,
}

/// Why there is no answer, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The URL cannot be dialled, or nobody answers there.
    #[error("error dialing backend: {0}")]
    Dial(DialError),
    /// The connection broke, or what came is no answer.
    #[error(transparent)]
    Answer(AnswerError),
}

/// Why there is no connection to the stream server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The runtime's text is no URL.
    #[error("parse {url:?}: {problem}")]
    Url {
        /// The text.
        url: String,
        /// The fault in it.
        problem: url::ParseError,
    },
    /// A scheme other than `http` and `https`.
    #[error("unknown scheme: {0}")]
    Scheme(String),
    /// The name gave no address.
    #[error("dial tcp: {0}")]
    Lookup(#[from] LookupError),
    /// An address of another machine.
    #[error("dial tcp {0}: not an address of this machine, where the runtime's streams are")]
    Foreign(SocketAddr),
    /// The address does not take the connection; with the kernel's words.
    #[error("dial tcp {0}: connect: {1}")]
    Refused(SocketAddr, String),
    /// The handshake of TLS failed.
    #[error("tls: {0}")]
    Tls(String),
    /// Nobody answered in time.
    #[error("dial: no answer within {}s", DIAL_LIMIT.as_secs())]
    Late,
}

/// Why a request for an upgrade has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The library does not take the request.
    #[error("{0}")]
    Request(String),
    /// The connection broke before the answer.
    #[error("read the answer to the upgrade request: {0}")]
    Broken(String),
    /// The refusal's body did not end in time.
    #[error("the runtime's refusal has no end")]
    EndlessRefusal,
    /// The connection broke while it was upgraded.
    #[error("upgrade: {0}")]
    Upgrade(String),
    /// No answer came in time.
    #[error("upgrade request: no answer within {}s", ANSWER_LIMIT.as_secs())]
    Late,
}

/// A connection that was upgraded: first what came with the answer, then what comes.
///
/// Runtimes write a command's output in small pieces. Taken one by one, each costs a wake, a read, and a record and a write
/// of its own towards the client. That is half as much again as all else; a flow of them is therefore left to gather for a
/// moment. A caller that waits for an answer does not wait for that.
pub struct RuntimeStream {
    early: Bytes,
    inner: Box<dyn Duplex>,
    flow: Flow,
}

/// Tells a flow of small pieces from an exchange of them.
struct Flow {
    /// Small reads since `began`.
    reads: u32,
    began: Instant,
    /// Nothing is read until then.
    gathers: Option<Pin<Box<Sleep>>>,
}

/// The clock that the pause is measured by.
#[expect(clippy::disallowed_methods, reason = "a connection's pace, which no actor decides by")]
fn now() -> Instant {
    Instant::now()
}

impl Flow {
    fn new() -> Self {
        Self { reads: 0, began: now(), gathers: None }
    }

    fn has_read(&mut self, bytes: usize) {
        if bytes == 0 || bytes >= FULL_BYTES {
            return;
        }
        let now = now();
        if now.duration_since(self.began) > FLOW_WINDOW {
            (self.began, self.reads) = (now, 0);
        }
        self.reads += 1;
        if self.reads >= FLOW_READS {
            // It goes on as a flow if more comes soon after.
            (self.began, self.reads) = (now + GATHER, FLOW_READS - 1);
            self.gathers = Some(Box::pin(tokio::time::sleep(GATHER)));
        }
    }

    fn has_written(&mut self) {
        self.reads = 0;
    }

    fn poll_gathered(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(gathers) = &mut self.gathers {
            ready!(gathers.as_mut().poll(cx));
            self.gathers = None;
        }
        Poll::Ready(())
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// Asks for an upgrade.
///
/// # Errors
/// There was no answer.
pub async fn open(ask: Ask) -> Result<Answer, StreamError> {
    let url = Url::parse(&ask.url);
    let url = url.map_err(|problem| StreamError::Dial(DialError::Url { url: ask.url.clone(), problem }))?;
    let dialled = tokio::time::timeout(DIAL_LIMIT, dial(&url)).await;
    let stream = match dialled {
        Ok(dialled) => dialled.map_err(StreamError::Dial)?,
        Err(_) => return Err(StreamError::Dial(DialError::Late)),
    };
    match tokio::time::timeout(ANSWER_LIMIT, exchange(stream, &url, ask)).await {
        Ok(answer) => answer.map_err(StreamError::Answer),
        Err(_) => Err(StreamError::Answer(AnswerError::Late)),
    }
}

async fn dial(url: &Url) -> Result<Box<dyn Duplex>, DialError> {
    let is_tls = match url.scheme() {
        "http" => false,
        "https" => true,
        other => return Err(DialError::Scheme(other.to_owned())),
    };
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or_default();
    let addresses = lookup::find(host, port).await?;
    if let Some(foreign) = addresses.iter().find(|address| !is_own(address.ip())) {
        return Err(DialError::Foreign(*foreign));
    }
    let mut problem = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Keystrokes must not wait for more of them.
                let _ = stream.set_nodelay(true);
                return if is_tls { encrypted(stream, host).await } else { Ok(Box::new(stream)) };
            }
            Err(error) => problem = Some(DialError::Refused(address, kernel_text(&error))),
        }
    }
    Err(problem.expect("invariant: a name that was found has an address"))
}

/// As upstream: the certificate must be one that the system trusts, and for this host.
async fn encrypted(stream: TcpStream, host: &str) -> Result<Box<dyn Duplex>, DialError> {
    let config = crate::platform::host::blocking::run(|| tls::system_client(Offer::Http1))
        .await
        .map_err(|error| DialError::Tls(error.to_string()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| DialError::Tls(error.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| DialError::Tls(error.to_string()))?))
}

/// Whether packets to this address stay on the machine. Asks the kernel's routes; nothing is sent.
fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let routed = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    routed.is_ok_and(|from| from.ip() == address)
}

/// The kernel's words, as upstream's client writes them: lower case, without the number.
fn kernel_text(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

async fn exchange(stream: Box<dyn Duplex>, url: &Url, ask: Ask) -> Result<Answer, AnswerError> {
    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let mut request = Request::builder().method(ask.method).uri(path).body(Empty::<Bytes>::new());
    let request = request.as_mut().map_err(|error| AnswerError::Request(error.to_string()))?;
    *request.headers_mut() = ask.headers;
    let request = std::mem::take(request);
    let handshake = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| AnswerError::Request(error.to_string()))?;
    let mut connection = std::pin::pin!(connection.with_upgrades());
    let answer = sender.send_request(request);
    let mut answer = std::pin::pin!(answer);
    let mut is_driven = true;
    let response = loop {
        tokio::select! {
            biased;
            response = &mut answer => break response,
            _ = &mut connection, if is_driven => is_driven = false,
        }
    };
    let mut response = response.map_err(|error| AnswerError::Broken(cause(&error)))?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let refusal = refusal(response);
        let refusal = tokio::time::timeout(REFUSAL_LIMIT, async {
            let mut refusal = std::pin::pin!(refusal);
            loop {
                tokio::select! {
                    biased;
                    refusal = &mut refusal => break refusal,
                    _ = &mut connection, if is_driven => is_driven = false,
                }
            }
        });
        return refusal.await.map(Answer::Refused).map_err(|_| AnswerError::EndlessRefusal);
    }
    let mut upgrade = hyper::upgrade::on(&mut response);
    let upgraded = loop {
        tokio::select! {
            biased;
            upgraded = &mut upgrade => break upgraded,
            _ = &mut connection, if is_driven => is_driven = false,
        }
    };
    let upgraded = upgraded.map_err(|error| AnswerError::Upgrade(cause(&error)))?;
    let parts = upgraded.downcast::<TokioIo<Box<dyn Duplex>>>();
    let parts = parts.map_err(|_| AnswerError::Upgrade("a foreign connection".to_owned()))?;
    let headers = std::mem::take(response.headers_mut());
    Ok(Answer::Upgraded(
        headers,
        RuntimeStream { early: parts.read_buf, inner: parts.io.into_inner(), flow: Flow::new() },
    ))
}

async fn refusal(response: Response<Incoming>) -> Refusal {
    let (head, body) = response.into_parts();
    // The error has the part of it that is there, even if it is cut.
    let body = Limited::new(body, REFUSAL_BYTES_MAX).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Refusal { status: head.status, headers: head.headers, body }
}

fn cause(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_incomplete_message() || error.is_canceled() { "unexpected EOF".to_owned() } else { cause.to_string() }
}

impl AsyncRead for RuntimeStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let length = self.early.len().min(buffer.remaining());
            buffer.put_slice(&self.early[..length]);
            self.early.advance(length);
            return Poll::Ready(Ok(()));
        }
        ready!(self.flow.poll_gathered(cx));
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if matches!(read, Poll::Ready(Ok(()))) {
            self.flow.has_read(buffer.filled().len() - before);
        }
        read
    }
}

impl AsyncWrite for RuntimeStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.flow.has_written();
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.flow.has_written();
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn joined() -> (RuntimeStream, DuplexStream) {
        let (inner, runtime) = duplex(256 * 1024);
        (RuntimeStream { early: Bytes::new(), inner: Box::new(inner), flow: Flow::new() }, runtime)
    }

    /// Reads what there is, and says how many bytes at what time.
    async fn take(stream: &mut RuntimeStream, began: Instant) -> (usize, Duration) {
        let mut buffer = vec![0; 64 * 1024];
        let bytes = stream.read(&mut buffer).await.expect("open");
        (bytes, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_flow_of_small_pieces_gathers() {
        let ((mut stream, mut runtime), began) = (joined(), now());
        for _ in 0..FLOW_READS {
            runtime.write_all(&[0; 100]).await.expect("open");
            assert_eq!(take(&mut stream, began).await, (100, Duration::ZERO));
        }
        for number in 1..=3 {
            for _ in 0..10 {
                runtime.write_all(&[0; 100]).await.expect("open");
            }
            assert_eq!(take(&mut stream, began).await, (1000, GATHER * number));
        }
        // Bytes that fill a record are read as they come.
        runtime.write_all(&[0; 200 * 1024]).await.expect("open");
        let first = take(&mut stream, began).await;
        assert_eq!(first, (64 * 1024, GATHER * 4));
        assert_eq!(take(&mut stream, began).await, first);
    }

    #[tokio::test(start_paused = true)]
    async fn neither_an_exchange_nor_a_trickle_gathers() {
        let ((mut stream, mut runtime), began) = (joined(), now());
        for _ in 0..20 {
            stream.write_all(b"question").await.expect("open");
            runtime.write_all(b"answer").await.expect("open");
            assert_eq!(take(&mut stream, began).await, (6, Duration::ZERO));
        }
        let ((mut stream, mut runtime), mut spent) = (joined(), Duration::ZERO);
        let began = now();
        for _ in 0..20 {
            runtime.write_all(b"line").await.expect("open");
            assert_eq!(take(&mut stream, began).await, (4, spent));
            tokio::time::sleep(FLOW_WINDOW).await;
            spent += FLOW_WINDOW;
        }
    }

    /// SEC-33: only the machine itself.
    #[test]
    fn sec_33_only_the_machine_itself_is_dialled() {
        for own in ["127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::ffff:127.0.0.1"] {
            assert!(is_own(own.parse().expect("an address")), "{own}");
        }
        for foreign in ["192.0.2.7", "8.8.8.8", "2001:db8::1", "224.0.0.1", "255.255.255.255"] {
            assert!(!is_own(foreign.parse().expect("an address")), "{foreign}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_dialled_is_told_in_upstreams_words() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
        for (url, expected) in [
            ("unix:///run/x.sock".to_owned(), "error dialing backend: unknown scheme: unix".to_owned()),
            (
                format!("http://{closed}/exec/x"),
                format!("error dialing backend: dial tcp {closed}: connect: connection refused"),
            ),
            (
                "http://192.0.2.7:80/exec/x".to_owned(),
                "error dialing backend: dial tcp 192.0.2.7:80: not an address of this machine, where the runtime's \
                 streams are"
                    .to_owned(),
            ),
        ] {
            let ask = Ask { url: url.clone(), method: Method::GET, headers: HeaderMap::new() };
            let error = open(ask).await.err().expect("nobody is there");
            assert_eq!(error.to_string(), expected, "{url}");
        }
    }
}
