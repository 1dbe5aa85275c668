//! Probes and hooks that go over the network, from the node's own namespace (PRB-12, PRB-13, PRB-14, POD-23).

mod grpc;
mod http;
mod tcp;

use std::sync::Arc;

use async_trait::async_trait;
use rustls::ClientConfig;

pub use crate::logic::probes::probe_target::{GrpcProbe, HttpProbe, TcpProbe};
use crate::platform::network::http_exchange::{ExchangeError, TargetError};
use crate::platform::network::names::{NameServers, Names};
use crate::platform::network::tls::{self, Offer};

/// The finding of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// Well.
    Success,
    /// Well, with something to say.
    Warning(String),
    /// Not well, and why.
    Failure(String),
    /// The probe could not be made; its result counts for nothing (PRB-07).
    Error(String),
}

/// How a hook's request went that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// As it was asked.
    AsAsked,
    /// A server that was to speak TLS spoke plain HTTP, and was asked again so.
    OverPlainHttp,
}

/// Why a hook's request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// There is nowhere to send it.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// It could not be sent, or nobody answered.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

/// A probe that is ready to be made, as often as wanted: what is the same each time was done once.
#[async_trait]
pub trait NetworkProbe: Send + Sync {
    /// Makes it once.
    async fn make(self: Arc<Self>) -> ProbeOutcome;
}

/// Prepares probes, and makes hooks, over the network.
#[async_trait]
pub trait NetworkProber: Send + Sync {
    /// One request, with its redirects.
    fn http(&self, probe: HttpProbe) -> Arc<dyn NetworkProbe>;
    /// One connection.
    fn tcp(&self, probe: TcpProbe) -> Arc<dyn NetworkProbe>;
    /// One question for a server's health.
    fn grpc(&self, probe: GrpcProbe) -> Arc<dyn NetworkProbe>;
    /// A hook's request: any answer is a success. One that is asked for over TLS is asked for again without, when the
    /// server turns out to speak plain HTTP; credentials are then left out.
    ///
    /// # Errors
    /// Why there was no answer.
    async fn hook(&self, request: HttpProbe) -> Result<HookAnswer, HookError>;
}

/// [`NetworkProber`] over real connections, each its own. Keeps its TLS settings, and lookups of names under way.
#[derive(Clone, Debug)]
pub struct HostProber {
    tls: Arc<ClientConfig>,
    names: Names,
}

impl HostProber {
    /// Probes that offer these protocols over TLS. Servers' certificates are not verified.
    pub fn new(offer: Offer) -> Self {
        Self { tls: tls::unverified_client(offer), names: Names::OfPods(Arc::new(NameServers::of_machine())) }
    }

    /// The same, with other name servers.
    #[cfg(test)]
    pub(in crate::platform) fn with_names(self, names: NameServers) -> Self {
        Self { names: Names::OfPods(Arc::new(names)), ..self }
    }
}

/// A probe, and how its host is looked up.
struct Named<P> {
    probe: P,
    names: Names,
}

#[async_trait]
impl NetworkProbe for Named<TcpProbe> {
    async fn make(self: Arc<Self>) -> ProbeOutcome {
        tcp::probe(&self.probe, &self.names).await
    }
}

#[async_trait]
impl NetworkProbe for Named<GrpcProbe> {
    async fn make(self: Arc<Self>) -> ProbeOutcome {
        grpc::probe(&self.probe, &self.names).await
    }
}

#[async_trait]
impl NetworkProber for HostProber {
    fn http(&self, probe: HttpProbe) -> Arc<dyn NetworkProbe> {
        Arc::new(http::Prepared::new(&self.tls, &self.names, &probe))
    }

    fn tcp(&self, probe: TcpProbe) -> Arc<dyn NetworkProbe> {
        Arc::new(Named { probe, names: self.names.clone() })
    }

    fn grpc(&self, probe: GrpcProbe) -> Arc<dyn NetworkProbe> {
        Arc::new(Named { probe, names: self.names.clone() })
    }

    async fn hook(&self, request: HttpProbe) -> Result<HookAnswer, HookError> {
        http::hook(&self.tls, &self.names, request).await
    }
}
