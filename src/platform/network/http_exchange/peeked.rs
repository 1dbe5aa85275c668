//! A stream that remembers how the other side began, so that an answer in another protocol can be named.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes are remembered.
const REMEMBERED_BYTES_MAX: usize = 96;

/// The first bytes that came, shared between the stream and whoever asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning(Arc<Mutex<Vec<u8>>>);

impl Beginning {
    /// The bytes that have come so far, 96 at most.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, bytes: &[u8]) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = REMEMBERED_BYTES_MAX.saturating_sub(held.len()).min(bytes.len());
        held.extend_from_slice(&bytes[..room]);
    }
}

/// The stream.
#[derive(Debug)]
pub(super) struct Peeked<S> {
    stream: S,
    beginning: Beginning,
}

impl<S> Peeked<S> {
    /// Remembers from here on.
    pub fn new(stream: S) -> (Self, Beginning) {
        let beginning = Beginning::default();
        (Self { stream, beginning: beginning.clone() }, beginning)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Peeked<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.beginning.add(&buffer.filled()[before..]);
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Peeked<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
