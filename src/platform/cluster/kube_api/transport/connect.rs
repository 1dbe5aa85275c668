//! One connection: name, TCP, TLS, protocol. Owned by the pool, with the tasks that move its bytes.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
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
use crate::platform::host::blocking::lookup;

/// For the way to the server, as in upstream's client.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an address is waited for before the next one is tried beside it.
const LEAD: Duration = Duration::from_millis(300);
/// For the TLS handshake, as in upstream's client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes that the header of an answer may take.
const HEADER_BYTES_MAX: u32 = 256 * 1024;

/// The sender of a connection's calls.
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

/// The stream below a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Connects to one of the addresses that the name stands for.
pub(super) async fn dial(host: &str, port: u16) -> Result<TcpStream, TransportError> {
    let looked_up = tokio::time::timeout(DIAL_TIMEOUT, lookup::find(host, port)).await;
    let late = |_| TransportError(format!("dial tcp: lookup {host}: i/o timeout"));
    let addresses = looked_up.map_err(late)?.map_err(|problem| TransportError(format!("dial tcp: {problem}")))?;
    let first = *addresses.first().expect("invariant: a name that was found has an address");
    let raced = tokio::time::timeout(DIAL_TIMEOUT, race(addresses, TcpStream::connect)).await;
    let (address, outcome) = raced.map_err(|_| TransportError(format!("dial tcp {first}: i/o timeout")))?;
    let stream =
        outcome.map_err(|error| TransportError(format!("dial tcp {address}: connect: {}", texts::kernel(&error))))?;
    // Calls are small, and a heartbeat must not wait for more to send.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Connects to whichever address is there first; they are begun in their order, each with a lead on the next. Where none
/// is there, how the first that said so failed. There is one address at least.
///
/// A caller (a heartbeat, for one) may wait less long for a connection than an address that swallows packets is silent. It
/// would begin with that address each time.
async fn race<S, F: Future<Output = io::Result<S>>>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> (SocketAddr, io::Result<S>) {
    let (mut rest, mut begun) = (addresses.into_iter(), FuturesUnordered::new());
    let mut failure = None;
    loop {
        if let Some(address) = rest.next() {
            let attempt = connect(address);
            begun.push(async move { (address, attempt.await) });
        }
        let answer = match rest.len() {
            0 => Ok(begun.next().await),
            _ => tokio::time::timeout(LEAD, begun.next()).await,
        };
        match answer {
            Ok(Some(connected @ (_, Ok(_)))) => return connected,
            // It need not be waited for: the next one may begin.
            Ok(Some(failed)) => drop(failure.get_or_insert(failed)),
            Ok(None) => return failure.expect("an address was tried and did not connect"),
            Err(_) => {} // Silent so far.
        }
    }
}

#[cfg(test)]
mod cases {
    use std::cell::RefCell;
    use std::io;
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::{DIAL_TIMEOUT, race};

    /// The end of an attempt.
    #[derive(Clone, Copy)]
    enum Is {
        There,
        Refusing,
        Silent,
    }

    /// Dials addresses numbered by their ports, from 1 on: which one won (or failed), whether it connected, and which
    /// were begun.
    async fn dial(addresses: &[Is]) -> Option<(u16, bool, Vec<u16>)> {
        let begun = RefCell::new(vec![]);
        let all = (1..).zip(addresses).map(|(port, _)| SocketAddr::from(([192, 0, 2, 1], port))).collect();
        let raced = race(all, |address| {
            begun.borrow_mut().push(address.port());
            let is = addresses[usize::from(address.port()) - 1];
            async move {
                match is {
                    Is::There => Ok(()),
                    Is::Refusing => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                    Is::Silent => std::future::pending().await,
                }
            }
        });
        let (address, outcome) = tokio::time::timeout(DIAL_TIMEOUT, raced).await.ok()?;
        Some((address.port(), outcome.is_ok(), begun.into_inner()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_address_that_is_there_is_taken() {
        use Is::{Refusing, Silent, There};
        for (addresses, expected) in [
            (&[There, There][..], Some((1, true, vec![1]))),
            (&[Silent, There, There], Some((2, true, vec![1, 2]))),
            (&[Refusing, Silent, There], Some((3, true, vec![1, 2, 3]))),
            (&[Refusing, Refusing], Some((1, false, vec![1, 2]))),
            (&[Silent, Refusing], None),
        ] {
            assert_eq!(dial(addresses).await, expected);
        }
    }

    /// NODE-33, NODE-34: who waits ten seconds, as heartbeats do, reaches the last of three addresses.
    #[tokio::test(start_paused = true)]
    async fn silent_addresses_do_not_use_up_a_heartbeats_time() {
        let dialled = dial(&[Is::Silent, Is::Silent, Is::There]);
        let dialled = tokio::time::timeout(Duration::from_secs(10), dialled).await.expect("in time");
        assert_eq!(dialled, Some((3, true, vec![1, 2, 3])));
    }
}
