//! The runtime behind its socket: CRI v1 over gRPC.
//!
//! One connection per endpoint, made when first needed and anew when it broke. Every call has the deadline of
//! CRI-02, told to the runtime too; every answer is bounded (16 MiB, SEC-49) and checked (CRI-03). Keeps the
//! connection, and whether lists come in parts (CRI-38): dropping it loses nothing.

mod channel;
mod connection;
mod events;
mod images;
mod lists;
mod runtime;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tonic::metadata::AsciiMetadataKey;
use tonic::{Code, Request, Response, Status};

use super::convert::{self, API_VERSION};
use super::instrumented::{Call, CallObserver, TimedCall};
use super::wire::image_service_client::ImageServiceClient;
use super::wire::runtime_service_client::RuntimeServiceClient;
use super::{CriError, CriResult, RuntimeVersion, wire};
use channel::Channel;
use connection::Attempts;
use lists::Lists;

/// Sends a message by a method of a service and gives the checked answer. A macro, because the generated clients
/// borrow themselves for as long as the call lasts, and each method is a type of its own.
macro_rules! ask {
    ($this:ident.$service:ident, $method:ident, $call:expr, $limit:expr, $message:expr, $read:expr) => {{
        let limit: Option<Duration> = $limit;
        let request = $crate::cri::grpc::request($message, limit, &*$this.observer);
        let mut client = $this.$service.client.clone();
        let answer = async move { client.$method(request).await };
        $this.finish($call, &$this.$service.endpoint, limit, answer, $read).await
    }};
}
use ask;

/// The largest answer that is read. Upstream's limit.
const ANSWER_MAX: usize = 16 * 1024 * 1024;
/// Upstream's authority. Where the socket is, the channel knows.
const ORIGIN: &str = "http://localhost";
/// Longer deadlines are as good as this one, and gRPC cannot write them.
const DEADLINE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// A container runtime and its image service, reached through Unix sockets.
pub struct GrpcRuntime {
    runtime: Peer<RuntimeServiceClient<Channel>>,
    images: Peer<ImageServiceClient<Channel>>,
    /// `runtimeRequestTimeout`.
    request_timeout: Duration,
    observer: Arc<dyn CallObserver>,
}

/// One service of one endpoint.
struct Peer<C> {
    /// For messages.
    endpoint: Arc<str>,
    /// Cheap to clone; clones share the connection.
    client: C,
    lists: Lists,
}

impl GrpcRuntime {
    /// A runtime at `endpoint` (`unix:///path`) with its image service at `image_endpoint`; empty means the same.
    /// Connects with the first call: a socket that is missing now may be there then. Must be called within tokio.
    ///
    /// # Errors
    /// An endpoint that is no Unix socket.
    pub fn connect(
        endpoint: &str,
        image_endpoint: &str,
        request_timeout: Duration,
        observer: Arc<dyn CallObserver>,
    ) -> CriResult<Self> {
        let path = connection::socket_path(endpoint)?;
        let image_path = match image_endpoint {
            "" => path.clone(),
            other => connection::socket_path(other)?,
        };
        let (name, image_name) = (connection::name(&path), connection::name(&image_path));
        let shared = path == image_path;
        let channel = Channel::new(Attempts::new(path));
        let image_channel = if shared { channel.clone() } else { Channel::new(Attempts::new(image_path)) };
        let origin = Uri::from_static(ORIGIN);
        let runtime = RuntimeServiceClient::with_origin(channel, origin.clone()).max_decoding_message_size(ANSWER_MAX);
        let images = ImageServiceClient::with_origin(image_channel, origin).max_decoding_message_size(ANSWER_MAX);
        Ok(Self {
            runtime: Peer { endpoint: name, client: runtime, lists: Lists::default() },
            images: Peer { endpoint: image_name, client: images, lists: Lists::default() },
            request_timeout,
            observer,
        })
    }

    /// The same runtime, asked for lists in parts or for whole lists, as it is without this call (`CRIListStreaming`).
    /// A service that cannot send parts is asked for whole lists all the same.
    #[must_use]
    pub fn with_lists_in_parts(self, in_parts: bool) -> Self {
        self.runtime.lists.set(in_parts);
        self.images.lists.set(in_parts);
        self
    }

    /// The handshake at the agent's start (CRI-01): both services answer, and the runtime speaks our version.
    ///
    /// # Errors
    /// The first thing that is wrong, with the endpoint's name: no agent should start on it.
    pub async fn check_runtime(&self) -> CriResult<RuntimeVersion> {
        let probe = wire::VersionRequest { version: String::new() };
        let answer = ask!(self.runtime, version, Call::VERSION, Some(self.request_timeout), probe, |_, _| Ok(()));
        answer.map_err(|error| refusal(error, "CRI v1 runtime API", &self.runtime.endpoint))?;
        let probe = wire::ImageFsInfoRequest {};
        let limit = Some(self.request_timeout);
        let answer = ask!(self.images, image_fs_info, Call::IMAGE_FS_INFO, limit, probe, |_, _| Ok(()));
        answer.map_err(|error| refusal(error, "CRI v1 image API", &self.images.endpoint))?;
        let version = self.typed_version().await;
        version.map_err(|error| refusal(error, "version of the CRI v1 runtime API", &self.runtime.endpoint))
    }

    /// `Version` with our own version, which the answer must repeat.
    async fn typed_version(&self) -> CriResult<RuntimeVersion> {
        let request = wire::VersionRequest { version: API_VERSION.to_owned() };
        ask!(self.runtime, version, Call::VERSION, Some(self.request_timeout), request, convert::version)
    }

    /// Waits for an answer no longer than `limit`, checks it with `read`, tells the observer.
    async fn finish<A, T>(
        &self,
        call: Call,
        endpoint: &str,
        limit: Option<Duration>,
        answer: impl Future<Output = Result<Response<A>, Status>> + Send,
        read: impl FnOnce(&'static str, A) -> CriResult<T> + Send,
    ) -> CriResult<T> {
        let timed = TimedCall::begin(&*self.observer, call);
        let answer = match limit {
            None => answer.await.map_err(|status| error_of(call, endpoint, None, &status)),
            Some(limit) => match tokio::time::timeout(limit.min(DEADLINE_MAX), answer).await {
                Ok(answer) => answer.map_err(|status| error_of(call, endpoint, Some(limit), &status)),
                Err(_) => Err(CriError::Deadline { call: call.method, limit }),
            },
        };
        let outcome = answer.and_then(|response| read(call.method, response.into_inner()));
        timed.end(outcome.is_err());
        outcome
    }
}

/// A request that tells the runtime when nobody will wait for it any more, and what it is part of.
fn request<Q>(message: Q, limit: Option<Duration>, observer: &dyn CallObserver) -> Request<Q> {
    let mut request = Request::new(message);
    if let Some(limit) = limit {
        request.set_timeout(limit.min(DEADLINE_MAX));
    }
    for (name, value) in observer.context() {
        if let (Ok(name), Ok(value)) = (AsciiMetadataKey::from_bytes(name.as_bytes()), value.parse()) {
            request.metadata_mut().insert(name, value);
        }
    }
    request
}

/// Why the handshake failed, naming what was asked of whom.
fn refusal(error: CriError, what: &str, endpoint: &str) -> CriError {
    let told = |said: &dyn std::fmt::Display| format!("validate {what} for endpoint {endpoint:?}: {said}");
    match error {
        CriError::NotFound { message } => CriError::NotFound { message: told(&message) },
        CriError::Unavailable { message } => CriError::Unavailable { message: told(&message) },
        CriError::Unimplemented { message } => CriError::Unimplemented { message: told(&message) },
        CriError::InvalidAnswer { call, problem } => CriError::InvalidAnswer { call, problem: told(&problem) },
        CriError::Other { code, message } => CriError::Other { code, message: told(&message) },
        slow @ CriError::Deadline { .. } => CriError::Unavailable { message: told(&slow) },
    }
}

/// A gRPC status in our words. A status may be made on this side, because the connection broke or the answer could not be
/// read. It becomes [`CriError::Unavailable`] or [`CriError::InvalidAnswer`], whatever its code.
fn error_of(call: Call, endpoint: &str, limit: Option<Duration>, status: &Status) -> CriError {
    let call = call.method;
    if let Some(source) = status.source() {
        let causes: Vec<_> = chain(source).map(ToString::to_string).collect();
        return CriError::Unavailable { message: format!("{endpoint}: {call}: {}", causes.join(": ")) };
    }
    if let Some(problem) = unreadable(status) {
        return CriError::InvalidAnswer { call, problem: format!("{endpoint}: {problem}") };
    }
    let code = code_name(status.code());
    let message = format!("{}{}", rpc_prefix(code), status.message());
    match status.code() {
        Code::NotFound => CriError::NotFound { message },
        Code::Unimplemented => CriError::Unimplemented { message },
        Code::Unavailable => CriError::Unavailable { message },
        Code::DeadlineExceeded => match limit {
            Some(limit) => CriError::Deadline { call, limit },
            None => CriError::Other { code, message },
        },
        _ => CriError::Other { code, message },
    }
}

/// An error and its causes.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

/// The fault in an answer that the gRPC library refused to read: too large, or no such message.
fn unreadable(status: &Status) -> Option<&str> {
    let told = status.message();
    let too_large = status.code() == Code::OutOfRange && told.contains("decoded message length too large");
    let garbled = status.code() == Code::Internal && told.starts_with("failed to decode Protobuf message");
    (too_large || garbled).then_some(told)
}

/// How upstream's gRPC library begins the text of an error; part of what users see in Events.
fn rpc_prefix(code: &str) -> String {
    format!("rpc error: code = {code} desc = ")
}

/// A status code as upstream spells it.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// An object that is already gone need not be stopped or removed.
fn absent_is_done(outcome: CriResult<()>) -> CriResult<()> {
    match outcome {
        Err(CriError::NotFound { .. }) => Ok(()),
        other => other,
    }
}

/// A duration in the whole seconds of the wire.
fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
