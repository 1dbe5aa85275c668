//! The WebSocket side of a request, and the handshake of a connection that the agent itself is the end of.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::problem::Problem;
use crate::logic::serving::streams::options;
use crate::server::listening::room::{Meter, Metered, Room, Share};
use crate::server::reply::Reply;

/// A client's connection.
pub(super) type Connection = WebSocketStream<Metered<TokioIo<Upgraded>, Messages>>;

/// The most bytes of one message, as upstream. Pieces of it are not passed on before it is whole.
const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of the header and the mask of a frame without content.
const FRAME_BYTES: usize = 6;
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

/// The bytes of a client's messages that were not passed on yet.
pub(super) struct Messages(Share);

impl Meter for Messages {
    fn read(&self, count: usize) -> io::Result<()> {
        match self.0.hold(count) {
            true => Ok(()),
            false => {
                tracing::warn!("a stream ends: its message is large, and large ones of other streams take all memory");
                Err(io::Error::other("too many large messages at once"))
            }
        }
    }
}

impl Messages {
    /// The message was passed on.
    pub(super) fn passed_on(&self) {
        self.0.clear();
    }

    /// A ping or its answer, which may come between the pieces of a message, was taken.
    pub(super) fn heard(&self, content: &[u8]) {
        self.0.let_go(FRAME_BYTES + content.len());
    }
}

/// The connection, once the client has its answer, and the bytes of its messages; `None` when it left.
pub(super) async fn accept(client: &mut OnUpgrade, room: &Room) -> Option<(Connection, Arc<Messages>)> {
    let upgraded = client.await.ok()?;
    Some(serve(TokioIo::new(upgraded), room).await)
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    room: &Room,
) -> (WebSocketStream<Metered<S, Messages>>, Arc<Messages>) {
    let messages = Arc::new(Messages(Share::of(room)));
    let stream = Metered { stream, meter: Arc::clone(&messages) };
    let mut config = WebSocketConfig::default();
    config.read_buffer_size = READ_BYTES;
    config.write_buffer_size = 0;
    config.max_write_buffer_size = MESSAGE_BYTES_MAX.max(WRITE_BYTES);
    config.max_message_size = Some(MESSAGE_BYTES_MAX);
    config.max_frame_size = Some(MESSAGE_BYTES_MAX);
    (WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await, messages)
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, SinkExt, StreamExt};
    use tokio::io::{DuplexStream, duplex};
    use tokio_tungstenite::tungstenite::Message;

    use super::*;

    const LARGE: usize = 200 << 10;

    /// A client's end and the agent's.
    async fn joined(
        room: &Room,
    ) -> (WebSocketStream<DuplexStream>, WebSocketStream<Metered<DuplexStream, Messages>>, Arc<Messages>) {
        let (client, agent) = duplex(4 * LARGE);
        let client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let (agent, messages) = serve(agent, room).await;
        (client, agent, messages)
    }

    /// SRV-43: messages of all streams that are not passed on yet take no more than the room for them.
    #[tokio::test]
    async fn large_messages_share_a_room_until_they_are_passed_on() {
        let room = Room::of(LARGE);
        let (mut one, mut first, passed) = joined(&room).await;
        let (mut two, mut second, _) = joined(&room).await;
        one.send(Message::binary(vec![1; LARGE])).await.expect("sent");
        assert_eq!(first.next().await.expect("open").expect("there is room").len(), LARGE);
        two.send(Message::binary(vec![2; 1000])).await.expect("sent");
        assert_eq!(second.next().await.expect("open").expect("its own").len(), 1000);
        two.send(Message::binary(vec![2; LARGE])).await.expect("sent");
        assert!(second.next().await.expect("told").is_err(), "the first message is still there");
        drop(second);
        passed.passed_on();
        assert_eq!(room.left(), LARGE);
        one.send(Message::binary(vec![1; LARGE])).await.expect("sent");
        assert_eq!(first.next().await.expect("open").expect("there is room").len(), LARGE);
    }

    /// A client that keeps its stream alive for years takes nothing.
    #[tokio::test]
    async fn pings_take_no_room() {
        let room = Room::of(100);
        let (mut client, mut agent, messages) = joined(&room).await;
        for _ in 0..2000 {
            client.send(Message::Ping(vec![0; 100].into())).await.expect("sent");
            let ping = agent.next().await.expect("open").expect("there is room");
            messages.heard(&ping.into_data());
            while client.next().now_or_never().is_some() {}
        }
        assert_eq!(room.left(), 100);
    }
}
