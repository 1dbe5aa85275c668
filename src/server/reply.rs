//! Answers, in the forms and with the texts that upstream's servers use.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use futures_util::{Stream, StreamExt};
use serde::Serialize;

/// An answer.
pub(super) type Reply = Response<Body>;

/// Plain text.
pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Reply {
    with_type(status, "text/plain; charset=utf-8", Body::from(body.into()))
}

/// A body of JSON that is made already.
pub(super) fn json_body(status: StatusCode, body: impl Into<Body>) -> Reply {
    with_type(status, "application/json", body.into())
}

/// JSON. A value that has no JSON form is the program's fault, and told as status 500.
pub(super) fn json<T: Serialize>(value: &T) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => json_body(StatusCode::OK, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {error}\n")),
    }
}

/// Lines of JSON as they come, for as long as that takes. A client that reads nothing holds up its own lines alone.
pub(super) fn json_lines<T: Serialize + 'static>(lines: impl Stream<Item = T> + Send + 'static) -> Reply {
    let lines = lines.map(|line| {
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        Ok::<_, serde_json::Error>(Bytes::from(bytes))
    });
    json_body(StatusCode::OK, Body::from_stream(lines))
}

/// Any type.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Reply {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Nothing is here.
pub(super) async fn not_found() -> Reply {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Nothing is here, below something that is.
pub(super) async fn page_not_found() -> Reply {
    text(StatusCode::NOT_FOUND, "404: Page Not Found")
}

/// Something is here, but only for `GET`.
pub(super) async fn only_get() -> Reply {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}

/// Something is here, but only for `POST`.
pub(super) async fn only_post() -> Reply {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Something is here, but only for `GET` and `POST`.
pub(super) async fn only_get_and_post() -> Reply {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
    response
}

/// An actor did not answer.
pub(super) fn unanswered(actor: &str, error: crate::actors::kit::address::AskError) -> Reply {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("Internal Error: {actor}: {error}\n"))
}

/// There are as many watchers as may be.
pub(super) fn too_many_watch() -> Reply {
    text(StatusCode::TOO_MANY_REQUESTS, "too many watch already\n")
}

/// All values of one name in a query, decoded.
pub(super) fn query_values(query: Option<&str>, name: &str) -> Vec<String> {
    let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.filter(|(key, _)| key == name).map(|(_, value)| value.into_owned()).collect()
}

/// The first value of one name in a query, decoded.
pub(super) fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    query_values(query, name).into_iter().next()
}

/// Whether a name is in a query, and not as `false` or `0`.
pub(super) fn is_set(query: Option<&str>, name: &str) -> bool {
    query_value(query, name).is_some_and(|value| value != "false" && value != "0")
}
