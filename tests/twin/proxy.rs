//! A proxy before a runtime's socket that passes every gRPC call on and records those that change something.
//!
//! Bytes go through as they are, so that the agent and the runtime notice nothing: streams, trailers, cancelled calls and
//! a lost runtime included. Keeps the recorded calls in the order in which they were made.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};

use crate::decode::Protocol;

/// Calls that change something, by their last name.
const RECORDED: [&str; 15] = [
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
    "ReopenContainerLog",
    "ExecSync",
    "PullImage",
    "RemoveImage",
    "UpdateRuntimeConfig",
    "CheckpointContainer",
];
/// A window so large that no call waits for another.
const WINDOW: u32 = 64 << 20;

/// One call that was made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The last name of the method.
    pub method: String,
    /// The request.
    pub request: Value,
    /// The answer; null while there is none.
    pub answer: Value,
    /// The status of gRPC: empty while there is none, `0` for a success, else the number and the message.
    pub status: String,
}

/// The calls of one node.
#[derive(Clone)]
pub struct Record {
    calls: Arc<Mutex<Vec<Call>>>,
    protocol: Arc<Protocol>,
}

type Body = BoxBody<Bytes, hyper::Error>;

impl Record {
    /// An empty record.
    pub fn new(protocol: Arc<Protocol>) -> Self {
        Self { calls: Arc::default(), protocol }
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no holder panics").clone()
    }

    fn begin(&self, path: &str, body: &[u8]) -> Option<usize> {
        let method = path.rsplit('/').next().filter(|method| RECORDED.contains(method))?.to_owned();
        let call =
            Call { method, request: self.protocol.request(path, body), answer: Value::Null, status: String::new() };
        let mut calls = self.calls.lock().expect("no holder panics");
        calls.push(call);
        Some(calls.len() - 1)
    }

    fn end(&self, place: usize, path: &str, body: &[u8], headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let message = text("grpc-message");
        let answer = self.protocol.answer(path, body);
        let mut calls = self.calls.lock().expect("no holder panics");
        calls[place].answer = answer;
        calls[place].status = format!("{} {message}", text("grpc-status")).trim().to_owned();
    }
}

/// Serves `socket` until the runtime of tokio ends.
pub fn serve(handle: &tokio::runtime::Handle, socket: &Path, backend: PathBuf, record: Record) {
    let _context = handle.enter();
    let listener = UnixListener::bind(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
    let inner = handle.clone();
    handle.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            inner.spawn(carry(stream, backend.clone(), record.clone()));
        }
    });
}

/// One connection of the agent. A connection to a runtime that is away ends at once, as without a proxy.
async fn carry(agent: UnixStream, backend: PathBuf, record: Record) {
    let Ok(runtime) = UnixStream::connect(&backend).await else { return };
    let mut client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let Ok((sender, connection)) = client.handshake::<_, Full<Bytes>>(TokioIo::new(runtime)).await else { return };
    let service = service_fn(move |request| pass(request, sender.clone(), record.clone()));
    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    server.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW).max_concurrent_streams(10_000);
    let served = server.serve_connection(TokioIo::new(agent), service);
    tokio::select! {
        _ = served => {}
        // The runtime is gone, and with it the agent's connection.
        _ = connection => {}
    }
}

/// One call. Every request of the CRI is one message, so it is read whole; answers may be streams.
async fn pass(
    request: Request<Incoming>,
    mut runtime: SendRequest<Full<Bytes>>,
    record: Record,
) -> Result<Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let body = body.collect().await?.to_bytes();
    let place = record.begin(&path, &body);
    let answer = runtime.send_request(Request::from_parts(head, Full::new(body))).await?;
    let Some(place) = place else { return Ok(answer.map(BodyExt::boxed)) };
    let (head, body) = answer.into_parts();
    let body = body.collect().await?;
    let trailers = body.trailers().cloned();
    let bytes = body.to_bytes();
    record.end(place, &path, &bytes, trailers.as_ref().unwrap_or(&head.headers));
    // An error without a message has its status in the headers, and clients want no end but theirs.
    if trailers.is_none() {
        return Ok(Response::from_parts(head, Full::new(bytes).map_err(|never| match never {}).boxed()));
    }
    let whole = Full::new(bytes).with_trailers(async move { trailers.map(Ok) }).map_err(|never| match never {});
    Ok(Response::from_parts(head, whole.boxed()))
}
