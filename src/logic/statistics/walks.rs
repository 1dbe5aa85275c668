//! Which directories are walked when: seldom, spread, the more seldom the more a walk costs, and not at all where nobody
//! can have written since the last walk (PAIN-06).
//!
//! Owned by `StatsCollector`, which asks only when somebody wants the figures: nothing is walked for nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::logic::model::ids::{ContainerId, PodUid};

/// A walk may take this part of the time until the next one: of a minute, 50 ms of a processor.
const SHARE: u32 = 1200;
/// The longest wait, however much a walk costs. Upstream's own tests allow figures of this age.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The subject of a walk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WalkKey {
    /// A container's writable layer.
    Layer(ContainerId),
    /// A pod's volume, by its name in the pod.
    Volume(PodUid, String),
}

/// Nobody waits for a walk that takes so much of a processor.
const COSTLY: Duration = Duration::from_millis(50);

/// The terms of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkTerms {
    /// The least time between two walks.
    pub period: Duration,
    /// Processor time, in ns, that those who alone can write there had so far; `None` where others can write, too, or where
    /// the time is not known. Without a processor nobody writes.
    pub writers_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    ended: Duration,
    cost: Duration,
    /// 1 to 2, drawn for each walk.
    spread: f64,
    /// As of before the walk, where it came to its end.
    writers_ns: Option<u64>,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug)]
pub struct WalkEnd {
    /// The agent's uptime at its end.
    pub at: Duration,
    /// Processor time that it took.
    pub cost: Duration,
    /// 0 to 1, to spread the next one; 0 has it come as soon as it may.
    pub chance: f64,
    /// Whether it came to its end, so that nothing is to be counted anew before somebody writes.
    pub is_whole: bool,
}

/// The last walks and their times. Times are the agent's uptime.
#[derive(Clone, Debug, Default)]
pub struct Walks {
    records: BTreeMap<WalkKey, Record>,
    /// Processor time of writers, in ns, as of the last question for due walks.
    asked: BTreeMap<WalkKey, u64>,
}

impl Walks {
    /// Of what is there now, with the terms of each, those whose time has come: never walked ones first. The others'
    /// records are forgotten.
    pub fn due(&mut self, there: &BTreeMap<WalkKey, WalkTerms>, uptime: Duration) -> Vec<WalkKey> {
        self.records.retain(|key, _| there.contains_key(key));
        self.asked.clear();
        let mut due: Vec<(Option<Duration>, WalkKey)> = vec![];
        for (key, terms) in there {
            self.asked.extend(terms.writers_ns.map(|writers_ns| (key.clone(), writers_ns)));
            match self.records.get(key) {
                None => due.push((None, key.clone())),
                Some(record) => {
                    let wait = terms.period.mul_f64(record.spread).max((record.cost * SHARE).min(WAIT_MAX));
                    let is_idle = record.writers_ns.is_some() && record.writers_ns == terms.writers_ns;
                    if !is_idle && uptime.saturating_sub(record.ended) >= wait {
                        due.push((Some(record.ended), key.clone()));
                    }
                }
            }
        }
        due.sort();
        due.into_iter().map(|(_, key)| key).collect()
    }

    /// A walk ended, whatever came of it.
    pub fn ended(&mut self, key: WalkKey, end: WalkEnd) {
        // Writes between the question and the walk count as new, too, which costs one more walk.
        let writers_ns = self.asked.get(&key).copied().filter(|_| end.is_whole);
        let WalkEnd { at, cost, chance, .. } = end;
        let spread = 1.0 + chance.clamp(0.0, 1.0);
        self.records.insert(key, Record { ended: at, cost, spread, writers_ns });
    }

    /// Whether a walk is known to cost so much that nobody is to wait for it.
    pub fn is_costly(&self, key: &WalkKey) -> bool {
        self.records.get(key).is_some_and(|record| record.cost >= COSTLY)
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

    fn every(seconds: u64) -> WalkTerms {
        WalkTerms { period: secs(seconds), writers_ns: None }
    }

    fn ended(at: u64, cost: Duration, chance: f64) -> WalkEnd {
        WalkEnd { at: secs(at), cost, chance, is_whole: true }
    }

    #[test]
    fn each_is_walked_at_once_and_then_after_its_period() {
        let mut walks = Walks::default();
        let there: BTreeMap<_, _> = [(layer("a"), every(10)), (layer("b"), every(60))].into();
        assert_eq!(walks.due(&there, secs(0)), [layer("a"), layer("b")]);
        walks.ended(layer("a"), ended(0, Duration::ZERO, 0.0));
        assert_eq!(walks.due(&there, secs(1)), [layer("b")]);
        walks.ended(layer("b"), ended(1, Duration::ZERO, 0.5));
        assert_eq!(walks.due(&there, secs(9)), []);
        assert_eq!(walks.due(&there, secs(10)), [layer("a")]);
        assert_eq!(walks.due(&there, secs(90)), [layer("a")], "its time was stretched by half");
        assert_eq!(walks.due(&there, secs(91)), [layer("a"), layer("b")], "the longest ago first");
    }

    /// PAIN-06: 50 ms of a minute, whatever a walk costs, but for the largest.
    #[test]
    fn pain_06_a_walk_that_costs_much_is_made_seldom() {
        let mut walks = Walks::default();
        let there: BTreeMap<_, _> = [(layer("a"), every(10))].into();
        for (cost_ms, wait) in [(1, 10), (8, 10), (50, 60), (200, 240), (500, 600), (60_000, 600)] {
            walks.ended(layer("a"), ended(0, Duration::from_millis(cost_ms), 0.0));
            assert_eq!(walks.due(&there, secs(wait - 1)), [], "{cost_ms} ms");
            assert_eq!(walks.due(&there, secs(wait)), [layer("a")], "{cost_ms} ms");
        }
    }

    /// PAIN-06: a pod that does nothing has written nothing.
    #[test]
    fn pain_06_where_nobody_wrote_nothing_is_walked() {
        let mut walks = Walks::default();
        let there = |writers_ns| BTreeMap::from([(layer("a"), WalkTerms { writers_ns, ..every(10) })]);
        assert_eq!(walks.due(&there(Some(5)), secs(0)), [layer("a")]);
        // Asked again while the walk goes on: what was written meanwhile may not have been met.
        walks.ended(layer("a"), ended(1, Duration::ZERO, 0.0));
        assert_eq!(walks.due(&there(Some(5)), secs(100)), []);
        assert_eq!(walks.due(&there(Some(6)), secs(110)), [layer("a")], "it ran");
        walks.ended(layer("a"), WalkEnd { is_whole: false, ..ended(111, Duration::ZERO, 0.0) });
        assert_eq!(walks.due(&there(Some(6)), secs(121)), [layer("a")], "it is not known what is there");
        walks.ended(layer("a"), ended(122, Duration::ZERO, 0.0));
        assert_eq!(walks.due(&there(None), secs(132)), [layer("a")], "others may have written");
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut walks = Walks::default();
        walks.ended(layer("a"), ended(0, Duration::ZERO, 0.0));
        assert_eq!(walks.due(&BTreeMap::new(), secs(1)), []);
        assert!(walks.known().is_empty());
    }
}
