//! The counts of a pod worker about its pod, for the metrics.

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::jobs::JobSite;
use crate::actors::sources::first_seen;
use crate::logic::images::image_policy::ImageFailure;
use crate::logic::model::time::Moment;
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::pods::pod_containers::find_container;
use crate::logic::pods::pod_lifecycle::JobEnd;
use crate::logic::resources::user_namespaces::has_own_users;
use crate::platform::observer::Observation;

/// Counts tries to start containers, each from its image on.
pub(super) fn count_try(site: &JobSite, pod: Option<&Pod>, end: &JobEnd) {
    let (container, error) = match end {
        JobEnd::ImageEnsured(container, Err(ImageFailure { reason: Some(reason), .. })) => (container, Some(*reason)),
        JobEnd::Started(container, outcome) => (container, outcome.as_ref().err().map(|failure| failure.reason)),
        _ => return,
    };
    let error = error.map(<&str>::from);
    let found = pod.and_then(|pod| find_container(pod, container));
    let container_type = match found.map(|(kind, _)| kind) {
        Some(ContainerKind::Init) => "init_container",
        Some(ContainerKind::Ephemeral) => "ephemeral_container",
        Some(ContainerKind::Regular) | None => "container",
    };
    site.tools.observe(Observation::ContainerTried { container_type, error });
}

/// Counts failures of a pod with users of its own, one for each sandbox that was made: what fails in one pass over the pod
/// from there on, as upstream. Most user namespaces fail with the first container.
#[derive(Debug, Default)]
pub(super) struct OwnUsersTry {
    is_open: bool,
}

impl OwnUsersTry {
    /// A job has ended.
    pub(super) fn take(&mut self, site: &JobSite, pod: Option<&Pod>, end: &JobEnd) {
        match end {
            JobEnd::SandboxUp(Ok(_)) => self.is_open = pod.is_some_and(has_own_users),
            JobEnd::ImageEnsured(_, Err(_)) | JobEnd::Started(_, Err(_)) if std::mem::take(&mut self.is_open) => {
                site.tools.observe(Observation::OwnUsersFailed);
            }
            _ => {}
        }
    }

    /// The pass has ended.
    pub(super) fn end(&mut self) {
        self.is_open = false;
    }
}

/// Counts how long the pod took to run, as seen from here (upstream counts a second time when it is first looked at).
pub(super) fn count_start(site: &JobSite, pod: &Pod, before: Option<&PodStatus>, status: &PodStatus, now: Moment) {
    let was_pending = before.is_some_and(|before| before.phase.as_deref() == Some("Pending"));
    if was_pending
        && status.phase.as_deref() == Some("Running")
        && let Some(seen) = first_seen(pod)
    {
        site.tools.observe(Observation::PodRuns { after: now.since(seen) });
    }
}
