//! One HTTP/2 connection to a runtime, and the calls on it.
//!
//! A caller puts its request on the connection itself. tonic's own channel has two queues and three more tasks on the way.
//! It writes the head and the message of a request one after the other: for calls as small as these that was half of what a
//! call cost. Owned by the generated clients; keeps the connection alone, made when first needed and anew when it broke.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tower::Service;

use super::connection::Attempts;

/// The longest error text that is read, in bytes as sent, where most signs other than letters take three. The default of
/// 16 KiB would turn the long story of a failed pull into a broken stream.
const ERROR_MAX: u32 = 1024 * 1024;
/// The bytes that the runtime may send before the agent has read them: on one call, and on all together.
const WINDOW: (u32, u32) = (2 * 1024 * 1024, 4 * 1024 * 1024);

/// An error between here and the runtime.
type Trouble = Box<dyn Error + Send + Sync>;

/// The way of calls to one socket. Clones share the connection.
#[derive(Clone)]
pub(super) struct Channel(Arc<Shared>);

struct Shared {
    attempts: Attempts,
    connection: Mutex<Option<SendRequest<Bytes>>>,
}

impl Channel {
    /// Connects with the first call.
    pub fn new(attempts: Attempts) -> Self {
        Self(Arc::new(Shared { attempts, connection: Mutex::default() }))
    }
}

impl Shared {
    /// The sender of a call: of the connection, or of a new one where that has ended.
    async fn sender(&self) -> Result<SendRequest<Bytes>, Trouble> {
        let mut connection = self.connection.lock().await;
        if let Some(sender) = &*connection
            && let Ok(sender) = sender.clone().ready().await
        {
            return Ok(sender);
        }
        *connection = None;
        let sender = open(self.attempts.connect().await?).await?.ready().await?;
        *connection = Some(sender.clone());
        Ok(sender)
    }

    async fn call(&self, request: Request<tonic::body::Body>) -> Result<Response<Answer>, Trouble> {
        let (mut head, body) = request.into_parts();
        head.headers.insert(USER_AGENT, HeaderValue::from_static(concat!("podwright/", env!("CARGO_PKG_VERSION"))));
        // Every request of these services is one message: it is at hand.
        let message = body.collect().await?.to_bytes();
        let mut sender = self.sender().await?;
        let (answer, stream) = sender.send_request(Request::from_parts(head, ()), false)?;
        Ok(exchange(answer, stream, message).await?.map(|stream| Answer { stream, has_data: true }))
    }
}

/// Sends the message and waits for the answer. A runtime that does not know the call answers its head and closes the stream,
/// sometimes before the message can be sent. That the stream is closed is no failure then: the answer says what is.
async fn exchange(
    answer: ResponseFuture,
    mut stream: SendStream<Bytes>,
    message: Bytes,
) -> Result<Response<RecvStream>, h2::Error> {
    let _ = stream.send_data(message, true);
    answer.await
}

/// Begins to speak HTTP/2. Nobody waits for the other side here: that it speaks another language shows with the call.
async fn open(socket: UnixStream) -> Result<SendRequest<Bytes>, h2::Error> {
    let mut builder = h2::client::Builder::new();
    builder.enable_push(false).max_header_list_size(ERROR_MAX);
    builder.initial_window_size(WINDOW.0).initial_connection_window_size(WINDOW.1);
    let (sender, connection) = builder.handshake(socket).await?;
    #[expect(clippy::disallowed_methods, reason = "it ends with its last sender and stream, or with its calls' error")]
    tokio::spawn(async { drop(connection.await) });
    Ok(sender)
}

impl Service<Request<tonic::body::Body>> for Channel {
    type Response = Response<Answer>;
    type Error = Trouble;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Trouble>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Trouble>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.call(request).await })
    }
}

/// The body of an answer: messages, then what the call came to. Dropped before its end, it cancels the call.
pub(super) struct Answer {
    stream: RecvStream,
    has_data: bool,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        while self.has_data {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // Read: the runtime may send as much again.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.has_data = false,
            }
        }
        Poll::Ready(ready!(self.stream.poll_trailers(cx)).map(|trailers| trailers.map(Frame::trailers)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A runtime that answers a head with `grpc-status: 12` and closes the stream at once, as servers in Go do where they do
    /// not know the call.
    async fn answer_heads(socket: UnixStream) {
        let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let answer = Response::builder().header("grpc-status", "12").body(()).expect("an answer");
            respond.send_response(answer, true).expect("sent");
            drop(request); // Nobody reads the rest: the stream is closed behind the answer.
        }
    }

    #[tokio::test]
    async fn an_answer_counts_that_comes_before_the_message_is_sent() {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        #[expect(clippy::disallowed_methods, reason = "the other side of the test")]
        let server = tokio::spawn(answer_heads(theirs));
        let mut sender = open(ours).await.expect("HTTP/2").ready().await.expect("room");
        let (answer, mut stream) =
            sender.send_request(Request::post("/").body(()).expect("a head"), false).expect("sent");
        let closed = std::future::poll_fn(|cx| stream.poll_reset(cx));
        tokio::time::timeout(Duration::from_secs(60), closed).await.expect("in time").expect("closed");
        let answer = exchange(answer, stream, Bytes::from_static(b"late")).await.expect("answered");
        assert_eq!(answer.headers()["grpc-status"], "12");
        server.abort();
    }
}
