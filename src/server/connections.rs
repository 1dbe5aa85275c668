//! Connections of the agent's plain listeners: HTTP/1.1, bounded in number, time and size.
//!
//! Owned by the listener that accepts them, so they end with it. Keeps no buffers between requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, JoinSet};
use tower::ServiceExt;

/// Accepting that fails this often in a row ends the listener; its supervisor opens it anew.
const ACCEPT_FAILURES_MAX: u32 = 50;
/// Wait after a failure to accept, such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);
/// Bytes of a request's head, and of the buffer in front of the socket.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What one listener's clients may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Open connections; when there is one more, the oldest gives way, so that idle ones cannot shut others out.
    pub connections_max: usize,
    /// Wait for the next request's head, from its beginning or from the end of the answer before.
    pub idle: Duration,
    /// From a request's head to its answer's head.
    pub answer: Duration,
}

impl Default for Limits {
    /// As upstream: a connection may idle for 90 s. The answer's limit is ours: every answer is made from memory.
    fn default() -> Self {
        Self { connections_max: 64, idle: Duration::from_secs(90), answer: Duration::from_secs(30) }
    }
}

/// What accepting gives: a connection, or `None` for one that was turned away.
pub(super) trait Accept: Sync {
    /// The connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Waits for the next.
    fn accept(&self) -> impl Future<Output = io::Result<Option<Self::Stream>>> + Send;
}

impl Accept for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<Option<Self::Stream>> {
        self.accept().await.map(|(stream, _)| Some(stream))
    }
}

/// Accepts and answers until accepting fails for good; says why. Dropping the future ends all connections.
pub(super) async fn serve(listener: impl Accept, router: Router, limits: Limits) -> String {
    let mut connections = Connections { tasks: JoinSet::new(), order: VecDeque::new(), limits };
    let mut failures = 0;
    loop {
        tokio::select! {
            biased;
            Some(ended) = connections.tasks.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!(%error, "a request was not answered: its handler panicked");
                }
            }
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    failures = 0;
                    if let Some(stream) = stream {
                        connections.take(stream, router.clone());
                    }
                }
                Err(error) => {
                    failures += 1;
                    if failures >= ACCEPT_FAILURES_MAX {
                        return format!("cannot accept connections: {error}");
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
}

struct Connections {
    tasks: JoinSet<()>,
    order: VecDeque<AbortHandle>,
    limits: Limits,
}

impl Connections {
    fn take<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&mut self, stream: S, router: Router) {
        self.order.retain(|connection| !connection.is_finished());
        if self.order.len() >= self.limits.connections_max
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        let limits = self.limits;
        let connection = async move {
            let service = service_fn(move |request| answer(request, router.clone(), limits.answer));
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.idle)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // How a client's connection ends is the client's business.
            let _ = served.await;
        };
        self.order.push_back(self.tasks.spawn(connection));
    }
}

async fn answer(request: Request<Incoming>, router: Router, limit: Duration) -> Result<Response<Body>, Infallible> {
    let mut response = match tokio::time::timeout(limit, router.oneshot(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => super::reply::text(StatusCode::GATEWAY_TIMEOUT, "the answer took too long\n"),
    };
    // What pods wrote may be in any answer; no browser is to take it for a page.
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
