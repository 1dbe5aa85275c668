//! How pods ended, as long as this process has told of it: a pod that is over stays over (POD-07, POD-25), whichever actor
//! begins anew. In the runtime, a pod that failed for its deadline looks like the work of a reboot. By a clock that was set
//! since, its time is not over.
//!
//! `PodWorker` says how its pod ended, `PodManager` reminds the next worker. Upstream keeps as much: nothing outlives the
//! process. The API server's word, where it has one, counts more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::logic::model::ids::PodUid;
use crate::logic::model::pod_phase::is_terminal;
use crate::logic::pods::pod_roster::WorkerLife;

/// See the module.
#[derive(Debug, Default)]
pub struct PodEnds {
    ends: BTreeMap<PodUid, Arc<PodStatus>>,
    /// The lives of pods that have workers.
    lives: BTreeMap<PodUid, WorkerLife>,
}

impl PodEnds {
    /// A worker looks after this life of the pod, or has to end it. How an earlier life ended counts no more.
    pub fn begin(&mut self, uid: &PodUid, life: WorkerLife) {
        let before = self.lives.insert(uid.clone(), life).unwrap_or_default();
        if before.since != life.since || before.is_ending && !life.is_ending {
            self.ends.remove(uid);
        }
    }

    /// The lives that workers look after.
    pub fn lives(&self) -> &BTreeMap<PodUid, WorkerLife> {
        &self.lives
    }

    /// The pod's status, which is kept when it is final.
    pub fn note(&mut self, uid: &PodUid, status: &Arc<PodStatus>) {
        if status.phase.as_deref().is_some_and(is_terminal) {
            self.ends.insert(uid.clone(), Arc::clone(status));
        }
    }

    /// The pod with how it ended in its status.
    pub fn recall(&self, uid: &PodUid, pod: Arc<Pod>) -> Arc<Pod> {
        let Some(end) = self.ends.get(uid) else { return pod };
        let mut pod = Arc::unwrap_or_clone(pod);
        let status = pod.status.get_or_insert_with(|| PodStatus::clone(end));
        if !status.phase.as_deref().is_some_and(is_terminal) {
            status.phase.clone_from(&end.phase);
            status.reason.clone_from(&end.reason);
            status.message.clone_from(&end.message);
        }
        Arc::new(pod)
    }

    /// Nothing is left of the pod here.
    pub fn forget(&mut self, uid: &PodUid) {
        self.ends.remove(uid);
        self.lives.remove(uid);
    }

    /// Forgets all other pods.
    pub fn keep_only(&mut self, known: &BTreeSet<PodUid>) {
        self.ends.retain(|uid, _| known.contains(uid));
        self.lives.retain(|uid, _| known.contains(uid));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logic::model::time::Stamp;

    const FIRST: WorkerLife = WorkerLife { since: None, is_ending: false };

    fn status(phase: &str, reason: &str) -> Arc<PodStatus> {
        Arc::new(serde_json::from_value(json!({ "phase": phase, "reason": reason })).expect("a status"))
    }

    /// The status with which a pod with this status, or none, is recalled.
    fn recalled(ends: &PodEnds, uid: &PodUid, before: Option<&Arc<PodStatus>>) -> Option<PodStatus> {
        let status = before.map(|status| PodStatus::clone(status));
        ends.recall(uid, Arc::new(Pod { status, ..Pod::default() })).status.clone()
    }

    /// POD-25.
    #[test]
    fn a_pod_that_is_over_is_recalled_as_over() {
        let (uid, mut ends) = (PodUid::from("u"), PodEnds::default());
        ends.begin(&uid, FIRST);
        ends.note(&uid, &status("Running", ""));
        assert_eq!(recalled(&ends, &uid, None), None);
        ends.note(&uid, &status("Failed", "DeadlineExceeded"));
        let end = Some(PodStatus::clone(&status("Failed", "DeadlineExceeded")));
        assert_eq!(recalled(&ends, &uid, None), end);
        assert_eq!(recalled(&ends, &uid, Some(&status("Running", ""))), end);
        let others = status("Succeeded", "");
        assert_eq!(recalled(&ends, &uid, Some(&others)), Some(PodStatus::clone(&others)), "the API server's word");
        ends.begin(&uid, FIRST);
        assert_eq!(recalled(&ends, &uid, None), end, "its next worker");
        ends.begin(&uid, WorkerLife { is_ending: true, ..FIRST });
        assert_eq!(recalled(&ends, &uid, None), end, "while it is brought to its end");
        ends.keep_only(&[uid.clone()].into());
        assert_eq!(recalled(&ends, &uid, None), end);
        ends.keep_only(&BTreeSet::new());
        assert_eq!(recalled(&ends, &uid, None), None);
    }

    /// POD-07: a manifest that was removed and written again is another life.
    #[test]
    fn the_end_of_an_earlier_life_counts_no_more() {
        let (uid, mut ends) = (PodUid::from("u"), PodEnds::default());
        let is_over = |ends: &PodEnds| recalled(ends, &uid, None).is_some();
        ends.begin(&uid, FIRST);
        let since = |since| WorkerLife { since: Some(Stamp(since)), is_ending: false };
        for lives in [&[since(1)][..], &[since(2)], &[FIRST], &[WorkerLife { is_ending: true, ..FIRST }, FIRST]] {
            ends.note(&uid, &status("Failed", "DeadlineExceeded"));
            assert!(is_over(&ends), "before {lives:?}");
            lives.iter().for_each(|life| ends.begin(&uid, *life));
            assert!(!is_over(&ends), "{lives:?}");
        }
    }
}
