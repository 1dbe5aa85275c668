//! Resources that pods take of the node, and of the cgroups above their own.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::Room;
use crate::logic::resources::{TierShares, TierSums};

/// See the module. Owned by `PodManager`.
#[derive(Default)]
pub struct PodShares {
    /// The resources that admitted pods take of the node.
    room: Room,
    /// The shares of the tiers' cgroups that the pods that count take.
    active: TierShares,
}

impl PodShares {
    /// The resources that admitted pods take of the node.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// The same, to judge pods by: whoever is admitted is counted at once.
    pub fn room_mut(&mut self) -> &mut Room {
        &mut self.room
    }

    /// Counts one pod anew: with what it takes of the node, and with what it takes of the tiers' cgroups.
    pub fn set(&mut self, uid: &PodUid, share: Option<&Arc<Pod>>, active: Option<&Arc<Pod>>, pod_level: bool) {
        self.room.set(uid, share, pod_level);
        self.active.set(uid, active, pod_level);
    }

    /// Forgets pods that are not `known` any more.
    pub fn retain(&mut self, known: impl Fn(&PodUid) -> bool) {
        self.room.retain(&known);
        self.active.retain(&known);
    }

    /// The sums of the shares that the pods that count take of the tiers' cgroups.
    pub fn sums(&self) -> TierSums {
        self.active.sums()
    }
}
