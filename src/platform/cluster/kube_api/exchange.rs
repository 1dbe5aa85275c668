//! One request and its answer: the time limit, the bounds, the server's wish to be asked later, and what went wrong as an
//! [`ApiError`]. Owned by the call; keeps nothing after it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::client::Body;
use serde::Deserialize;

use tracing::Instrument;

use super::error::granted;
use super::{ApiError, Observed};

/// The most bytes of an answer: a list of every pod, config map and secret of a node fits many times over.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most bytes read of the body of a refusal.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of a refusal in plain text which go into the error, as in upstream's client.
const TEXT_BYTES_MAX: usize = 2048;
/// How often a call is made again because the server asks to come back later, as in upstream's client.
const RETRIES_MAX: usize = 10;

/// A request, before it is sent. It can be sent again.
pub(super) struct Call {
    pub method: Method,
    /// Path and query.
    pub path: String,
    pub content_type: &'static str,
    pub body: Bytes,
    /// For the text of a refusal without one: resource and name, such as `pods web`.
    pub about: String,
}

impl Call {
    pub fn get(path: String, about: String) -> Self {
        Self { method: Method::GET, path, content_type: "", body: Bytes::new(), about }
    }

    pub fn with_json(method: Method, path: String, about: String, body: Bytes) -> Self {
        Self { method, path, content_type: "application/json", body, about }
    }

    /// Verb and address as upstream's client writes them: `Get "https://…"`.
    pub fn title(&self, server: &str) -> String {
        let verb = self.method.as_str();
        format!("{}{} \"{server}{}\"", &verb[..1], verb[1..].to_lowercase(), self.path)
    }

    fn request(&self) -> Result<Request<Body>, ApiError> {
        let mut builder = Request::builder().method(self.method.clone()).uri(&self.path);
        builder = builder.header(ACCEPT, "application/json");
        if !self.body.is_empty() {
            builder = builder.header(CONTENT_TYPE, self.content_type);
        }
        let wrong = |error: http::Error| ApiError::Request(format!("{}: {error}", self.title("")));
        builder.body(Body::from(self.body.clone())).map_err(wrong)
    }

    fn refused(&self, code: u16, headers: &HeaderMap, body: &[u8]) -> ApiError {
        let retry_after = retry_after(headers);
        if let Ok(status) = serde_json::from_slice::<Status>(body)
            && status.status.as_deref() == Some("Failure")
        {
            return ApiError::from_status(&status, code, retry_after);
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("text/");
        let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]);
        let said = if kind.starts_with("text/") { text.trim() } else { "unknown" };
        let about = match self.about.as_str() {
            "" => String::new(),
            about => format!("({} {about})", self.method.as_str().to_lowercase()),
        };
        ApiError::from_code(code, self.method == Method::POST, said, &about, retry_after)
    }
}

/// The way that a call goes.
pub(super) struct Line<'a> {
    pub client: &'a kube::Client,
    /// The server's address, for texts.
    pub server: &'a str,
    /// The observer of the call.
    pub observed: Option<&'a Observed>,
}

impl Line<'_> {
    /// Sends a request once; tells how that went.
    pub async fn exchange(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let mut request = call.request()?;
        let Some(observed) = self.observed else { return self.deliver(call, request).await };
        for (name, value) in observed.context() {
            if let Ok(value) = value.parse() {
                request.headers_mut().insert(name, value);
            }
        }
        let began = observed.uptime();
        let response = self.deliver(call, request).await;
        let code = response.as_ref().ok().map(|response| response.status().as_u16());
        observed.answered(&call.method, code, began, call.body.len());
        response
    }

    async fn deliver(&self, call: &Call, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        self.client.send(request).await.map_err(|error| transport(&call.title(self.server), &error))
    }
}

/// Sends the call and waits for the head of its answer, which is a success; within `deadline`.
pub(super) async fn open(line: &Line<'_>, call: &Call, deadline: Duration) -> Result<Response<Body>, ApiError> {
    let late = || ApiError::Deadline { request: call.title(line.server) };
    let sent = send(line, call).instrument(span(call));
    tokio::time::timeout(deadline, sent).await.unwrap_or_else(|_| Err(late()))
}

/// Sends the call and reads its answer, which is a success; within `deadline`.
pub(super) async fn ask(line: &Line<'_>, call: &Call, deadline: Duration) -> Result<Bytes, ApiError> {
    let exchange = async {
        let response = send(line, call).await?;
        let too_large = || ApiError::Answer(format!("{}: answer larger than 64 MiB", call.title(line.server)));
        let whole = read(response.into_body(), ANSWER_BYTES_MAX).await?.whole.ok_or_else(too_large)?;
        if let Some(observed) = line.observed {
            observed.read(&call.method, whole.len());
        }
        Ok(whole)
    };
    let late = || ApiError::Deadline { request: call.title(line.server) };
    tokio::time::timeout(deadline, exchange.instrument(span(call))).await.unwrap_or_else(|_| Err(late()))
}

/// Takes an answer apart. The text of the error names place and kind of the fault, not what stands there.
pub(super) fn decode<'a, T: Deserialize<'a>>(what: &str, json: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let fault = match error.classify() {
            serde_json::error::Category::Eof => "ends too early",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "is no JSON",
            serde_json::error::Category::Data => "does not fit",
        };
        ApiError::Answer(format!("decode {what}: the answer {fault} at line {line}, column {column}"))
    })
}

/// The span of a call with all its tries.
fn span(call: &Call) -> tracing::Span {
    tracing::info_span!(
        target: "podwright::turn", "api call",
        otel.name = %format_args!("HTTP {}", call.method), otel.kind = "client",
        http.request.method = call.method.as_str(), about = call.about.as_str(),
    )
}

async fn send(line: &Line<'_>, call: &Call) -> Result<Response<Body>, ApiError> {
    for tried in 0.. {
        let response = line.exchange(call).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let code = head.status.as_u16();
        // Only a header asks to come back; as upstream, for 429 and failures of the server alone.
        let wait = retry_after(&head.headers).filter(|_| code == 429 || code >= 500);
        let read = read(body, REFUSAL_BYTES_MAX).await;
        match wait {
            Some(wait) if tried < RETRIES_MAX => {
                if let Some(observed) = line.observed {
                    observed.retried(&call.method, code);
                }
                tokio::time::sleep(wait).await;
            }
            _ => {
                let body = read.map(|read| read.beginning).unwrap_or_default();
                return Err(call.refused(code, &head.headers, &body));
            }
        }
    }
    unreachable!("the loop ends at the last try")
}

struct Read {
    /// The body, if it was not larger than allowed.
    whole: Option<Bytes>,
    beginning: Bytes,
}

async fn read(mut body: Body, bytes_max: usize) -> Result<Read, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        let room = bytes_max - bytes.len();
        if data.len() > room {
            bytes.extend_from_slice(&data[..room]);
            return Ok(Read { whole: None, beginning: bytes.into() });
        }
        bytes.extend_from_slice(&data);
    }
    let bytes = Bytes::from(bytes);
    Ok(Read { whole: Some(bytes.clone()), beginning: bytes })
}

/// A body that ended before its end.
pub(super) fn broken(error: &kube::Error) -> ApiError {
    let text = cause(error);
    ApiError::Transport(format!("unexpected error when reading response body. Please retry. Original error: {text}"))
}

fn transport(title: &str, error: &kube::Error) -> ApiError {
    ApiError::Transport(format!("{title}: {}", cause(error)))
}

/// The cause, without the words that the library puts before it.
fn cause(error: &kube::Error) -> String {
    match error {
        kube::Error::Service(inner) => inner.to_string(),
        kube::Error::HyperError(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

/// Whole seconds of a `Retry-After`, a minute at most; dates are not understood, as in upstream's client.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse::<u32>().ok()?;
    Some(granted(seconds.into()))
}
