//! A pod worker's jobs about claims of resources: having them prepared, giving their devices to containers, letting them go
//! (RES-48).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::site::JobSite;
use crate::actors::kit::address::AskError;
use crate::actors::kit::trace::Cause;
use crate::logic::plugins::claims::check::ClaimError;
use crate::logic::plugins::claims::pod_claims::{extended_of, has_claims};
use crate::logic::pods::pod_lifecycle::{ClaimFailure, JobEnd};
use crate::messages::plugins::claim_manager::{ClaimManagerMsg, ClaimReply};

/// After this time without an end the pod's wait says what keeps it; the work goes on, and is asked for again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Patience with answers that wait for nothing.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

impl JobSite {
    /// Has the pod's claims prepared.
    pub(in super::super) async fn prepare_claims(self, pod: Arc<Pod>, cause: Cause) -> JobEnd {
        let prepared = self.ask_for_claims(|reply| ClaimManagerMsg::Prepare(pod, reply), &cause).await;
        JobEnd::ClaimsPrepared(prepared.map_err(|failure| named("prepare dynamic resources", failure)))
    }

    /// Has the claims released that the pod used last.
    pub(in super::super) async fn release_claims(self, cause: Cause) -> JobEnd {
        let uid = self.uid.clone();
        let released = self.ask_for_claims(|reply| ClaimManagerMsg::Release(uid, reply), &cause).await;
        JobEnd::ClaimsReleased(released.map_err(|failure| named("unprepare dynamic resources", failure)))
    }

    async fn ask_for_claims(
        &self,
        question: impl FnOnce(ClaimReply) -> ClaimManagerMsg,
        cause: &Cause,
    ) -> Result<(), ClaimFailure> {
        let manager = &self.tools.to.claim_manager;
        let failed = |error: ClaimError| ClaimFailure { in_processing: false, message: error.to_string() };
        match manager.ask(cause.clone(), PATIENCE, question).await {
            Ok(outcome) => return outcome.map_err(failed),
            Err(AskError::Late) => {}
            // It is being started again, or has much to do: nothing has failed.
            Err(error) => return Err(ClaimFailure { in_processing: true, message: error.to_string() }),
        }
        let uid = self.uid.clone();
        let question = |reply| ClaimManagerMsg::Progress(uid, reply);
        let progress = manager.ask(cause.clone(), ANSWER_PATIENCE, question).await.ok().flatten();
        let message = progress.map_or_else(|| "not done yet".to_owned(), |progress| progress.to_string());
        Err(ClaimFailure { in_processing: true, message })
    }

    /// The runtime's names for the devices that a container has of the pod's claims.
    pub(super) async fn claimed_devices(
        &self,
        pod: &Pod,
        container: &Container,
        cause: &Cause,
    ) -> Result<Vec<String>, String> {
        let names = container.resources.as_ref().and_then(|resources| resources.claims.as_ref());
        let has_any = names.is_some_and(|names| !names.is_empty()) || extended_of(pod, &container.name).is_some();
        if !has_any || !has_claims(pod) {
            return Ok(vec![]);
        }
        let (pod, name) = (Arc::new(pod.clone()), container.name.clone());
        let question = |reply| ClaimManagerMsg::Devices(pod, name, reply);
        let asked = self.tools.to.claim_manager.ask(cause.clone(), ANSWER_PATIENCE, question).await;
        let found = asked.map_err(|error| format!("its devices are not known: {error}"))?;
        found.map_err(|error| error.to_string())
    }
}

/// A failure is in upstream's words; what merely lasts needs none.
fn named(what: &str, failure: ClaimFailure) -> ClaimFailure {
    match failure.in_processing {
        true => failure,
        false => ClaimFailure { message: format!("{what}: {}", failure.message), ..failure },
    }
}
