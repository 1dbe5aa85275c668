//! The authenticated port (10250): TLS, who asks, whether they may, and only then what they ask for.
//!
//! Started, and started again, by the actor `Server`. Keeps what the API server said about tokens and rights, for as long
//! as the configuration says.

mod authentication;
mod authorization;
mod door;
mod guard;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;

pub use authentication::{Authentication, Tokens};
pub use authorization::Authorization;

use super::backend::Backend;
use super::listening::connections::{self, Limits};
use super::routes;
use crate::actors::server::Listener;
use crate::logic::serving::server_access::Switches;
use crate::platform::network::listening;

/// Open connections; those whose users are known are not turned away for others.
const CONNECTIONS_MAX: usize = 1024;
/// Upstream's limit of a request and its answer (SRV-03).
const ANSWER_MAX: Duration = Duration::from_secs(4 * 60 * 60);

/// The longest that a TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// See the module.
pub struct SecureListener {
    address: SocketAddr,
    listener: StdTcpListener,
    parts: Parts,
    limits: Limits,
    handshake_max: Duration,
}

/// The parts of the port.
pub struct Parts {
    /// TLS.
    pub tls: Arc<ServerConfig>,
    /// The check of the asker's identity.
    pub authentication: Arc<Authentication>,
    /// Whether they may.
    pub authorization: Arc<Authorization>,
    /// The endpoints that are served at all.
    pub switches: Switches,
    /// The sources of answers.
    pub backend: Arc<Backend>,
}

impl SecureListener {
    /// Takes the port at once, because upstream's kubelet does not run without it (SRV-02).
    ///
    /// # Errors
    /// The port cannot be had.
    pub fn bind(address: SocketAddr, parts: Parts) -> io::Result<Self> {
        let listener = listening::listen(address)?;
        let address = listener.local_addr()?;
        let limits = Limits { connections_max: CONNECTIONS_MAX, answer: ANSWER_MAX, ..Limits::default() };
        Ok(Self { address, listener, parts, limits, handshake_max: HANDSHAKE_MAX })
    }

    /// The address, with its port where the system chose one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[async_trait::async_trait]
impl Listener for SecureListener {
    fn name(&self) -> String {
        format!("server {}", self.address)
    }

    async fn serve(&self) -> String {
        let Parts { tls, authentication, authorization, switches, backend } = &self.parts;
        let guard = guard::Guard {
            clock: Arc::clone(backend.trace.clock()),
            authentication: Arc::clone(authentication),
            authorization: Arc::clone(authorization),
            switches: *switches,
            streams_need_create: backend.stream_settings.get_needs_create,
            metrics: Arc::clone(&backend.metrics),
        };
        let router = guard.before(routes::secure(Arc::clone(backend)));
        match self.listener.try_clone().and_then(TcpListener::from_std) {
            Ok(listener) => {
                let door = door::TlsListener::new(listener, Arc::clone(tls), self.handshake_max);
                connections::serve(door, router, self.limits).await
            }
            Err(error) => format!("cannot listen on {}: {error}", self.address),
        }
    }
}
