//! Evicted pods until they are over: which evictions wait for them, and which of them may be given less time (EVI-16).
//!
//! Owned by `EvictionManager`. As upstream, an eviction waits for the kill of the pod before it, and then 30 s for that pod's
//! cleanup. Unlike upstream, a hard threshold does not wait for a pod that a soft one gave time to end. Times are uptime.

use std::collections::BTreeMap;
use std::time::Duration;

use super::monitor::Shortage;
use crate::logic::model::ids::PodUid;

/// How long the cleanup of an evicted pod may take once the pod was to be killed; upstream's.
const CLEANUP_MAX: Duration = Duration::from_secs(30);
/// A pod that outstays its time is known for so long. `PodManager` may have said in vain that it is over.
const KEPT: Duration = Duration::from_secs(3600);

/// The eviction of a pod that is not over yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Departure {
    /// The pod got no more time than the runtime needs.
    is_hard: bool,
    /// Uptime at which the pod should be over.
    until: Duration,
    /// The pod is past that: nobody waits for it any more.
    is_overdue: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Leaving(BTreeMap<PodUid, Departure>);

impl Leaving {
    /// The eviction of this pod was decided, whose kill may take `kill_max`.
    pub fn decided(&mut self, uid: PodUid, is_hard: bool, kill_max: Duration, uptime: Duration) {
        let until = uptime.saturating_add(kill_max).saturating_add(CLEANUP_MAX);
        self.0.insert(uid, Departure { is_hard, until, is_overdue: false });
    }

    /// The pod is over. Whether it was the last one that an eviction waits for.
    pub fn over(&mut self, uid: &PodUid) -> bool {
        self.0.remove(uid).is_some_and(|gone| !gone.is_overdue) && !self.waited_for().any(|_| true)
    }

    /// Pods that have just become overdue. Another pod may be the right one by now.
    pub fn overdue(&mut self, uptime: Duration) -> Vec<PodUid> {
        self.0.retain(|_, one| uptime.saturating_sub(one.until) < KEPT);
        let late = self.0.iter_mut().filter(|(_, one)| !one.is_overdue && one.until <= uptime);
        late.map(|(uid, one)| {
            one.is_overdue = true;
            uid.clone()
        })
        .collect()
    }

    /// The part of a shortage for which a pod may be evicted now.
    pub fn unserved(&self, shortage: Shortage) -> Option<Shortage> {
        if self.waited_for().any(|one| one.is_hard) {
            return None;
        }
        if self.waited_for().any(|_| true) { shortage.hard_alone() } else { Some(shortage) }
    }

    /// Whether an eviction of this urgency changes anything for the pod: it does not end yet, or would have to end sooner.
    pub fn may_choose(&self, uid: &PodUid, is_hard: bool) -> bool {
        self.0.get(uid).is_none_or(|one| is_hard && !one.is_hard)
    }

    /// Uptime at which the next pod becomes overdue.
    pub fn next_overdue(&self) -> Option<Duration> {
        self.waited_for().map(|one| one.until).min()
    }

    fn waited_for(&self) -> impl Iterator<Item = &Departure> {
        self.0.values().filter(|one| !one.is_overdue)
    }
}

#[cfg(test)]
mod tests {
    use super::super::signal::Signal;
    use super::super::testing::{observation, threshold};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn shortage(graces: &[Duration]) -> Shortage {
        let threshold = |grace: &Duration| super::super::threshold::Threshold {
            grace: *grace,
            ..threshold(Signal::MemoryAvailable, 300)
        };
        let all: Vec<_> = graces.iter().map(|grace| (threshold(grace), observation(200))).collect();
        Shortage { threshold: all[0].0, all }
    }

    fn waits(leaving: &Leaving, graces: &[Duration]) -> bool {
        leaving.unserved(shortage(graces)).is_none()
    }

    /// EVI-16: 180 s for a kill with a grace period of 120 s, and 30 s for the cleanup.
    #[test]
    fn evi_16_a_pod_that_uses_its_grace_holds_back_the_next_eviction() {
        let mut leaving = Leaving::default();
        assert!(!waits(&leaving, &[SECOND]));
        leaving.decided("slow".into(), false, 180 * SECOND, 5 * SECOND);
        assert_eq!(leaving.next_overdue(), Some(215 * SECOND));
        assert_eq!(leaving.overdue(214 * SECOND), []);
        assert!(waits(&leaving, &[SECOND]));
        assert_eq!(leaving.overdue(215 * SECOND), [PodUid::from("slow")]);
        assert!(!waits(&leaving, &[SECOND]), "another pod goes");
        assert!(!leaving.may_choose(&"slow".into(), false), "the pod does not go twice");
        assert_eq!((leaving.overdue(216 * SECOND), leaving.next_overdue()), (vec![], None), "said once");
        assert!(!leaving.over(&"slow".into()), "nobody waits for it any more");
        assert!(leaving.may_choose(&"slow".into(), false));
    }

    /// EVI-16.
    #[test]
    fn evi_16_a_hard_threshold_does_not_wait_for_a_soft_eviction() {
        let mut leaving = Leaving::default();
        leaving.decided("slow".into(), false, 180 * SECOND, SECOND);
        let unserved = leaving.unserved(shortage(&[SECOND, Duration::ZERO])).expect("the hard one");
        assert!(unserved.threshold.is_hard() && unserved.all.len() == 1, "{unserved:?}");
        assert!(leaving.may_choose(&"slow".into(), true) && leaving.may_choose(&"other".into(), false));
        leaving.decided("slow".into(), true, 10 * SECOND, 20 * SECOND);
        assert_eq!(leaving.next_overdue(), Some(60 * SECOND));
        assert!(waits(&leaving, &[SECOND, Duration::ZERO]));
        assert!(!leaving.may_choose(&"slow".into(), true));
    }

    #[test]
    fn the_next_round_begins_when_the_last_pod_is_over() {
        let mut leaving = Leaving::default();
        for uid in ["a", "b"] {
            leaving.decided(uid.into(), true, 10 * SECOND, SECOND);
        }
        assert_eq!([leaving.over(&"a".into()), leaving.over(&"a".into()), leaving.over(&"x".into())], [false; 3]);
        assert!(leaving.over(&"b".into()));
    }

    #[test]
    fn a_pod_that_never_ends_is_forgotten_after_an_hour() {
        let mut leaving = Leaving::default();
        leaving.decided("stuck".into(), true, 10 * SECOND, Duration::ZERO);
        assert_eq!(leaving.overdue(40 * SECOND).len(), 1);
        leaving.overdue(3639 * SECOND);
        assert!(!leaving.may_choose(&"stuck".into(), true));
        leaving.overdue(3640 * SECOND);
        assert!(leaving.may_choose(&"stuck".into(), true));
    }
}
