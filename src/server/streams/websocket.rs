//! The WebSocket side of a request, and the handshake of a connection that the agent itself is the end of.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::problem::Problem;
use crate::logic::serving::streams::options;
use crate::server::reply::Reply;

/// A client's connection.
pub(super) type Connection = WebSocketStream<TokioIo<Upgraded>>;

/// The most bytes of one message, as upstream. Pieces of it are not passed on before it is whole.
const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;
/// Bytes that wait to be written before more are taken.
const WRITE_BYTES: usize = 64 * 1024;

/// Whether any protocol is to be upgraded to.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::CONNECTION).iter();
    lines.any(|line| line.to_str().is_ok_and(|line| line.to_ascii_lowercase().contains("upgrade")))
}

/// Whether that is WebSocket.
pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    let named = headers.get(header::UPGRADE);
    is_upgrade(headers) && named.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Whether `v5.channel.k8s.io` is among the sub-protocols.
pub(super) fn offers_v5(headers: &HeaderMap) -> bool {
    is_websocket(headers) && sub_protocols(headers).contains(&options::V5)
}

/// Whether a tunnel is among the sub-protocols.
pub(super) fn offers_tunnel(headers: &HeaderMap) -> bool {
    is_websocket(headers) && !options::tunnelled(&sub_protocols(headers)).is_empty()
}

/// The sub-protocols that the client offers, in its order.
pub(super) fn sub_protocols(headers: &HeaderMap) -> Vec<&str> {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    options::listed(lines.filter_map(|line| line.to_str().ok()))
}

/// The answer that opens the connection with one of the client's sub-protocols.
pub(super) fn handshake(request: &Request, sub_protocol: Option<&str>) -> Result<Reply, Problem> {
    let headers = request.headers();
    if request.method() != Method::GET {
        return Err(Problem::bad_request(
            "websocket: the client is not using the websocket protocol: request method is not GET",
        ));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes) != Some(b"13") {
        return Err(Problem::bad_request("missing or bad WebSocket Version"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| Problem::bad_request("mismatch challenge/response"))?;
    let mut reply = Reply::new(Body::empty());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let out = reply.headers_mut();
    out.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    out.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let accept = HeaderValue::try_from(derive_accept_key(key)).expect("invariant: base64 fits into a header");
    out.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(name) = sub_protocol.and_then(|name| HeaderValue::from_str(name).ok()) {
        out.insert(header::SEC_WEBSOCKET_PROTOCOL, name);
    }
    Ok(reply)
}

/// The connection, once the client has its answer; `None` when it left.
pub(super) async fn accept(client: &mut OnUpgrade) -> Option<Connection> {
    let upgraded = client.await.ok()?;
    let mut config = WebSocketConfig::default();
    config.read_buffer_size = READ_BYTES;
    config.write_buffer_size = 0;
    config.max_write_buffer_size = MESSAGE_BYTES_MAX.max(WRITE_BYTES);
    config.max_message_size = Some(MESSAGE_BYTES_MAX);
    config.max_frame_size = Some(MESSAGE_BYTES_MAX);
    Some(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await)
}
