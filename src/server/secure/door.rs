//! TCP connections that begin with a TLS handshake. Owned by the listener; keeps nothing of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use crate::platform::network::listening;
use crate::server::listening::accepting::Accept;
use crate::server::listening::connections::{Opening, Peer};

/// See the module.
pub(super) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    handshake_max: Duration,
}

impl TlsListener {
    /// A handshake may take `handshake_max`, from the connection's beginning.
    pub(super) fn new(listener: TcpListener, config: Arc<ServerConfig>, handshake_max: Duration) -> Self {
        Self { listener, acceptor: TlsAcceptor::from(config), handshake_max }
    }
}

impl Accept for TlsListener {
    type Connection = Opening<TlsStream<TcpStream>>;

    async fn accept(&self) -> io::Result<Option<Self::Connection>> {
        let (stream, address) = self.listener.accept().await?;
        listening::settle(&stream);
        let address = Some(listening::plain(address));
        let (acceptor, limit) = (self.acceptor.clone(), self.handshake_max);
        Ok(Some(Box::pin(async move {
            let stream = tokio::time::timeout(limit, acceptor.accept(stream)).await.ok()?.ok()?;
            let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let certificates = certificates.iter().map(|one| one.clone().into_owned()).collect();
            Some((stream, Peer { address, certificates }))
        })))
    }
}
