//! How long logs of a pod stay that is over (POD-33): whoever ships logs reads the last lines after the pod's end.
//!
//! Owned by `PodManager`. Times are uptimes: the wall clock may be set. Of a pod that ended before the agent began the disk
//! says when its logs were last written to.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::logic::images::image_garbage::DiskUse;
use crate::logic::model::ids::PodUid;

/// How long logs stay after the pod's end.
const KEPT: Duration = Duration::from_secs(60);
/// The share of a disk, one of so many, that is free at least: with less logs go at once (upstream's default threshold of
/// `nodefs.available`).
const FREE_SHARE: u64 = 10;

/// Whether logs take room that is needed.
pub fn is_full(disk: DiskUse) -> bool {
    disk.available < disk.capacity / FREE_SHARE
}

/// Until when logs of pods stay that are over.
#[derive(Clone, Debug, Default)]
pub struct LogKeeping {
    until: BTreeMap<PodUid, Duration>,
}

impl LogKeeping {
    /// A pod is over.
    pub fn ended(&mut self, uid: &PodUid, uptime: Duration) {
        self.until.insert(uid.clone(), uptime.saturating_add(KEPT));
    }

    /// Whether this agent has seen the pod's end, or its logs.
    pub fn knows(&self, uid: &PodUid) -> bool {
        self.until.contains_key(uid)
    }

    /// Logs were found of a pod that nobody knows, which were written to last so long ago; `None` when that is not known.
    pub fn found(&mut self, uid: &PodUid, age: Option<Duration>, uptime: Duration) {
        let rest = KEPT.saturating_sub(age.unwrap_or_default());
        self.until.entry(uid.clone()).or_insert(uptime.saturating_add(rest));
    }

    /// Whether the logs of a pod that nobody knows may go.
    pub fn may_go(&self, uid: &PodUid, uptime: Duration, disk_is_full: bool) -> bool {
        disk_is_full || self.until.get(uid).is_none_or(|until| *until <= uptime)
    }

    /// Forgets pods whose time is over, except these.
    pub fn keep_only(&mut self, found: impl Fn(&PodUid) -> bool, uptime: Duration) {
        self.until.retain(|uid, until| *until > uptime || found(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// POD-33.
    #[test]
    fn logs_stay_for_a_minute_after_the_end_unless_the_disk_is_full() {
        let (mut keeping, uid) = (LogKeeping::default(), PodUid::from("u"));
        keeping.ended(&uid, at(100));
        assert!(!keeping.may_go(&uid, at(159), false));
        assert!(keeping.may_go(&uid, at(101), true));
        assert!(keeping.may_go(&uid, at(160), false));
        keeping.found(&uid, Some(at(3600)), at(110));
        assert!(!keeping.may_go(&uid, at(159), false), "what was seen counts, not what the disk says");
        // A static pod that came back under its UID, and ended again.
        keeping.ended(&uid, at(150));
        assert!(!keeping.may_go(&uid, at(200), false));
        keeping.keep_only(|_| false, at(200));
        assert!(keeping.knows(&uid), "its logs may not have been found yet");
        keeping.keep_only(|_| true, at(300));
        assert!(keeping.knows(&uid), "they could not be removed, and are to be told of once");
        keeping.keep_only(|_| false, at(300));
        assert!(!keeping.knows(&uid));
    }

    /// POD-33.
    #[test]
    fn logs_of_before_a_restart_stay_by_what_the_disk_says_and_no_longer_than_a_minute() {
        // Age on the disk, and the uptime from which on they may go, found at 5 s. A clock that was set back shows no age.
        for (age, goes) in [(Some(at(3600)), 5), (Some(at(60)), 5), (Some(at(45)), 20), (Some(at(0)), 65), (None, 65)] {
            let (mut keeping, uid) = (LogKeeping::default(), PodUid::from("u"));
            keeping.found(&uid, age, at(5));
            assert!(keeping.may_go(&uid, at(goes), false), "{age:?}");
            assert!(!keeping.may_go(&uid, at(goes) - Duration::from_millis(1), false), "{age:?}");
        }
    }

    #[test]
    fn a_disk_is_full_with_less_than_a_tenth_of_it_free() {
        assert!(!is_full(DiskUse { capacity: 1000, available: 100 }));
        assert!(is_full(DiskUse { capacity: 1000, available: 99 }));
    }
}
