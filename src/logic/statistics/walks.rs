//! Which directories are walked when: seldom, spread, and the more seldom the longer a walk takes (PAIN-06).
//!
//! Owned by `StatsCollector`, which asks only when somebody wants the figures: nothing is walked for nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::logic::model::ids::{ContainerId, PodUid};

/// A walk may take this part of the time until the next one.
const SHARE: u32 = 100;

/// The subject of a walk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WalkKey {
    /// A container's writable layer.
    Layer(ContainerId),
    /// A pod's volume, by its name in the pod.
    Volume(PodUid, String),
}

#[derive(Clone, Copy, Debug)]
struct Record {
    ended: Duration,
    took: Duration,
    /// 1 to 2, drawn for each walk.
    spread: f64,
}

/// The last walks and their times. Times are the agent's uptime.
#[derive(Clone, Debug, Default)]
pub struct Walks {
    records: BTreeMap<WalkKey, Record>,
}

impl Walks {
    /// Of what is there now, with the period of each, those whose time has come: never walked ones first. The others'
    /// records are forgotten.
    pub fn due(&mut self, there: &BTreeMap<WalkKey, Duration>, uptime: Duration) -> Vec<WalkKey> {
        self.records.retain(|key, _| there.contains_key(key));
        let mut due: Vec<(Option<Duration>, WalkKey)> = vec![];
        for (key, period) in there {
            match self.records.get(key) {
                None => due.push((None, key.clone())),
                Some(record) => {
                    let wait = period.mul_f64(record.spread).max(record.took * SHARE);
                    if uptime.saturating_sub(record.ended) >= wait {
                        due.push((Some(record.ended), key.clone()));
                    }
                }
            }
        }
        due.sort();
        due.into_iter().map(|(_, key)| key).collect()
    }

    /// A walk ended, whatever came of it; `chance` is in 0..1.
    pub fn ended(&mut self, key: WalkKey, uptime: Duration, took: Duration, chance: f64) {
        self.records.insert(key, Record { ended: uptime, took, spread: 1.0 + chance.clamp(0.0, 1.0) });
    }

    /// The subjects that are known to have been walked.
    pub fn known(&self) -> BTreeSet<&WalkKey> {
        self.records.keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(id: &str) -> WalkKey {
        WalkKey::Layer(ContainerId::from(id))
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_is_walked_at_once_and_then_after_its_period() {
        let mut walks = Walks::default();
        let there: BTreeMap<_, _> = [(layer("a"), secs(10)), (layer("b"), secs(60))].into();
        assert_eq!(walks.due(&there, secs(0)), [layer("a"), layer("b")]);
        walks.ended(layer("a"), secs(0), Duration::ZERO, 0.0);
        assert_eq!(walks.due(&there, secs(1)), [layer("b")]);
        walks.ended(layer("b"), secs(1), Duration::ZERO, 0.5);
        assert_eq!(walks.due(&there, secs(9)), []);
        assert_eq!(walks.due(&there, secs(10)), [layer("a")]);
        assert_eq!(walks.due(&there, secs(90)), [layer("a")], "its time was stretched by half");
        assert_eq!(walks.due(&there, secs(91)), [layer("a"), layer("b")], "the longest ago first");
    }

    #[test]
    fn a_long_walk_is_made_seldom() {
        let mut walks = Walks::default();
        let there: BTreeMap<_, _> = [(layer("a"), secs(10))].into();
        walks.ended(layer("a"), secs(0), secs(5), 0.0);
        assert_eq!(walks.due(&there, secs(499)), []);
        assert_eq!(walks.due(&there, secs(500)), [layer("a")]);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut walks = Walks::default();
        walks.ended(layer("a"), secs(0), Duration::ZERO, 0.0);
        assert_eq!(walks.due(&BTreeMap::new(), secs(1)), []);
        assert!(walks.known().is_empty());
    }
}
