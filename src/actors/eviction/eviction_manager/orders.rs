//! Evictions that are decided, until `PodManager` has taken each of them: one that is lost is a pod that stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::eviction::Eviction;
use crate::logic::eviction::record::EvictionCause;
use crate::logic::model::ids::PodUid;

/// A decision to evict.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// The pod.
    pub(super) pod: Arc<Pod>,
    /// How it ends.
    pub(super) eviction: Eviction,
    /// Why, for people who ask.
    pub(super) cause: EvictionCause,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Orders {
    waiting: BTreeMap<PodUid, Order>,
    /// A timer runs for those that wait.
    is_timed: bool,
}

impl Orders {
    /// One more decision.
    pub(super) fn add(&mut self, uid: PodUid, order: Order) {
        self.waiting.insert(uid, order);
    }

    /// The pod need not end any more.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
    }

    /// Tries to tell each; gives those that `told` says were taken.
    pub(super) fn give(&mut self, told: impl Fn(&PodUid, &Eviction) -> bool) -> Vec<(PodUid, Order)> {
        self.is_timed = false;
        let (taken, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(uid, order)| told(uid, &order.eviction));
        self.waiting = waiting;
        BTreeMap::into_iter(taken).collect()
    }

    /// Whether some wait and no timer runs for them yet; from now on one does.
    pub(super) fn wait_for_room(&mut self) -> bool {
        !self.waiting.is_empty() && !std::mem::replace(&mut self.is_timed, true)
    }
}
