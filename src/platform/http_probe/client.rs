//! HTTP probes over real connections.
//!
//! Owned by the prober. Keeps its TLS settings; every probe is a connection of its own.

use std::sync::Arc;

use async_trait::async_trait;
use rustls::ClientConfig;

use super::{HttpProbe, HttpProber, ProbeOutcome};
use crate::platform::http_exchange::{Answer, Ask, ExchangeError, Redirects, Target, get};
use crate::platform::tls::{self, Offer};

/// The most bytes of an answer's body that are read; more is no fault.
const BODY_BYTES_MAX: usize = 10 * 1024;
/// What a probe calls itself when its headers do not say.
const USER_AGENT: &str = "kube-probe/1.36";

/// [`HttpProber`] over real connections.
#[derive(Clone, Debug)]
pub struct HyperProber {
    tls: Arc<ClientConfig>,
}

impl HyperProber {
    /// Probes that offer these protocols over TLS. Servers' certificates are not verified.
    pub fn new(offer: Offer) -> Self {
        Self { tls: tls::unverified_client(offer) }
    }
}

#[async_trait]
impl HttpProber for HyperProber {
    async fn probe(&self, probe: HttpProbe) -> ProbeOutcome {
        let target = match Target::from_parts(&probe.scheme, &probe.host, probe.port, &probe.path) {
            Ok(target) => target,
            Err(problem) => return ProbeOutcome::Error(problem),
        };
        let headers = headers_of(&probe.headers);
        let timeout = probe.timeout;
        let ask = Ask { target, headers, redirects: Redirects::SameHost, body_max: BODY_BYTES_MAX, timeout };
        outcome_of(get(ask, &|| Ok(Arc::clone(&self.tls))).await)
    }
}

/// The headers given; with an agent and an `Accept` if they have none. An empty `Accept` takes it away.
fn headers_of(given: &[(String, String)]) -> Vec<(String, String)> {
    let first = |wanted: &str| given.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value);
    let mut headers = given.to_vec();
    if first("user-agent").is_none() {
        headers.push(("User-Agent".to_owned(), USER_AGENT.to_owned()));
    }
    match first("accept") {
        None => headers.push(("Accept".to_owned(), "*/*".to_owned())),
        Some(value) if value.is_empty() => headers.retain(|(name, _)| !name.eq_ignore_ascii_case("accept")),
        Some(_) => {}
    }
    headers
}

fn outcome_of(outcome: Result<Answer, ExchangeError>) -> ProbeOutcome {
    match outcome {
        Ok(Answer { status: 200..=299, .. }) => ProbeOutcome::Success,
        Ok(Answer { status: 300..=399, body, .. }) => {
            let body = String::from_utf8_lossy(&body);
            ProbeOutcome::Warning(format!("Probe terminated redirects, Response body: {body}"))
        }
        // As upstream, the body is not told: it may hold what a reader of Events must not see.
        Ok(Answer { status, .. }) => ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
        Err(ExchangeError::Get(problem)) => ProbeOutcome::Failure(problem),
        Err(ExchangeError::Body(problem)) => ProbeOutcome::Error(problem),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
