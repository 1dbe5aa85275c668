//! Connections of the gRPC sockets: HTTP/2, bounded in number, calls and time.
//!
//! Owned by the listener that accepts them, so they end with it, and their calls with them.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

use crate::platform::network::grpc_authority::AnyAuthority;
use crate::platform::network::grpc_socket::GrpcSocket;
use crate::server::listening::accepting::{Accept, Standing, accept_all};

/// Open connections. When there is one more, the oldest without a watch gives way, so that idle ones cannot shut others out.
const CONNECTIONS_MAX: usize = 64;
/// Calls under way on one connection.
const CALLS_MAX: u32 = 64;
/// Of all headers of a call.
const HEADERS_MAX: u32 = 16 * 1024;
/// Bytes that a client may send ahead of the call's reader: far more than any request has.
const WINDOW: u32 = 64 * 1024;
/// From a call's head to its answer's head. An agent that is new takes up to ten seconds to know its pods.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Watches that are open on a connection; part of every call.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches(Arc<AtomicUsize>);

/// An open watch: its connection is not closed to make room.
#[derive(Debug)]
pub(super) struct OpenWatch(Watches);

impl Watches {
    /// Counts a watch until it is dropped.
    pub(super) fn open(&self) -> OpenWatch {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenWatch(self.clone())
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Standing for Watches {
    fn gives_way(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Accept for GrpcSocket {
    type Connection = AnyAuthority<UnixStream>;

    async fn accept(&self) -> io::Result<Option<Self::Connection>> {
        self.accept().await.map(Some)
    }
}

/// Accepts and answers until accepting fails for good; says why. Dropping the future ends all connections.
pub(super) async fn serve(socket: GrpcSocket, routes: Routes) -> String {
    let begin = |stream| {
        let watches = Watches::default();
        (converse(stream, routes.clone(), watches.clone()), watches)
    };
    accept_all(socket, CONNECTIONS_MAX, begin).await
}

/// One client's connection, to its end.
async fn converse(stream: AnyAuthority<UnixStream>, routes: Routes, watches: Watches) {
    let calls = Arc::new(Mutex::new(JoinSet::new()));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(watches.clone());
        answer(request, routes.clone())
    });
    let served = http2::Builder::new(Calls(Arc::downgrade(&calls)))
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    // How a client's connection ends is the client's business.
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of a gRPC client broke");
    }
}

async fn answer(request: Request<Incoming>, routes: Routes) -> Result<Response<Body>, Infallible> {
    match tokio::time::timeout(ANSWER_MAX, routes.oneshot(request)).await {
        Ok(answer) => answer,
        Err(_) => Ok(Status::deadline_exceeded("the answer took too long").into_http()),
    }
}

/// Starts the calls of one connection; they end with it.
#[derive(Clone)]
struct Calls(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Calls {
    fn execute(&self, call: F) {
        let Some(calls) = self.0.upgrade() else { return };
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = calls.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(%error, "a gRPC call was not answered: its handler panicked");
            }
        }
        calls.spawn(call);
    }
}
