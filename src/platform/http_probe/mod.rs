//! The HTTP probe's request (PRB-12).

mod client;

use std::time::Duration;

use async_trait::async_trait;

pub use client::HyperProber;

/// What to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProbe {
    /// `http` or `https`.
    pub scheme: String,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, perhaps with a query.
    pub path: String,
    /// Headers, in order; names may repeat.
    pub headers: Vec<(String, String)>,
    /// For the whole exchange.
    pub timeout: Duration,
}

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

/// Makes HTTP probes.
#[async_trait]
pub trait HttpProber: Send + Sync {
    /// One request, with its redirects.
    async fn probe(&self, probe: HttpProbe) -> ProbeOutcome;
}
