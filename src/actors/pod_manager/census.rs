//! `PodManager`'s account of its pods: for the metrics, and of who takes room.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::desk::Desk;
use crate::logic::ids::PodUid;
use crate::logic::pod_admission::is_over;
use crate::logic::pod_census::{Claim, PodCensus};
use crate::logic::pod_lifecycle::Stage;
use crate::logic::pod_roster::is_static;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::resource_manager::ResourceManagerMsg;

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

    /// Whether the pod takes room, and counts for the cgroups above the pods (POD-31; upstream's active pods): until it has
    /// ended here, whatever the API server shows meanwhile of what still runs.
    pub(super) fn takes_room(&self, uid: &PodUid, pod: &Pod) -> bool {
        let runs = || self.slots.contains_key(uid) && self.runtime.get(uid).is_some_and(|seen| seen.is_alive());
        !self.has_ended(uid) && (!is_over(pod) || runs())
    }

    /// Tells which pods count for the cgroups above the pods' own.
    pub(super) fn tell_active(&self, desk: &Desk<PodManagerMsg>) {
        let wanted = self.roster.all_wanted();
        let active: Vec<Arc<Pod>> =
            wanted.filter(|(uid, pod)| self.takes_room(uid, pod)).map(|(_, pod)| Arc::clone(pod)).collect();
        desk.tell(&self.agent.directory.resource_manager, ResourceManagerMsg::ActivePods(Arc::new(active)));
    }

    pub(super) fn has_ended(&self, uid: &PodUid) -> bool {
        self.roster.ended().contains(uid)
            || self.slots.get(uid).is_some_and(|slot| slot.stage.get() == Stage::Terminated)
    }
}
