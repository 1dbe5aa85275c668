//! A pod's certificates (VOL-28, KEP-4317): when one is asked for, what the answer means, when it is asked for anew.
//!
//! One state for each source of kind `podCertificate` of a projected volume; kept by `VolumeManager`, looked at whenever
//! the volume is set up. Nothing outlives the agent: after a restart a new certificate is asked for, as upstream.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1beta1::PodCertificateRequest;
use k8s_openapi::api::core::v1::{Pod, PodCertificateProjection};

use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;

/// A request that is not found any more after this long was deleted, as far as anybody can tell.
const LOST_AFTER: Duration = Duration::from_secs(600);
/// A certificate that is due for longer is worth an Event.
const OVERDUE_AFTER: Duration = Duration::from_secs(600);
/// Spreads what would otherwise happen at once.
const JITTER_MAX: Duration = Duration::from_secs(300);

/// Which certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateKey {
    /// The pod's UID.
    pub pod_uid: PodUid,
    /// The volume's name in the pod.
    pub volume: String,
    /// The place of the source in the volume.
    pub source: usize,
}

/// The request to a signer.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The pod's namespace, name and service account.
    pub namespace: String,
    /// See `namespace`.
    pub pod_name: String,
    /// See `namespace`.
    pub service_account: String,
    /// The pod's UID.
    pub pod_uid: PodUid,
    /// The source itself.
    pub source: PodCertificateProjection,
}

impl Wanted {
    /// The request of this source of this pod.
    pub fn new(pod: &Pod, source: &PodCertificateProjection) -> Self {
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        Self {
            namespace: text(pod.metadata.namespace.as_ref()),
            pod_name: text(pod.metadata.name.as_ref()),
            service_account: text(pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_ref())),
            pod_uid: PodUid::from(text(pod.metadata.uid.as_ref())),
            source: source.clone(),
        }
    }
}

/// A request under way. No `Debug`: the key is secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Asked {
    /// The private key, in PEM.
    pub key: Arc<str>,
    /// The request's name.
    pub request: String,
    /// From when on it was deleted if it is not found.
    pub lost_at: Moment,
}

impl Asked {
    /// A request that was just made; `chance` is in 0..1.
    pub fn new(key: Arc<str>, request: String, now: Moment, chance: f64) -> Self {
        Self { key, request, lost_at: now.plus(LOST_AFTER).plus(JITTER_MAX.mul_f64(chance)) }
    }
}

/// A certificate. No `Debug`: the key is secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The private key, in PEM.
    pub key: Arc<str>,
    /// The certificate and those above it, in PEM.
    pub chain: Arc<str>,
    refresh_at: Moment,
    ends_at: Moment,
    overdue_told: bool,
    end_told: bool,
}

/// How far a certificate is. No `Debug`: keys are secret.
#[derive(Clone, PartialEq, Eq)]
pub enum CertificateState {
    /// The first one was asked for.
    Asked(Asked),
    /// There is one; with the request for the next.
    Issued(Issued, Option<Asked>),
    /// There will be none: why, in upstream's words.
    Refused(String),
}

/// The next step before the volume can be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a key, and a request.
    Ask,
    /// Read the request of this name.
    Look(String),
    /// Nothing.
    Rest,
}

/// A private key and the chain of its certificate, both in PEM; or why there are none.
pub type KeyAndChain = Result<(Arc<str>, Arc<str>), String>;

/// An Event about the pod: reason and message.
pub type CertificateEvent = (EventReason, String);

/// The next step now.
pub fn next_step(state: Option<&CertificateState>, now: Moment) -> Step {
    match state {
        None => Step::Ask,
        Some(CertificateState::Asked(asked) | CertificateState::Issued(_, Some(asked))) => {
            Step::Look(asked.request.clone())
        }
        Some(CertificateState::Issued(issued, None)) if now >= issued.refresh_at => Step::Ask,
        Some(CertificateState::Issued(_, None) | CertificateState::Refused(_)) => Step::Rest,
    }
}

/// A request was made.
pub fn note_asked(state: Option<CertificateState>, asked: Asked) -> CertificateState {
    match state {
        Some(CertificateState::Issued(issued, _)) => CertificateState::Issued(issued, Some(asked)),
        _ => CertificateState::Asked(asked),
    }
}

/// A request was looked at; `found` is `None` when it is not there. Gives the new state, `None` where all begins anew.
pub fn note_looked(
    state: CertificateState,
    found: Option<&PodCertificateRequest>,
    now: Moment,
    chance: f64,
) -> (Option<CertificateState>, Vec<CertificateEvent>) {
    let (asked, issued) = match &state {
        CertificateState::Asked(asked) => (asked, None),
        CertificateState::Issued(issued, Some(asked)) => (asked, Some(issued)),
        CertificateState::Issued(_, None) | CertificateState::Refused(_) => return (Some(state), vec![]),
    };
    let Some(found) = found else {
        let lost = now > asked.lost_at;
        let without = issued.map(|issued| CertificateState::Issued(issued.clone(), None));
        return (if lost { without } else { Some(state) }, vec![]);
    };
    let status = found.status.clone().unwrap_or_default();
    let named = |metadata: &Option<String>| metadata.clone().unwrap_or_default();
    let name = format!("{}/{}", named(&found.metadata.namespace), named(&found.metadata.name));
    for condition in status.conditions.iter().flatten() {
        let (reason, message) = (&condition.reason, &condition.message);
        let refused = |kind: EventReason, verb: &str, past: &str| {
            let text = format!("PodCertificateRequest was permanently {past}: reason={reason:?} message={message:?}");
            let event = format!("PodCertificateRequest {name} {verb}, reason={reason:?}, message={message:?}");
            (Some(CertificateState::Refused(text)), vec![(kind, event)])
        };
        match condition.type_.as_str() {
            "Denied" => return refused(EventReason::Denied, "was denied", "denied"),
            "Failed" => return refused(EventReason::Failed, "failed", "failed"),
            "Issued" => {
                let moment = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
                    time.as_ref().map_or(now, |time| Moment::from_timestamp(time.0))
                };
                let issued = Issued {
                    key: Arc::clone(&asked.key),
                    chain: clean_chain(status.certificate_chain.as_deref().unwrap_or_default()).into(),
                    refresh_at: moment(&status.begin_refresh_at).plus(JITTER_MAX.mul_f64(chance)),
                    ends_at: moment(&status.not_after),
                    overdue_told: false,
                    end_told: false,
                };
                return (Some(CertificateState::Issued(issued, None)), vec![]);
            }
            _ => {}
        }
    }
    (Some(state), vec![])
}

/// The news about a certificate that should have been replaced; each once.
pub fn overdue(state: &mut CertificateState, now: Moment) -> Vec<CertificateEvent> {
    let CertificateState::Issued(issued, _) = state else { return vec![] };
    let mut events = vec![];
    if now > issued.refresh_at.plus(OVERDUE_AFTER) && !std::mem::replace(&mut issued.overdue_told, true) {
        events.push((EventReason::CertificateOverdueForRefresh, "PodCertificate refresh overdue".to_owned()));
    }
    if now > issued.ends_at && !std::mem::replace(&mut issued.end_told, true) {
        events.push((EventReason::CertificateExpired, "PodCertificate expired".to_owned()));
    }
    events
}

/// Key and chain, for the pod's files.
///
/// # Errors
/// Why there are none, in upstream's words.
pub fn bundle(state: Option<&CertificateState>) -> KeyAndChain {
    match state {
        Some(CertificateState::Issued(issued, _)) => Ok((Arc::clone(&issued.key), Arc::clone(&issued.chain))),
        Some(CertificateState::Refused(why)) => Err(why.clone()),
        Some(CertificateState::Asked(_)) | None => Err("credential bundle is not issued yet".to_owned()),
    }
}

/// The blocks of a chain in their order, without what a signer wrote between them.
fn clean_chain(chain: &str) -> String {
    let blocks = super::trust::bodies(chain);
    blocks.iter().map(|body| super::trust::block(body)).collect()
}

#[cfg(test)]
mod tests;
