//! `PodManager`'s account of its pods, for the metrics.

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::logic::ids::PodUid;
use crate::logic::pod_census::{Claim, PodCensus};
use crate::logic::pod_lifecycle::Stage;
use crate::logic::pod_roster::is_static;

impl PodManager {
    pub(super) fn census(&self) -> PodCensus {
        let mut census = PodCensus::default();
        for pod in self.api_pods.iter().flatten().chain(self.statics.values().flatten()).map(|(_, pod)| pod) {
            census.desired.add(is_static(pod));
            let ephemeral = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.as_ref());
            census.ephemeral_containers += ephemeral.map_or(0, Vec::len);
        }
        for (uid, pod) in self.roster.all_wanted() {
            if !self.has_ended(uid) {
                census.active.add(is_static(pod));
            }
        }
        for (uid, slot) in &self.slots {
            let told = self.roster.told(uid);
            let claim = match told {
                None => Claim::RuntimeOnly,
                Some(_) if self.roster.wanted(uid).is_some() => Claim::Desired,
                Some(_) => Claim::Orphan,
            };
            let from_file = told.is_some_and(|pod: &Pod| is_static(pod));
            census.add_worker(claim, slot.stage.get(), from_file);
        }
        census
    }

    fn has_ended(&self, uid: &PodUid) -> bool {
        self.roster.ended().contains(uid)
            || self.slots.get(uid).is_some_and(|slot| slot.stage.get() == Stage::Terminated)
    }
}
