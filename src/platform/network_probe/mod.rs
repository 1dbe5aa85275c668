//! Probes and hooks that go over the network, from the node's own namespace (PRB-12, PRB-13, PRB-14, POD-23).

mod grpc;
mod http;
mod tcp;

use std::sync::Arc;

use async_trait::async_trait;
use rustls::ClientConfig;

pub use crate::logic::probe_target::{GrpcProbe, HttpProbe, TcpProbe};
use crate::platform::tls::{self, Offer};

/// What a probe found.
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

/// Makes probes and hooks over the network.
#[async_trait]
pub trait NetworkProber: Send + Sync {
    /// One request, with its redirects.
    async fn http(&self, probe: &HttpProbe) -> ProbeOutcome;
    /// One connection.
    async fn tcp(&self, probe: &TcpProbe) -> ProbeOutcome;
    /// One question for a server's health.
    async fn grpc(&self, probe: &GrpcProbe) -> ProbeOutcome;
    /// A hook's request: any answer is a success. One that is asked for over TLS is asked for again without, when the
    /// server turns out to speak plain HTTP; credentials are then left out.
    ///
    /// # Errors
    /// Why there was no answer.
    async fn hook(&self, request: HttpProbe) -> Result<HookAnswer, String>;
}

/// [`NetworkProber`] over real connections, each its own. Keeps its TLS settings.
#[derive(Clone, Debug)]
pub struct HostProber {
    tls: Arc<ClientConfig>,
}

impl HostProber {
    /// Probes that offer these protocols over TLS. Servers' certificates are not verified.
    pub fn new(offer: Offer) -> Self {
        Self { tls: tls::unverified_client(offer) }
    }
}

#[async_trait]
impl NetworkProber for HostProber {
    async fn http(&self, probe: &HttpProbe) -> ProbeOutcome {
        http::probe(&self.tls, probe).await
    }

    async fn tcp(&self, probe: &TcpProbe) -> ProbeOutcome {
        tcp::probe(probe).await
    }

    async fn grpc(&self, probe: &GrpcProbe) -> ProbeOutcome {
        grpc::probe(probe).await
    }

    async fn hook(&self, request: HttpProbe) -> Result<HookAnswer, String> {
        http::hook(&self.tls, request).await
    }
}
