//! Memory for bytes that clients have sent and nobody has taken yet. Each connection may hold some of its own; what goes
//! beyond comes from a room that connections share. A crowd of clients could else fill the agent's memory.
//!
//! Owned by a listener, or by all streams. Keeps how much is taken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that each connection may hold whatever others hold.
pub(super) const OWN_BYTES: usize = 64 << 10;

/// The bytes that are left for all connections together.
#[derive(Clone)]
pub(in crate::server) struct Room(Arc<AtomicUsize>);

impl Room {
    /// A room of so many bytes.
    pub(in crate::server) fn of(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// The bytes that nobody holds.
    #[cfg(test)]
    pub(in crate::server) fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bytes that one connection holds. One task at a time changes it.
pub(in crate::server) struct Share {
    room: Room,
    bytes: AtomicUsize,
    /// Bytes taken of the room.
    taken: AtomicUsize,
}

impl Share {
    /// A share that holds nothing.
    pub(in crate::server) fn of(room: &Room) -> Self {
        Self { room: room.clone(), bytes: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    /// Holds so many bytes more; whether there was room.
    pub(in crate::server) fn hold(&self, count: usize) -> bool {
        let bytes = self.bytes.fetch_add(count, Ordering::Relaxed) + count;
        let more = bytes.saturating_sub(OWN_BYTES).saturating_sub(self.taken.load(Ordering::Relaxed));
        let take = |left: usize| left.checked_sub(more);
        if more > 0 && self.room.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return false;
        }
        self.taken.fetch_add(more, Ordering::Relaxed);
        true
    }

    /// Lets go of so many bytes.
    pub(in crate::server) fn let_go(&self, count: usize) {
        let bytes = self.bytes.load(Ordering::Relaxed).saturating_sub(count);
        self.bytes.store(bytes, Ordering::Relaxed);
        let taken = self.taken.load(Ordering::Relaxed);
        let needed = bytes.saturating_sub(OWN_BYTES).min(taken);
        self.taken.store(needed, Ordering::Relaxed);
        self.room.0.fetch_add(taken - needed, Ordering::Relaxed);
    }

    /// Lets go of all.
    pub(in crate::server) fn clear(&self) {
        self.let_go(usize::MAX);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Counts the bytes that come on a connection.
pub(in crate::server) trait Meter {
    /// So many bytes have come.
    ///
    /// # Errors
    /// There is no room for them.
    fn read(&self, count: usize) -> io::Result<()>;
}

/// A connection whose bytes are counted as they come.
pub(in crate::server) struct Metered<S, M> {
    pub(in crate::server) stream: S,
    pub(in crate::server) meter: Arc<M>,
}

impl<S: AsyncRead + Unpin, M: Meter> AsyncRead for Metered<S, M> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        Poll::Ready(self.meter.read(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin, M> AsyncWrite for Metered<S, M> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_takes_of_the_room_only_what_goes_beyond_its_own() {
        let room = Room::of(100);
        let (one, other) = (Share::of(&room), Share::of(&room));
        assert!(one.hold(OWN_BYTES + 60) && other.hold(OWN_BYTES));
        assert_eq!(room.left(), 40);
        one.let_go(20);
        assert_eq!(room.left(), 60);
        assert!(!other.hold(61));
        one.clear();
        assert!(one.hold(OWN_BYTES));
        assert_eq!(room.left(), 100);
        drop(other);
        assert!(one.hold(100) && !one.hold(1));
        drop(one);
        assert_eq!(room.left(), 100, "nothing stays taken");
    }
}
