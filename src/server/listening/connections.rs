//! Connections of the agent's plain listeners: HTTP/1.1, bounded in number, time and size.
//!
//! Owned by the listener that accepts them, so they end with it. Keeps no buffers between requests.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt;

use super::accepting::{self, Accept, accept_all};
use super::heads::{self, Head};
use super::room::{Metered, Room};
use crate::platform::network::listening;

/// Bytes of a request's head, and of the buffer in front of the socket, which grows only with what comes: Go's limit.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Headers of a request. Go has no such limit; room for each is made before any has come.
const HEADERS_MAX: usize = 1024;

/// From a request's head to its answer's head, where a command has to end first. Upstream waits for ever.
const LONG_ANSWER: Duration = Duration::from_secs(4 * 3600);

/// The limits of one listener's clients.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Limits {
    /// Open connections; when there is one more, the oldest whose user is not known gives way, then an idle one of the
    /// user with most of them: nobody shuts others out.
    pub connections_max: usize,
    /// Wait for the next request's head, from its beginning or from the end of the answer before.
    pub idle: Duration,
    /// From a request's head to its answer's head.
    pub answer: Duration,
    /// For all of a request's body, from when somebody begins to read it. Bytes that nobody reads are not waited for:
    /// such a connection ends with its answer.
    pub body: Duration,
}

impl Default for Limits {
    /// As upstream: a connection may idle for 90 s. The other limits are ours: every answer is made from memory, and what
    /// is sent here is a few bytes.
    fn default() -> Self {
        let (idle, answer, body) = (Duration::from_secs(90), Duration::from_secs(30), Duration::from_secs(30));
        Self { connections_max: 64, idle, answer, body }
    }
}

/// The other end of a connection; part of every request.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Peer {
    /// Its address, where it has one.
    pub(in crate::server) address: Option<SocketAddr>,
    /// The certificates it proved to have the key of, leaf first; not judged yet.
    pub(in crate::server) certificates: Arc<[CertificateDer<'static>]>,
}

/// The user of a connection, once known to have rights here, and the requests under way on it: who is closed to make room.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Standing(Arc<(OnceLock<Arc<str>>, AtomicUsize)>);

/// A request under way, from its head to the end of its answer.
pub(super) struct UnderWay(Standing);

impl Standing {
    /// The user has rights. The first one of a connection counts.
    pub(in crate::server) fn trust(&self, user: &str) {
        self.0.0.get_or_init(|| user.into());
    }

    fn begin(&self) -> UnderWay {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl accepting::Standing for Standing {
    fn gives_way(&self) -> bool {
        self.0.0.get().is_none()
    }

    fn idle_user(&self) -> Option<Arc<str>> {
        self.0.0.get().filter(|_| self.0.1.load(Ordering::Relaxed) == 0).cloned()
    }
}

/// The work before a connection may speak, such as a handshake.
pub(in crate::server) type Opening<S> = Pin<Box<dyn Future<Output = Option<(S, Peer)>> + Send>>;

impl Accept for tokio::net::TcpListener {
    type Connection = Opening<tokio::net::TcpStream>;

    async fn accept(&self) -> io::Result<Option<Self::Connection>> {
        let (stream, address) = self.accept().await?;
        listening::settle(&stream);
        let address = Some(listening::plain(address));
        Ok(Some(Box::pin(ready(Some((stream, Peer { address, ..Peer::default() }))))))
    }
}

/// Accepts and answers until accepting fails for good; says why. Dropping the future ends all connections.
pub(in crate::server) async fn serve<S>(
    listener: impl Accept<Connection = Opening<S>>,
    router: Router,
    limits: Limits,
) -> String
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let room = heads::room();
    let begin = |opening| {
        let standing = Standing::default();
        (converse(opening, router.clone(), limits, room.clone(), standing.clone()), standing)
    };
    accept_all(listener, limits.connections_max, begin).await
}

/// One client's connection, to its end.
async fn converse<S>(opening: Opening<S>, router: Router, limits: Limits, room: Room, standing: Standing)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some((stream, peer)) = opening.await else { return };
    let head = Arc::new(Head::new(&room));
    let stream = Metered { stream, meter: Arc::clone(&head) };
    let service = service_fn(move |mut request: Request<Incoming>| {
        head.is_read();
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(standing.clone());
        answer(request, router.clone(), limits, Arc::clone(&head), standing.begin())
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // How a client's connection ends is the client's business.
    let _ = served.await;
}

/// Whether the answer is the runtime's to give, however long a command or a checkpoint takes, or lasts as long as was
/// asked for.
fn takes_its_time(path: &str) -> bool {
    if path == "/debug/pprof/profile" {
        return true;
    }
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "run" | "exec" | "attach" | "portForward" | "checkpoint")
}

async fn answer(
    request: Request<Incoming>,
    router: Router,
    limits: Limits,
    head: Arc<Head>,
    under_way: UnderWay,
) -> Result<Response<Body>, Infallible> {
    let limit = if takes_its_time(request.uri().path()) { LONG_ANSWER } else { limits.answer };
    let request = request.map(|body| TimedBody { body, limit: limits.body, ends: None });
    let mut response = match tokio::time::timeout(limit, router.oneshot(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => crate::server::reply::text(StatusCode::GATEWAY_TIMEOUT, "the answer took too long\n"),
    };
    // Texts of pods may be in any answer; no browser is to take it for a page.
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(head.until_answered(response, under_way))
}

/// A request's body that has to come within a time.
struct TimedBody {
    body: Incoming,
    limit: Duration,
    /// Set when reading begins.
    ends: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
        }
        let limit = self.limit;
        let ends = self.ends.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ends.as_mut().poll(cx).map(|()| Some(Err(BodyError::TooSlow)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Why a request's body cannot be read to its end.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error(transparent)]
    Broken(hyper::Error),
    #[error("the request's body did not come in time")]
    TooSlow,
}

#[cfg(test)]
mod tests;
