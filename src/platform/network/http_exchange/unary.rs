//! One unary gRPC call over a plain HTTP/2 connection of its own, within one time limit. Messages are bytes here: whoever
//! asks knows what is in them.

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::header::{self, HeaderMap};

use super::connection::{Connection, Payload};
use super::error::WireError;
use super::peeked::Beginning;
use crate::logic::formats::url_query::unescaped;
use crate::platform::network::names::Names;

/// The most bytes of an answer that are read, its frame too.
const ANSWER_BYTES_MAX: usize = 10 * 1024;
/// The most characters of the server's own words that are kept.
const MESSAGE_CHARS_MAX: usize = 1024;
/// gRPC's code for a call that the server could not be asked.
const UNAVAILABLE: u32 = 14;
/// gRPC's code for an answer that makes no sense.
const INTERNAL: u32 = 13;
/// gRPC's code of an error that has none.
const UNKNOWN: u32 = 2;
/// gRPC's code for a method that there is not.
const UNIMPLEMENTED: u32 = 12;

/// The call.
pub struct Unary<'a> {
    /// Host name or address, without brackets.
    pub host: &'a str,
    /// Port.
    pub port: u16,
    /// `/package.Service/Method`.
    pub path: &'static str,
    /// The client's name for itself.
    pub user_agent: &'static str,
    /// The request, encoded.
    pub message: Vec<u8>,
    /// For the connection and the call together.
    pub timeout: std::time::Duration,
    /// How the host is looked up.
    pub names: &'a Names,
}

/// The problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnaryError {
    /// In time nobody took the connection, or nobody spoke HTTP/2 on it.
    Unconnected,
    /// Nobody there, or one who speaks something else; why.
    NoServer(WireError),
    /// The call did not end in time.
    Deadline,
    /// The call ended badly.
    Status {
        /// gRPC's code.
        code: u32,
        /// The server's words, bounded.
        message: String,
    },
}

/// Makes the call; gives the answer's message.
///
/// # Errors
/// See [`UnaryError`].
pub async fn unary(call: Unary<'_>) -> Result<Vec<u8>, UnaryError> {
    let mut deadline = std::pin::pin!(tokio::time::sleep(call.timeout));
    let mut connection = tokio::select! {
        biased;
        opened = Connection::open_http2(call.host, call.port, call.names) => opened.map_err(UnaryError::NoServer)?,
        () = deadline.as_mut() => return Err(UnaryError::Unconnected),
    };
    let beginning = connection.beginning();
    tokio::select! {
        biased;
        outcome = exchange(&mut connection, &call, &beginning) => outcome,
        () = deadline => Err(if speaks_http2(&beginning) { UnaryError::Deadline } else { UnaryError::Unconnected }),
    }
}

async fn exchange(connection: &mut Connection, call: &Unary<'_>, other: &Beginning) -> Result<Vec<u8>, UnaryError> {
    let broken = |problem: WireError| match speaks_http2(other) {
        true => UnaryError::Status { code: UNAVAILABLE, message: problem.to_string() },
        false => UnaryError::NoServer(problem),
    };
    let request =
        request(call).map_err(|problem| UnaryError::Status { code: INTERNAL, message: problem.to_string() })?;
    let response = connection.send(request).await.map_err(broken)?;
    let (head, mut body) = response.into_parts();
    if head.status != hyper::StatusCode::OK {
        let code = if head.status == hyper::StatusCode::NOT_FOUND { UNIMPLEMENTED } else { UNAVAILABLE };
        let message = format!("unexpected HTTP status code received from server: {}", head.status);
        return Err(UnaryError::Status { code, message });
    }
    // An answer without a message has its end in its header.
    let mut end = head.headers.contains_key("grpc-status").then_some(head.headers);
    let mut answer = Vec::new();
    while let Some(frame) = connection.beside(body.frame()).await {
        let frame = frame.map_err(|error| broken(connection.body_problem(&error)))?;
        match frame.into_data() {
            Ok(data) if answer.len() + data.len() > ANSWER_BYTES_MAX => {
                let message = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
                return Err(UnaryError::Status { code: INTERNAL, message });
            }
            Ok(data) => answer.extend_from_slice(&data),
            Err(frame) => end = frame.into_trailers().ok().or(end),
        }
    }
    match end.as_ref().map(status_of) {
        Some((0, _)) => message_of(&answer),
        Some((code, message)) => Err(UnaryError::Status { code, message }),
        None => {
            let message = "server closed the stream without sending trailers".to_owned();
            Err(UnaryError::Status { code: INTERNAL, message })
        }
    }
}

/// A server of HTTP/2 begins with its settings: the fourth byte is the frame's kind.
fn speaks_http2(beginning: &Beginning) -> bool {
    beginning.bytes().get(3) == Some(&4)
}

fn request(call: &Unary<'_>) -> Result<Request<Payload>, WireError> {
    let mut framed = BytesMut::with_capacity(call.message.len() + 5);
    framed.put_u8(0); // Not compressed.
    framed.put_u32(u32::try_from(call.message.len()).map_err(|error| WireError::Request(error.to_string()))?);
    framed.put_slice(&call.message);
    let host = if call.host.contains(':') { format!("[{}]", call.host) } else { call.host.to_owned() };
    Request::post(format!("http://{host}:{}{}", call.port, call.path))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::USER_AGENT, call.user_agent)
        .header(header::TE, "trailers")
        .header("grpc-timeout", format!("{}m", call.timeout.as_millis().min(99_999_999)))
        .body(Payload(Some(Bytes::from(framed))))
        .map_err(|error| WireError::Request(error.to_string()))
}

fn status_of(end: &HeaderMap) -> (u32, String) {
    let text = |name: &str| end.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let code = text("grpc-status").and_then(|code| code.parse().ok()).unwrap_or(UNKNOWN);
    let message = unescaped(&text("grpc-message").unwrap_or_default());
    (code, message.chars().take(MESSAGE_CHARS_MAX).collect())
}

fn message_of(answer: &[u8]) -> Result<Vec<u8>, UnaryError> {
    let wrong = |message: &str| UnaryError::Status { code: INTERNAL, message: message.to_owned() };
    let (frame, message) = answer.split_at_checked(5).ok_or_else(|| wrong("the answer has no message"))?;
    let length = u32::from_be_bytes([frame[1], frame[2], frame[3], frame[4]]) as usize;
    match frame[0] {
        0 if message.len() == length => Ok(message.to_vec()),
        0 => Err(wrong("the answer's message is not as long as it says")),
        _ => Err(wrong("the answer is compressed, which was not asked for")),
    }
}
