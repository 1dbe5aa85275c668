//! Joins two connections byte by byte. It ends when both ways are over, when nothing moved for too long, or when the runtime
//! was done and the client does not leave.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::sync::Notify;

/// Bytes that wait, each way: four records of TLS. Pages that no byte has reached take no memory.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long the client may take to leave once the runtime is done.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// How often stillness is looked for, in parts of what is allowed.
const LOOKS: u32 = 4;

/// The bytes that went through a stream. Shared by the tasks that carry it, look for stillness, and write it down.
#[derive(Default)]
pub(super) struct Traffic {
    to_runtime: AtomicU64,
    to_client: AtomicU64,
    is_done: AtomicBool,
    done: Notify,
}

impl Traffic {
    /// Bytes to the runtime, and to the client.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.to_runtime.load(Ordering::Relaxed), self.to_client.load(Ordering::Relaxed))
    }

    pub(super) fn add_to_runtime(&self, bytes: usize) {
        self.to_runtime.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_to_client(&self, bytes: usize) {
        self.to_client.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for about `idle_max`; for ever if that is zero.
    pub(super) async fn stillness(&self, idle_max: Duration) {
        if idle_max.is_zero() {
            return std::future::pending().await;
        }
        let (mut seen, mut still) = (self.bytes(), 0);
        while still < LOOKS {
            tokio::time::sleep(idle_max / LOOKS).await;
            let now = self.bytes();
            still = if now == seen { still + 1 } else { 0 };
            seen = now;
        }
    }

    fn runtime_is_done(&self) {
        self.is_done.store(true, Ordering::Release);
        self.done.notify_one();
    }

    async fn client_is_late(&self) {
        while !self.is_done.load(Ordering::Acquire) {
            self.done.notified().await;
        }
        tokio::time::sleep(LEAVE_LIMIT).await;
    }
}

/// Joins them; each side's end of sending is passed on.
pub(super) async fn relay<C, R>(mut client: C, runtime: R, traffic: &Arc<Traffic>, idle_max: Duration)
where
    C: AsyncRead + AsyncWrite + Unpin,
    R: AsyncRead + AsyncWrite + Unpin,
{
    let mut runtime = Counted { inner: runtime, traffic: Arc::clone(traffic) };
    tokio::select! {
        biased;
        // How a stream ends is its users' business.
        _ = copy_bidirectional_with_sizes(&mut client, &mut runtime, BUFFER_BYTES, BUFFER_BYTES) => {}
        () = traffic.client_is_late() => {}
        () = traffic.stillness(idle_max) => {}
    }
}

/// The runtime's side, counted. A reset counts as the end: a runtime that closes over bytes that it did not read resets the
/// connection behind its last words, which the client is still to have.
struct Counted<S> {
    inner: S,
    traffic: Arc<Traffic>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if read.is_ready() {
            match buffer.filled().len() - before {
                0 => self.traffic.runtime_is_done(),
                bytes => self.traffic.add_to_client(bytes),
            }
        }
        read.map(|_| Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes).map(|written| match written {
            Ok(bytes) => {
                self.traffic.add_to_runtime(bytes);
                Ok(bytes)
            }
            Err(_) => {
                self.traffic.runtime_is_done();
                Ok(bytes.len())
            }
        })
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx).map(|_| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_sides_end_is_passed_on() {
        let ((client, mut user), (runtime, mut server)) = (duplex(64), duplex(64));
        let traffic = Arc::new(Traffic::default());
        let users = async move {
            user.write_all(b"question").await.expect("open");
            user.shutdown().await.expect("open");
            let mut answer = String::new();
            user.read_to_string(&mut answer).await.expect("open");
            answer
        };
        let servers = async move {
            let mut question = String::new();
            server.read_to_string(&mut question).await.expect("open");
            server.write_all(b"answer after the end").await.expect("still open this way");
            question
        };
        let joined = relay(client, runtime, &traffic, Duration::ZERO);
        let ((), answer, question) = tokio::join!(joined, users, servers);
        assert_eq!((question.as_str(), answer.as_str()), ("question", "answer after the end"));
        assert_eq!(traffic.bytes(), (8, 20));
    }

    /// A runtime that takes nothing more may still have said something.
    #[tokio::test(start_paused = true)]
    async fn last_words_pass_though_the_runtime_takes_nothing_more() {
        let ((client, mut user), (runtime, mut server)) = (duplex(64), duplex(64));
        user.write_all(b"more input").await.expect("open");
        server.write_all(b"last words").await.expect("open");
        drop(server);
        let traffic = Arc::new(Traffic::default());
        let users = async move {
            let mut answer = String::new();
            user.read_to_string(&mut answer).await.expect("open");
            answer
        };
        let ((), answer) = tokio::join!(relay(client, runtime, &traffic, Duration::ZERO), users);
        assert_eq!(answer, "last words");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_stays_open_stays_for_ever() {
        let traffic = Arc::new(Traffic::default());
        let ((client, _user), (runtime, server)) = (duplex(64), duplex(64));
        drop(server);
        relay(client, runtime, &traffic, Duration::ZERO).await; // the client does not leave
        let ((client, _user), (runtime, _server)) = (duplex(64), duplex(64));
        relay(client, runtime, &Arc::new(Traffic::default()), Duration::from_secs(3600)).await; // nobody says anything
    }
}
