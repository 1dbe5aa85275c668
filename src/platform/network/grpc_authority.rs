//! A client's stream, with an authority in its requests that the HTTP/2 library takes: see `logic::serving::any_authority`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::logic::serving::any_authority::Frames;

/// Read at once.
const CHUNK: usize = 8 * 1024;

/// A stream of a client, see the module.
#[derive(Debug)]
pub struct AnyAuthority<S> {
    stream: S,
    frames: Frames,
    read: Vec<u8>,
    /// Bytes that were read and not taken yet, from this place on.
    taken: usize,
}

impl<S> AnyAuthority<S> {
    /// Nothing has been read of the stream.
    pub fn new(stream: S) -> Self {
        Self { stream, frames: Frames::default(), read: vec![], taken: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AnyAuthority<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.taken == this.read.len() {
            let mut chunk = [0; CHUNK];
            let mut fresh = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut fresh))?;
            if fresh.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.read.clear();
            this.taken = 0;
            let taken = this.frames.take(fresh.filled(), &mut this.read);
            taken.map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))?;
        }
        let rest = &this.read[this.taken..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        this.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AnyAuthority<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
