//! What a pod worker counts of its pod, for the metrics.

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::PodWorker;
use crate::actors::kit::context::Context;
use crate::actors::sources::first_seen;
use crate::logic::pods::container_actions::ContainerKind;
use crate::logic::pods::pod_containers::find_container;
use crate::logic::pods::pod_lifecycle::JobEnd;
use crate::messages::pod_worker::PodWorkerMsg;
use crate::platform::observer::Occurrence;

impl PodWorker {
    /// Counts tries to start containers, each from its image on.
    pub(super) fn count(&self, end: &JobEnd) {
        let (container, error) = match end {
            JobEnd::ImageEnsured(container, Err(failure)) if !failure.reason.is_empty() => {
                (container, Some(failure.reason))
            }
            JobEnd::Started(container, outcome) => (container, outcome.as_ref().err().map(|failure| failure.reason)),
            _ => return,
        };
        let found = self.lifecycle.pod().and_then(|pod| find_container(pod, container));
        let container_type = match found.map(|(kind, _)| kind) {
            Some(ContainerKind::Init) => "init_container",
            Some(ContainerKind::Ephemeral) => "ephemeral_container",
            Some(ContainerKind::Regular) | None => "container",
        };
        self.site.agent.happened(Occurrence::ContainerTried { container_type, error });
    }

    /// Counts how long the pod took to run, as seen from here (upstream counts a second time when it is first looked at).
    pub(super) fn count_start(&self, pod: &Pod, status: &PodStatus, context: &Context<PodWorkerMsg>) {
        let was_pending = self.status.as_ref().is_some_and(|before| before.phase.as_deref() == Some("Pending"));
        if was_pending
            && status.phase.as_deref() == Some("Running")
            && let Some(seen) = first_seen(pod)
        {
            self.site.agent.happened(Occurrence::PodRuns { after: context.now().since(seen) });
        }
    }
}
