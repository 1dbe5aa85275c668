//! One connection: name, TCP, TLS, protocol. Owned by the pool, with the tasks that move its bytes.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Settings, TransportError, texts};

/// For the way to the server, as in upstream's client.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// For the TLS handshake, as in upstream's client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes that the header of an answer may take.
const HEADER_BYTES_MAX: u32 = 256 * 1024;

/// What calls are sent on.
pub(super) enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// The tasks of one connection. They end with the last holder.
pub(super) struct Tasks {
    set: Mutex<JoinSet<()>>,
    /// How many calls the server takes at once on it, as far as it has said so.
    granted: AtomicUsize,
}

impl Tasks {
    fn new() -> Arc<Self> {
        Arc::new(Self { set: Mutex::default(), granted: AtomicUsize::new(100) })
    }

    /// How many calls the server takes at once.
    pub fn granted(&self) -> usize {
        self.granted.load(Ordering::Relaxed)
    }

    /// Ends the connection, whatever is under way on it.
    pub fn abort(&self) {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        while set.try_join_next().is_some() {}
        set.spawn(task);
    }
}

/// Starts what HTTP/2 wants to run beside. It must not keep the tasks alive: they hold it themselves.
#[derive(Clone)]
struct Beside(Weak<Tasks>);

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beside")
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Beside {
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.upgrade() {
            tasks.start(task);
        }
    }
}

/// Connects. `tls` is there if the server speaks it, or a proxy before it.
pub(super) async fn open(
    settings: &Settings,
    tls: Option<Arc<ClientConfig>>,
    server_name: &str,
) -> Result<(Sender, Arc<Tasks>), TransportError> {
    let server = &settings.server;
    let stream: Box<dyn Stream> = match &settings.proxy {
        Some(proxy) => proxy.connect(server, tls.as_ref()).await?,
        None => Box::new(dial(server.host(), server.port()).await?),
    };
    let Some(config) = tls.filter(|_| server.tls()) else { return http1(stream).await };
    let stream = handshake(config, server_name, stream).await?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") { http2(stream, settings).await } else { http1(stream).await }
}

pub(super) async fn handshake<S: Stream>(
    config: Arc<ClientConfig>,
    name: &str,
    stream: S,
) -> Result<TlsStream<S>, TransportError> {
    let name = ServerName::try_from(name.to_owned());
    let name = name.map_err(|error| TransportError(format!("tls: {error}")))?;
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, TlsConnector::from(config).connect(name, stream)).await;
    handshake
        .map_err(|_| TransportError("net/http: TLS handshake timeout".to_owned()))?
        .map_err(|error| TransportError(texts::handshake(&error)))
}

async fn http1(stream: impl Stream) -> Result<(Sender, Arc<Tasks>), TransportError> {
    let handshake = http1::Builder::new().max_buf_size(HEADER_BYTES_MAX as usize).handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| TransportError(texts::call(&error)))?;
    let tasks = Tasks::new();
    tasks.start(async { drop(connection.await) });
    Ok((Sender::Http1(sender), tasks))
}

async fn http2(stream: impl Stream, settings: &Settings) -> Result<(Sender, Arc<Tasks>), TransportError> {
    let tasks = Tasks::new();
    let mut builder = http2::Builder::new(Beside(Arc::downgrade(&tasks)));
    builder.timer(TokioTimer::new()).max_header_list_size(HEADER_BYTES_MAX);
    builder.keep_alive_timeout(settings.ping_timeout).keep_alive_while_idle(true);
    // Zero turns it off, as in upstream's client.
    builder.keep_alive_interval(Some(settings.silence_max).filter(|silence| !silence.is_zero()));
    // A list of many pods should not wait for leave at every 64 KiB.
    builder.initial_stream_window_size(1 << 20).initial_connection_window_size(4 << 20);
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (sender, mut connection) = handshake.map_err(|error| TransportError(texts::call(&error)))?;
    let holder = Arc::downgrade(&tasks);
    tasks.start(std::future::poll_fn(move |cx| {
        let over = Pin::new(&mut connection).poll(cx).map(drop);
        if let Some(tasks) = holder.upgrade() {
            tasks.granted.store(connection.current_max_send_streams(), Ordering::Relaxed);
        }
        over
    }));
    Ok((Sender::Http2(sender), tasks))
}

/// What bytes go over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

pub(super) async fn dial(host: &str, port: u16) -> Result<TcpStream, TransportError> {
    let no_such_host = || TransportError(format!("dial tcp: lookup {host}: no such host"));
    let looked_up = tokio::time::timeout(DIAL_TIMEOUT, tokio::net::lookup_host((host, port))).await;
    let late = || TransportError(format!("dial tcp: lookup {host}: i/o timeout"));
    let addresses: Vec<SocketAddr> = looked_up.map_err(|_| late())?.map_err(|_| no_such_host())?.collect();
    // One address that swallows packets leaves time for the others.
    let each = DIAL_TIMEOUT / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut problem = no_such_host();
    for address in addresses {
        match tokio::time::timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Calls are small, and a heartbeat must not wait for more to send.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => {
                problem = TransportError(format!("dial tcp {address}: connect: {}", texts::kernel(&error)));
            }
            Err(_) => problem = TransportError(format!("dial tcp {address}: i/o timeout")),
        }
    }
    Err(problem)
}
