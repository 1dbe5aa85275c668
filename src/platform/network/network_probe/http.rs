//! Probes and hooks by HTTP (PRB-12, POD-23, SEC-45): no proxy, no credentials of the node, redirects to the same host.

use std::sync::Arc;

use async_trait::async_trait;
use rustls::ClientConfig;

use super::{HookAnswer, HookError, HttpProbe, NetworkProbe, ProbeOutcome};
use crate::platform::network::http_exchange::{
    Answer, Ask, Errand, ExchangeError, Haste, Redirects, Target, TargetError,
};
use crate::platform::network::names::Names;

/// The most bytes of an answer's body that are read; more is no fault.
const BODY_BYTES_MAX: usize = 10 * 1024;
/// The probe's name for itself when its headers do not say.
const USER_AGENT: &str = "kube-probe/1.36";
/// The hook's name for itself when its headers do not say.
const HOOK_USER_AGENT: &str = "kube-lifecycle/1.36";

/// An HTTP probe whose request is written already; or what there is to say of it each time.
pub(super) struct Prepared {
    tls: Arc<ClientConfig>,
    errand: Result<Errand, ProbeOutcome>,
}

impl Prepared {
    pub fn new(tls: &Arc<ClientConfig>, names: &Names, probe: &HttpProbe) -> Self {
        let errand =
            ask(probe, names, USER_AGENT, Haste::Little).map_err(|error| ProbeOutcome::Error(error.to_string()));
        let errand = errand.and_then(|ask| Errand::new(ask).map_err(|error| outcome_of(Err(error))));
        Self { tls: Arc::clone(tls), errand }
    }
}

#[async_trait]
impl NetworkProbe for Prepared {
    /// Asks, within the probe's time.
    async fn make(self: Arc<Self>) -> ProbeOutcome {
        match &self.errand {
            Ok(errand) => outcome_of(errand.run(&|| Ok(Arc::clone(&self.tls))).await),
            Err(outcome) => outcome.clone(),
        }
    }
}

/// Asks for a hook: any answer is one, also one whose body breaks off.
pub(super) async fn hook(
    tls: &Arc<ClientConfig>,
    names: &Names,
    mut request: HttpProbe,
) -> Result<HookAnswer, HookError> {
    let Err(problem) = answered(tls, names, &request).await else { return Ok(HookAnswer::AsAsked) };
    if !matches!(&problem, HookError::Exchange(error) if error.is_plain_after_all()) {
        return Err(problem);
    }
    "http".clone_into(&mut request.scheme);
    // A header that was meant for an encrypted connection is not sent over another.
    request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    // As upstream, a failure is that of the first try.
    answered(tls, names, &request).await.map(|()| HookAnswer::OverPlainHttp).map_err(|_| problem)
}

async fn answered(tls: &Arc<ClientConfig>, names: &Names, request: &HttpProbe) -> Result<(), HookError> {
    let tls: &(dyn Fn() -> _ + Send + Sync) = &|| Ok(Arc::clone(tls));
    let answered = match Errand::new(ask(request, names, HOOK_USER_AGENT, Haste::Great)?) {
        Ok(errand) => errand.run(tls).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(_) | Err(ExchangeError::Body(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn ask<'a>(probe: &'a HttpProbe, names: &Names, user_agent: &'a str, haste: Haste) -> Result<Ask<'a>, TargetError> {
    let target = Target::from_parts(&probe.scheme, &probe.host, probe.port, &probe.path)?;
    let headers = headers_of(&probe.headers, user_agent);
    let (redirects, body_max, timeout) = (Redirects::SameHost, BODY_BYTES_MAX, probe.timeout);
    Ok(Ask { target, headers, redirects, body_max, timeout, haste, names: names.clone() })
}

/// The headers given; with an agent and an `Accept` if they have none. An empty `Accept` takes it away.
fn headers_of<'a>(given: &'a [(String, String)], user_agent: &'a str) -> Vec<(&'a str, &'a str)> {
    let first = |wanted: &str| given.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value);
    let mut headers = Vec::with_capacity(given.len() + 2);
    headers.extend(given.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    if first("user-agent").is_none() {
        headers.push(("User-Agent", user_agent));
    }
    match first("accept") {
        None => headers.push(("Accept", "*/*")),
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
        // As upstream, the result leaves the body out: it may hold what a reader of Events must not see.
        Ok(Answer { status, .. }) => ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
        Err(error @ ExchangeError::Get { .. }) => ProbeOutcome::Failure(error.to_string()),
        Err(error @ ExchangeError::Body(_)) => ProbeOutcome::Error(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
