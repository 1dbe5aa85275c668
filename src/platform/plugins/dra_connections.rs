//! Connections to drivers of resource claims: one for each driver, which its calls, its stream of health and the watch over the
//! driver share, as upstream (RES-49).
//!
//! Owned by `GrpcDra`. A connection is made for whoever needs it first, and made anew after it has ended. It tells its end by
//! dropping the socket. Keeps the newest connection of each endpoint.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::socket::{Links, connect};

/// A connection that stood a moment ago.
#[derive(Clone)]
pub(super) struct Live {
    /// Carries calls. Once the connection has ended, each of them fails.
    pub(super) channel: Channel,
    end: watch::Receiver<()>,
}

impl Live {
    fn stands(&self) -> bool {
        self.end.has_changed().is_ok()
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(mut self) {
        let _ = self.end.changed().await; // Nobody sends; the sender goes with the socket.
    }
}

/// A place for the connection to one endpoint; held while somebody connects.
type Slot = Arc<tokio::sync::Mutex<Option<Live>>>;

/// See the module. Clones share the connections.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<Mutex<BTreeMap<String, Slot>>>);

impl Connections {
    /// The connection to a driver, made where there is none.
    ///
    /// # Errors
    /// There is no socket, or nobody listens.
    pub(super) async fn live(&self, at: &str) -> io::Result<Live> {
        let slot = self.slot(at);
        let mut held = slot.lock().await;
        if let Some(live) = held.as_ref().filter(|live| live.stands()) {
            return Ok(live.clone());
        }
        let live = dial(at).await?;
        *held = Some(live.clone());
        Ok(live)
    }

    /// Another driver serves there: the next call connects anew. A call under way keeps the old connection.
    pub(super) fn forget(&self, at: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(at);
    }

    fn slot(&self, at: &str) -> Slot {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = |slot: &Slot| slot.try_lock().is_ok_and(|held| held.as_ref().is_some_and(Live::stands));
        all.retain(|_, slot| Arc::strong_count(slot) > 1 || stands(slot));
        Arc::clone(all.entry(at.to_owned()).or_default())
    }
}

async fn dial(at: &str) -> io::Result<Live> {
    let stream = connect(Path::new(at), &Links::Follow).await?;
    let (alive, end) = watch::channel(());
    let mut socket = Some(Socket { stream, _alive: alive });
    let connector = service_fn(move |_: Uri| {
        // A channel would connect again by itself, beside the connection that takes its place.
        let socket = socket.take().ok_or_else(|| io::Error::other("the connection has ended"));
        async move { socket.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await;
    Ok(Live { channel: channel.map_err(io::Error::other)?, end })
}

/// A socket whose end is seen.
struct Socket {
    stream: UnixStream,
    _alive: watch::Sender<()>,
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
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
