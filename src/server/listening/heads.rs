//! Room for requests' heads: each connection may have a large one, all of a listener's together only so much. Clients who
//! have not shown yet who they are could else fill the agent's memory with heads that never end.
//!
//! Owned by the listener's connections. Keeps how much is taken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::{Response, StatusCode};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that each connection has for its head whatever others have.
const OWN_BYTES: usize = 64 << 10;
/// Bytes beyond that, of all connections together.
const SHARED_BYTES: usize = 16 << 20;

/// A listener's room.
#[derive(Clone)]
pub(in crate::server) struct Room(Arc<AtomicUsize>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(SHARED_BYTES)))
    }
}

/// The share of one connection.
pub(in crate::server) struct Head {
    room: Room,
    /// Whether what comes is a head, and not a body or a stream.
    comes: AtomicBool,
    /// Bytes of it so far.
    bytes: AtomicUsize,
    /// Bytes taken of the room.
    taken: AtomicUsize,
}

impl Head {
    pub(in crate::server) fn new(room: Room) -> Self {
        Self { room, comes: AtomicBool::new(true), bytes: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    fn read(&self, count: usize) -> io::Result<()> {
        if !self.comes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let bytes = self.bytes.fetch_add(count, Ordering::Relaxed) + count;
        let more = bytes.saturating_sub(OWN_BYTES).saturating_sub(self.taken.load(Ordering::Relaxed));
        let take = |left: usize| left.checked_sub(more);
        if more > 0 && self.room.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Err(io::Error::other("too many large heads of requests at once"));
        }
        self.taken.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// The head is there: what comes next is the request's body.
    pub(super) fn is_read(&self) {
        self.comes.store(false, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.give_back();
    }

    fn give_back(&self) {
        self.room.0.fetch_add(self.taken.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The answer with word of its end, when the next head may come; after a switch of protocols none does.
    pub(super) fn until_answered(self: Arc<Self>, answer: Response<Body>) -> Response<Body> {
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => answer,
            _ => answer.map(|body| Body::new(Answer { body, head: self })),
        }
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A connection whose heads are counted.
pub(super) struct Metered<S> {
    pub(in crate::server) stream: S,
    pub(in crate::server) head: Arc<Head>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        Poll::Ready(self.head.read(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The body of an answer, after which the next head comes.
struct Answer {
    body: Body,
    head: Arc<Head>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.head.comes.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_heads_share_a_room_and_small_ones_need_none() {
        let room = Room(Arc::new(AtomicUsize::new(100)));
        let (one, other) = (Head::new(room.clone()), Head::new(room.clone()));
        one.read(OWN_BYTES + 60).expect("there is room");
        other.read(OWN_BYTES).expect("its own");
        other.read(50).expect_err("too much at once");
        one.is_read();
        one.read(1 << 30).expect("a body is no head");
        other.read(50).expect("there is room again");
        drop(other);
        assert_eq!(room.0.load(Ordering::Relaxed), 100, "nothing stays taken");
    }

    #[tokio::test]
    async fn after_an_answer_the_next_head_is_counted_and_a_stream_is_not() {
        let room = Room(Arc::new(AtomicUsize::new(0)));
        for (status, counted) in [(StatusCode::OK, true), (StatusCode::SWITCHING_PROTOCOLS, false)] {
            let head = Arc::new(Head::new(room.clone()));
            head.is_read();
            let mut answer = Response::new(Body::from("x"));
            *answer.status_mut() = status;
            drop(Arc::clone(&head).until_answered(answer));
            assert_eq!(head.read(OWN_BYTES + 1).is_err(), counted, "{status}");
        }
    }
}
