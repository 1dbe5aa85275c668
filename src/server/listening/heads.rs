//! Room for requests' heads: each connection may have a large one, all of a listener's together only so much. Clients who
//! have not shown yet who they are could else fill the agent's memory with heads that never end.
//!
//! Owned by the listener's connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{Response, StatusCode};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};

use super::room::{Meter, Room, Share};

/// Bytes beyond a connection's own, of all connections of a listener together.
const SHARED_BYTES: usize = 16 << 20;

/// The room of a listener's heads.
pub(super) fn room() -> Room {
    Room::of(SHARED_BYTES)
}

/// The head that comes on one connection.
pub(in crate::server) struct Head {
    share: Share,
    /// Whether what comes is a head, and not a body or a stream.
    comes: AtomicBool,
}

impl Meter for Head {
    fn read(&self, count: usize) -> io::Result<()> {
        match self.comes.load(Ordering::Relaxed) && !self.share.hold(count) {
            true => Err(io::Error::other("too many large heads of requests at once")),
            false => Ok(()),
        }
    }
}

impl Head {
    pub(in crate::server) fn new(room: &Room) -> Self {
        Self { share: Share::of(room), comes: AtomicBool::new(true) }
    }

    /// The head is there: what comes next is the request's body.
    pub(super) fn is_read(&self) {
        self.comes.store(false, Ordering::Relaxed);
        self.share.clear();
    }

    /// The answer with word of its end, when the next head may come; after a switch of protocols none does. `under_way` is
    /// dropped with it.
    pub(super) fn until_answered<U: Send + Unpin + 'static>(
        self: Arc<Self>,
        answer: Response<Body>,
        under_way: U,
    ) -> Response<Body> {
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => answer,
            _ => answer.map(|body| Body::new(Answer { body, head: self, _under_way: under_way })),
        }
    }
}

/// The body of an answer, after which the next head comes.
struct Answer<U> {
    body: Body,
    head: Arc<Head>,
    _under_way: U,
}

impl<U: Send + Unpin + 'static> HttpBody for Answer<U> {
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

impl<U> Drop for Answer<U> {
    fn drop(&mut self) {
        self.head.comes.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::OWN_BYTES;
    use super::*;

    #[test]
    fn large_heads_share_a_room_and_small_ones_need_none() {
        let room = Room::of(100);
        let (one, other) = (Head::new(&room), Head::new(&room));
        one.read(OWN_BYTES + 60).expect("there is room");
        other.read(OWN_BYTES).expect("its own");
        other.read(50).expect_err("too much at once");
        one.is_read();
        one.read(1 << 30).expect("a body is no head");
        other.read(50).expect("there is room again");
        drop(other);
        drop(one);
        assert_eq!(room.left(), 100, "nothing stays taken");
    }

    #[tokio::test]
    async fn after_an_answer_the_next_head_is_counted_and_a_stream_is_not() {
        let room = Room::of(0);
        for (status, counted) in [(StatusCode::OK, true), (StatusCode::SWITCHING_PROTOCOLS, false)] {
            let head = Arc::new(Head::new(&room));
            head.is_read();
            let mut answer = Response::new(Body::from("x"));
            *answer.status_mut() = status;
            drop(Arc::clone(&head).until_answered(answer, ()));
            assert_eq!(head.read(OWN_BYTES + 1).is_err(), counted, "{status}");
        }
    }
}
