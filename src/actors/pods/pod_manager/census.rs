//! `PodManager`'s account of its pods: for the metrics, and of who takes room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::is_over;
use crate::logic::pods::pod_lifecycle::Stage;
use crate::logic::pods::pod_manager::pod_census::{Claim, PodCensus};
use crate::logic::pods::pod_roster::is_static;
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

    /// Tells what the pods that count take of the cgroups above the pods' own, where that has changed.
    pub(super) fn tell_active(&mut self, context: &Context<PodManagerMsg>) {
        let sums = self.active.sums();
        if self.active_told != Some(sums) {
            let told = context.try_tell(&self.agent.directory.resource_manager, ResourceManagerMsg::ActivePods(sums));
            self.active_told = told.then_some(sums);
        }
    }

    /// Counts one pod anew, of which something may have changed.
    pub(super) fn recount(&mut self, uid: &PodUid) {
        let pod_level = self.agent.settings.resources.options.pod_level_resources;
        let share = self.share_of(uid);
        self.room.set(uid, share.as_ref(), pod_level);
        let active = self.roster.wanted(uid).filter(|pod| self.takes_room(uid, pod)).cloned();
        self.active.set(uid, active.as_ref(), pod_level);
    }

    /// Counts all pods anew. Those that are as they were cost next to nothing; what has ended is found here.
    pub(super) fn recount_all(&mut self) {
        let mut known: BTreeSet<PodUid> = self.roster.all_wanted().map(|(uid, _)| uid.clone()).collect();
        known.extend(self.api_pods.iter().chain(self.statics.values()).flat_map(BTreeMap::keys).cloned());
        self.room.retain(|uid| known.contains(uid));
        self.active.retain(|uid| known.contains(uid));
        known.iter().for_each(|uid| self.recount(uid));
    }

    /// The pod with what it takes of the node; `None` of one that takes nothing.
    fn share_of(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        let pod = self.source_pod(uid)?;
        if self.is_admitted(uid) {
            let counted = self.counted_one(uid, pod);
            return Some(counted).filter(|pod| self.takes_room(uid, pod));
        }
        let leaves = self.is_preempted(uid) && self.slots.contains_key(uid) && !self.roster.is_left_over(uid);
        leaves.then(|| Arc::clone(pod))
    }

    /// The pod as its source wants it.
    pub(super) fn source_pod(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.api_pods.iter().chain(self.statics.values()).find_map(|pods| pods.get(uid))
    }

    /// Whether the pod was admitted, whichever source it is of.
    pub(super) fn is_admitted(&self, uid: &PodUid) -> bool {
        self.admissions.is_admitted(uid) || self.static_admissions.values().any(|one| one.is_admitted(uid))
    }

    pub(super) fn has_ended(&self, uid: &PodUid) -> bool {
        self.roster.ended().contains(uid)
            || self.slots.get(uid).is_some_and(|slot| slot.stage.get() == Stage::Terminated)
    }
}
