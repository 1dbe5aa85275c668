//! Events of a pod that its worker tells because of what the pod's next status says, or of what it waits for.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::PodWorker;
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::pods::container_actions::CRASH_LOOP_BACK_OFF;
use crate::logic::status::pod_status::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, family_mismatch};
use crate::messages::event_recorder::EventSubject;
use crate::messages::pod_worker::PodWorkerMsg;

impl PodWorker {
    /// One Event when the pod's time is over (POD-25), one when its host is known by an address of the other family than
    /// before.
    pub(super) fn tell_change(&self, pod: &Pod, status: &PodStatus, context: &Context<PodWorkerMsg>) {
        let is_past = |status: &PodStatus| status.reason.as_deref() == Some(DEADLINE_EXCEEDED);
        let before = self.status.as_deref().or(pod.status.as_ref());
        let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
        let tell = |event| context.tell(&self.site.agent.directory.event_recorder, event);
        if is_past(status) && !before.is_some_and(is_past) {
            tell(subject.normal(EventReason::DeadlineExceeded, DEADLINE_MESSAGE));
        }
        if let Some(message) = before.and_then(|before| family_mismatch(before, status)) {
            tell(subject.warning(EventReason::HostIPsIPFamilyMismatch, message));
        }
    }

    /// One Event for each back-off of a container that keeps ending (POD-37).
    pub(super) fn tell_back_offs(&mut self, context: &Context<PodWorkerMsg>) {
        let errors = self.lifecycle.start_errors().iter();
        let now: BTreeSet<String> =
            errors.filter(|(_, error)| error.reason == CRASH_LOOP_BACK_OFF).map(|(name, _)| name.clone()).collect();
        for container in now.difference(&self.told_back_offs) {
            let (name, uid) = (&self.site.full_name, &self.site.uid);
            let message = format!("Back-off restarting failed container {container} in pod {name}({uid})");
            let subject = self.site.subject(self.site.path_of(self.lifecycle.pod().map(AsRef::as_ref), container));
            context.tell(&self.site.agent.directory.event_recorder, subject.warning(EventReason::BackOff, message));
        }
        self.told_back_offs = now;
    }
}
