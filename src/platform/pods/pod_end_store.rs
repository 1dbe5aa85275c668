//! How pods ended, for as long as this process lives: it outlives the actors that note and ask it.
//!
//! Owned by the agent; a `PodWorker` notes its pod's status, `PodManager` reminds the next worker and forgets pods.
//! `logic::status::pod_ends` decides which statuses are kept; nothing is written to the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_roster::WorkerLife;
use crate::logic::status::pod_ends::PodEnds;

/// See the module.
#[derive(Debug, Default)]
pub struct PodEndStore {
    ends: Mutex<PodEnds>,
}

impl PodEndStore {
    /// A worker looks after this life of the pod, or has to end it. How an earlier life ended counts no more.
    pub fn begin(&self, uid: &PodUid, life: WorkerLife) {
        self.lock().begin(uid, life);
    }

    /// The lives of pods that have workers, or had when `PodManager` fell.
    pub fn lives(&self) -> BTreeMap<PodUid, WorkerLife> {
        self.lock().lives().clone()
    }

    /// The pod's status, which is kept when it is final.
    pub fn note(&self, uid: &PodUid, status: &Arc<PodStatus>) {
        self.lock().note(uid, status);
    }

    /// The pod with how it ended in its status.
    pub fn recall(&self, uid: &PodUid, pod: Arc<Pod>) -> Arc<Pod> {
        self.lock().recall(uid, pod)
    }

    /// Nothing is left of the pod here.
    pub fn forget(&self, uid: &PodUid) {
        self.lock().forget(uid);
    }

    /// Forgets all other pods.
    pub fn keep_only(&self, known: &BTreeSet<PodUid>) {
        self.lock().keep_only(known);
    }

    /// A panic of another user leaves each entry whole.
    fn lock(&self) -> MutexGuard<'_, PodEnds> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
