//! `SPDY/3.1+portforward.k8s.io`: a WebSocket whose messages are the bytes of a SPDY connection. The agent is the end of
//! the WebSocket; inside, client and runtime talk with each other.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;

use super::carried::Carried;
use super::problem::Problem;
use super::relay::relay;
use super::websocket::{self, Connection, Messages};
use crate::logic::serving::streams::options::{self, TUNNEL_PREFIX};
use crate::platform::network::runtime_stream::RuntimeStream;
use crate::server::reply::Reply;

/// The name of SPDY in an upgrade.
pub(super) const SPDY: HeaderValue = HeaderValue::from_static("SPDY/3.1");
/// Which protocol inside SPDY.
pub(super) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The client's request as one for the SPDY connection inside.
pub(super) fn spdy_headers(mut headers: HeaderMap) -> HeaderMap {
    let offered = websocket::sub_protocols(&headers);
    let inside: Vec<HeaderValue> =
        options::tunnelled(&offered).into_iter().filter_map(|name| HeaderValue::from_str(name).ok()).collect();
    for name in [
        header::SEC_WEBSOCKET_PROTOCOL,
        header::SEC_WEBSOCKET_KEY,
        header::SEC_WEBSOCKET_VERSION,
        header::SEC_WEBSOCKET_EXTENSIONS,
        STREAM_PROTOCOL,
    ] {
        headers.remove(name);
    }
    headers.insert(header::UPGRADE, SPDY);
    headers.extend(inside.into_iter().map(|name| (STREAM_PROTOCOL, name)));
    headers
}

/// The client's answer, from the runtime's.
pub(super) fn answer(request: &Request, runtime: &HeaderMap) -> Result<Reply, Problem> {
    let is_spdy =
        runtime.get(header::UPGRADE).is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes()));
    if !is_spdy || !websocket::is_upgrade(runtime) {
        return Err(Problem::internal("unable to upgrade: missing upgrade headers in response\n"));
    }
    let chosen = runtime.get(STREAM_PROTOCOL).and_then(|name| name.to_str().ok());
    let chosen = chosen.map(|name| format!("{TUNNEL_PREFIX}{}", name.trim()));
    websocket::handshake(request, chosen.as_deref())
}

/// Carries it until it ends.
pub(super) async fn run(mut carried: Carried, runtime: RuntimeStream) {
    if let Some((connection, messages)) = websocket::accept(&mut carried.client, &carried.room).await {
        relay(Tunnel { connection, messages, early: Bytes::new() }, runtime, &carried.traffic, carried.idle_max).await;
    }
}

/// The bytes inside a WebSocket.
struct Tunnel {
    connection: Connection,
    messages: Arc<Messages>,
    early: Bytes,
}

fn broken(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.early.is_empty() {
            match ready!(Pin::new(&mut self.connection).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) if bytes.is_empty() => self.messages.passed_on(),
                Some(Ok(Message::Binary(bytes))) => self.early = bytes,
                Some(Ok(Message::Ping(content) | Message::Pong(content))) => self.messages.heard(&content),
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Ok(_)) => return Poll::Ready(Err(broken("a message inside a tunnel is not binary"))),
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let length = self.early.len().min(buffer.remaining());
        buffer.put_slice(&self.early[..length]);
        self.early.advance(length);
        if self.early.is_empty() {
            self.messages.passed_on();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.connection).poll_ready(cx)).map_err(broken)?;
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        Pin::new(&mut self.connection).start_send(message).map_err(broken)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_close(cx).map_err(broken)
    }
}
