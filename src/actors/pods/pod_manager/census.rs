//! `PodManager`'s account of its pods: for the metrics, and of who takes room.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::is_over;
use crate::logic::pods::pod_lifecycle::Stage;
use crate::logic::pods::pod_manager::pod_census::{Claim, PodCensus};
use crate::logic::pods::pod_roster::is_static;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::resources::resource_manager::ResourceManagerMsg;

impl PodManager {
    pub(super) fn census(&self) -> PodCensus {
        let mut census = PodCensus::default();
        for (_, pod) in self.sources.all() {
            census.desired.add(is_static(pod));
            let ephemeral = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.as_ref());
            census.ephemeral_containers += ephemeral.map_or(0, Vec::len);
        }
        for (uid, pod) in self.roster.all_wanted() {
            if !self.has_ended(uid) {
                census.active.add(is_static(pod));
            }
        }
        for (uid, slot) in self.workers.iter() {
            let told = self.roster.told(uid);
            let claim = match told {
                None => Claim::RuntimeOnly,
                Some(_) if self.roster.wanted(uid).is_some() => Claim::Desired,
                Some(_) => Claim::Orphan,
            };
            let from_file = told.is_some_and(|pod: &Pod| is_static(pod));
            census.add_worker(claim, slot.stage(), from_file);
        }
        census
    }

    /// Whether the pod takes room, and counts for the cgroups above the pods (POD-31; upstream's active pods): until it has
    /// ended here, whatever the API server shows meanwhile of what still runs.
    pub(super) fn takes_room(&self, uid: &PodUid, pod: &Pod) -> bool {
        let runs = || self.workers.has(uid) && self.held.is_alive(uid);
        !self.has_ended(uid) && (!is_over(pod) || runs())
    }

    /// Tells what the pods that count take of the cgroups above the pods' own, where that has changed.
    pub(super) fn tell_active(&mut self, context: &Context<PodManagerMsg>) {
        self.tell_holders(context);
        let sums = self.shares.sums();
        if self.active_told != Some(sums) {
            let told = context.try_tell(&self.args.to.resource_manager, ResourceManagerMsg::ActivePods(sums));
            self.active_told = told.then_some(sums);
        }
    }

    /// Counts one pod anew, of which something may have changed.
    pub(super) fn recount(&mut self, uid: &PodUid) {
        let pod_level = self.args.settings.resources.pod_level_resources;
        let share = self.share_of(uid);
        let active = self.roster.wanted(uid).filter(|pod| self.takes_room(uid, pod)).cloned();
        self.shares.set(uid, share.as_ref(), active.as_ref(), pod_level);
    }

    /// Counts all pods anew. Those that are as they were cost next to nothing; what has ended is found here.
    pub(super) fn recount_all(&mut self) {
        let mut known: BTreeSet<PodUid> = self.roster.all_wanted().map(|(uid, _)| uid.clone()).collect();
        known.extend(self.sources.all().map(|(uid, _)| uid.clone()));
        self.shares.retain(|uid| known.contains(uid));
        known.iter().for_each(|uid| self.recount(uid));
    }

    /// The pod with what it takes of the node; `None` of one that takes nothing.
    fn share_of(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        let pod = self.sources.pod(uid)?;
        if self.admissions.is_admitted(uid) {
            let counted = self.counted_one(uid, pod);
            return Some(counted).filter(|pod| self.takes_room(uid, pod));
        }
        let is_here = self.workers.has(uid) && !self.roster.is_left_over(uid);
        (is_here && self.admissions.stop_of(uid).is_some()).then(|| Arc::clone(pod))
    }

    /// Whether the pod has ended on this node.
    pub(super) fn has_ended(&self, uid: &PodUid) -> bool {
        self.roster.ended().contains(uid) || self.workers.get(uid).is_some_and(|slot| slot.stage() == Stage::Terminated)
    }
}
