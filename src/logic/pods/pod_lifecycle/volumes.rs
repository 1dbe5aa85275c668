//! A pod's volumes, as its life sees them: asked for beside everything else, there before its containers.

use super::*;
use crate::logic::volumes::plan::volume_plans;

/// What is known of the pod's volumes.
#[derive(Clone, Debug, Default)]
pub(super) struct PodVolumes {
    /// Whether a container mounts any.
    used: bool,
    /// Where they are, once all are there.
    mounted: Option<Arc<MountedVolumes>>,
}

fn has_all(mounted: &MountedVolumes, pod: &Pod) -> bool {
    volume_plans(pod).iter().all(|plan| mounted.volumes.contains_key(&plan.name))
}

impl PodLifecycle {
    /// Where the pod's volumes are; `None` until all are there.
    pub fn volumes(&self) -> Option<&Arc<MountedVolumes>> {
        self.volumes.mounted.as_ref()
    }

    /// Whether containers may be made as far as volumes are concerned.
    pub fn has_its_volumes(&self) -> bool {
        !self.volumes.used || self.volumes.mounted.is_some()
    }

    /// Of the pod as it is now. A container that came since, an ephemeral one, may mount what none did: then all are asked
    /// for again.
    pub(super) fn note_used_volumes(&mut self, pod: &Pod) {
        self.volumes.used = !volume_plans(pod).is_empty();
        if self.volumes.mounted.take_if(|mounted| !has_all(mounted, pod)).is_some() {
            self.retries.remove(&Job::MountVolumes);
        }
    }

    /// What was mounted for the pod as it was when that began is not enough if it mounts more by now.
    pub(super) fn note_volumes(&mut self, end: &JobEnd) {
        if let JobEnd::VolumesMounted(Ok(mounted)) = end
            && self.pod.as_ref().is_none_or(|pod| has_all(mounted, pod))
        {
            self.volumes.mounted = Some(Arc::clone(mounted));
        }
    }

    /// What kept the pod's volumes away may be over: the next step asks for them again, whatever wait there was.
    pub fn volumes_changed(&mut self) {
        self.retries.remove(&Job::MountVolumes);
    }

    /// Side by side with sandbox and images, and of a pod that runs already, too: the agent may have been restarted.
    pub(super) fn mount_volumes(&mut self, now: Now) -> Vec<Action> {
        if self.has_its_volumes() {
            return vec![];
        }
        let waiting_for = match self.problem_of(&Job::MountVolumes) {
            Some(problem) => format!("its volumes: {problem}"),
            None => "its volumes to be mounted".to_owned(),
        };
        if self.may_begin(&Job::MountVolumes, now, &waiting_for) { vec![Action::MountVolumes] } else { vec![] }
    }
}
