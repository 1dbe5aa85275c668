//! The agent's plain listeners: the health port, the read-only port, and the local socket of the command line.
//!
//! Started, and started again, by the actor `Server`. They keep nothing that an answer needs.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::backend::Backend;
use super::listening::connections::{self, Limits};
use super::listening::socket;
use super::routes;
use crate::actors::server::Listener;
use crate::platform::host::clock::Clock;
use crate::platform::logs::log_reader::READERS_MAX;
use crate::platform::network::listening;

/// `healthzBindAddress`:`healthzPort`: `/healthz` and its checks, without authentication.
pub struct HealthzListener {
    address: SocketAddr,
    backend: Arc<Backend>,
}

impl HealthzListener {
    /// Binds when it is served; a port that is taken is tried again, as upstream does (SRV-02).
    pub fn new(address: SocketAddr, backend: &Arc<Backend>) -> Self {
        Self { address, backend: Arc::clone(backend) }
    }
}

#[async_trait::async_trait]
impl Listener for HealthzListener {
    fn name(&self) -> String {
        format!("healthz {}", self.address)
    }

    async fn serve(&self) -> String {
        match listening::listen(self.address).and_then(TcpListener::from_std) {
            Ok(listener) => {
                connections::serve(listener, routes::healthz(Arc::clone(&self.backend)), Limits::default()).await
            }
            Err(error) => format!("cannot listen on {}: {error}", self.address),
        }
    }
}

/// `readOnlyPort`: pods, metrics and health, without authentication.
pub struct ReadOnlyListener {
    address: SocketAddr,
    listener: StdTcpListener,
    backend: Arc<Backend>,
}

impl ReadOnlyListener {
    /// Takes the port at once, because upstream's kubelet does not run without it (SRV-02).
    ///
    /// # Errors
    /// The port cannot be had.
    pub fn bind(address: SocketAddr, backend: &Arc<Backend>) -> io::Result<Self> {
        let listener = listening::listen(address)?;
        let address = listener.local_addr()?;
        Ok(Self { address, listener, backend: Arc::clone(backend) })
    }

    /// The address, with its port where the system chose one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[async_trait::async_trait]
impl Listener for ReadOnlyListener {
    fn name(&self) -> String {
        format!("read-only {}", self.address)
    }

    async fn serve(&self) -> String {
        let router = routes::read_only(Arc::clone(&self.backend));
        match self.listener.try_clone().and_then(TcpListener::from_std) {
            Ok(listener) => connections::serve(listener, router, Limits::default()).await,
            Err(error) => format!("cannot listen on {}: {error}", self.address),
        }
    }
}

/// `/run/podwright/podwright.sock`: everything the agent knows about itself, for root on the node alone.
pub struct LocalSocket {
    path: PathBuf,
    old: Option<PathBuf>,
    owns_folder: bool,
    backend: Arc<Backend>,
}

impl LocalSocket {
    /// The socket's name; older versions had it in the agent's directory.
    pub const NAME: &'static str = "podwright.sock";

    /// Binds when it is served.
    pub fn new(path: PathBuf, backend: &Arc<Backend>) -> Self {
        Self { path, old: None, owns_folder: false, backend: Arc::clone(backend) }
    }

    /// In a directory that is the socket's alone, and is made private also where it is there already. One that somebody else
    /// chose may be shared with others, and keeps its mode.
    #[must_use]
    pub fn owning_its_folder(self, owns_folder: bool) -> Self {
        Self { owns_folder, ..self }
    }

    /// Removes what an older version left at this place, where containers may see it.
    #[must_use]
    pub fn instead_of(self, old: PathBuf) -> Self {
        Self { old: Some(old).filter(|old| *old != self.path), ..self }
    }

    async fn bind(&self, clock: Arc<dyn Clock>) -> io::Result<socket::PrivateListener> {
        if let Some(folder) = self.path.parent().filter(|_| self.owns_folder) {
            socket::make_private(folder)?;
        }
        socket::PrivateListener::bind(&self.path, clock).await
    }
}

#[async_trait::async_trait]
impl Listener for LocalSocket {
    fn name(&self) -> String {
        format!("local socket {}", self.path.display())
    }

    async fn serve(&self) -> String {
        if let Some(old) = &self.old {
            socket::remove_old(old).await;
        }
        let listener = match self.bind(Arc::clone(self.backend.trace.clock())).await {
            Ok(listener) => listener,
            Err(error) => return format!("cannot listen on {}: {error}", self.path.display()),
        };
        // Logs that are followed stay open; as many as may be leave room for others.
        let limits = Limits { connections_max: READERS_MAX + 64, ..Limits::default() };
        connections::serve(listener, routes::local(Arc::clone(&self.backend)), limits).await
    }
}
