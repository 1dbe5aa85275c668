//! Decisions about evicted pods, so that people can ask for them afterwards (`podwright explain`).

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::monitor::Shortage;
use super::ranking::Ranked;
use super::signal::{Resource, Signal};
use crate::logic::model::ids::PodUid;
use crate::logic::model::quantity::Quantity;

/// How long a decision can be asked for.
const KEPT: Duration = Duration::from_secs(3600);
/// The most decisions that are kept.
const RECORDS_MAX: usize = 100;
/// The most candidates that are kept of one decision.
const CANDIDATES_MAX: usize = 20;

/// Why a pod was evicted.
#[derive(Clone, Debug, PartialEq)]
pub struct EvictionRecord {
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The agent's uptime at the decision.
    pub at: Duration,
    /// Why.
    pub cause: EvictionCause,
}

/// The cause of an eviction.
#[derive(Clone, Debug, PartialEq)]
pub enum EvictionCause {
    /// The node ran short.
    Pressure {
        /// Of what.
        signal: Signal,
        /// The amount that was left.
        available: Quantity,
        /// The amount that must be left.
        threshold: Quantity,
        /// For how long there had been less, at least; zero for a hard threshold.
        grace: Duration,
        /// Those that could go, in the order in which they would; the first ones alone where there are many.
        order: Vec<Place>,
        /// How many there were.
        candidates: usize,
    },
    /// The pod was beyond a limit of its own, with the sentence that its status has.
    Limit(String),
}

/// A candidate's place in the order.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// `namespace/name`.
    pub pod: String,
    /// Its use.
    pub usage: Quantity,
    /// Its request.
    pub request: Quantity,
    /// Its priority.
    pub priority: i32,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was evicted.
    Chosen,
    /// It came before, and is critical: the node never evicts it.
    Critical,
    /// One before it was enough.
    Spared,
}

impl EvictionCause {
    /// Of pressure: the pod at `chosen` goes, and those before it are critical.
    pub fn pressure(shortage: &Shortage, ranked: &[Ranked], chosen: usize) -> Self {
        let (signal, resource) = (shortage.threshold.signal, shortage.resource());
        let seen = shortage.all.iter().find(|(threshold, _)| threshold.signal == signal).map(|(_, seen)| seen);
        let place = |(at, one): (usize, &Ranked)| Place {
            pod: full_name(&one.candidate.pod),
            usage: resource.quantity(one.usage),
            request: resource.quantity(one.request),
            priority: one.candidate.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0),
            fate: match at.cmp(&chosen) {
                std::cmp::Ordering::Less => Fate::Critical,
                std::cmp::Ordering::Equal => Fate::Chosen,
                std::cmp::Ordering::Greater => Fate::Spared,
            },
        };
        // The chosen one is there whatever came before it.
        let kept = ranked.iter().enumerate().filter(|(at, _)| *at < CANDIDATES_MAX || *at == chosen);
        Self::Pressure {
            signal,
            available: resource.quantity(seen.map_or(0, |seen| seen.available)),
            threshold: seen.map(|seen| shortage.threshold.quantity(seen)).unwrap_or_default(),
            grace: shortage.threshold.grace,
            order: kept.map(place).collect(),
            candidates: ranked.len(),
        }
    }

    /// In sentences, the most important first.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Limit(message) => vec![format!("evicted for a limit of its own: {}", message.trim_end())],
            Self::Pressure { signal, available, threshold, grace, order, candidates } => {
                let patience = match grace.is_zero() {
                    true => "hard threshold".to_owned(),
                    false => format!("soft threshold, {} s of grace", grace.as_secs()),
                };
                let first = format!("evicted: {signal} was {available}, below {threshold} ({patience})");
                let rule = match signal.resource() {
                    Resource::Pids => "by priority, then by processes",
                    _ => "those beyond their request first, then by priority, then by how far they are beyond it",
                };
                let places = order.iter().enumerate().map(|(at, place)| format!("{}. {place}", at + 1));
                let left = candidates.saturating_sub(order.len());
                let rest = (left > 0).then(|| format!("and {left} more candidates"));
                [first, format!("order of the {candidates} candidates, {rule}:")]
                    .into_iter()
                    .chain(places)
                    .chain(rest)
                    .collect()
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, usage, request, priority, fate } = self;
        let fate = match fate {
            Fate::Chosen => "evicted",
            Fate::Critical => "critical, stays",
            Fate::Spared => "stays, the eviction before it was enough for this round",
        };
        write!(f, "{pod}: uses {usage}, asked for {request}, priority {priority}: {fate}")
    }
}

/// The decisions of the last hour, the oldest first.
#[derive(Debug, Default)]
pub struct EvictionRecords(VecDeque<EvictionRecord>);

impl EvictionRecords {
    /// Keeps a decision about `pod`.
    pub fn keep(&mut self, uid: PodUid, pod: &Pod, cause: EvictionCause, uptime: Duration) {
        self.0.retain(|record| uptime.saturating_sub(record.at) < KEPT);
        if self.0.len() >= RECORDS_MAX {
            self.0.pop_front();
        }
        let metadata = &pod.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        self.0.push_back(EvictionRecord { uid, namespace, name, at: uptime, cause });
    }

    /// Of pods of this name, the oldest first.
    pub fn of(&self, namespace: &str, name: &str, uptime: Duration) -> Vec<EvictionRecord> {
        let is_meant = |record: &&EvictionRecord| {
            record.namespace == namespace && record.name == name && uptime.saturating_sub(record.at) < KEPT
        };
        self.0.iter().filter(is_meant).cloned().collect()
    }
}

fn full_name(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    format!("{}/{}", metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::ranking::Candidate;
    use super::super::testing::{asking, observation, threshold};
    use super::*;

    fn ranked(name: &str, usage: u64, request: u64) -> Ranked {
        let pod = Arc::new(asking(name, 5, "memory", &request.to_string()));
        Ranked { candidate: Candidate { pod, stats: None }, usage, request }
    }

    fn shortage() -> Shortage {
        let threshold = threshold(Signal::MemoryAvailable, 300);
        Shortage { threshold, all: vec![(threshold, observation(200))] }
    }

    #[test]
    fn the_order_says_who_went_and_why_others_did_not() {
        let all = [ranked("system", 900, 1), ranked("greedy", 700, 100), ranked("modest", 50, 100)];
        assert_eq!(
            EvictionCause::pressure(&shortage(), &all, 1).lines(),
            [
                "evicted: memory.available was 200, below 300 (hard threshold)",
                "order of the 3 candidates, those beyond their request first, then by priority, then by how far they are \
             beyond it:",
                "1. ns/system: uses 900, asked for 1, priority 5: critical, stays",
                "2. ns/greedy: uses 700, asked for 100, priority 5: evicted",
                "3. ns/modest: uses 50, asked for 100, priority 5: stays, the eviction before it was enough for this round",
            ]
        );
    }

    #[test]
    fn of_many_candidates_the_first_are_kept_and_the_chosen_one() {
        let all: Vec<_> = (0..50).map(|number| ranked(&format!("p{number}"), 1000 - number, 1)).collect();
        let EvictionCause::Pressure { order, candidates, .. } = EvictionCause::pressure(&shortage(), &all, 40) else {
            panic!("not of pressure");
        };
        assert_eq!((order.len(), candidates), (CANDIDATES_MAX + 1, 50));
        assert_eq!(order.last().map(|last| (last.pod.as_str(), last.fate)), Some(("ns/p40", Fate::Chosen)));
    }

    #[test]
    fn decisions_are_kept_for_an_hour_and_bounded() {
        let mut records = EvictionRecords::default();
        let pod = asking("web", 0, "memory", "1");
        let limit = || EvictionCause::Limit("Too much. ".to_owned());
        records.keep("u".into(), &pod, limit(), Duration::ZERO);
        let found = |records: &EvictionRecords, at| records.of("ns", "web", at).len();
        assert_eq!(found(&records, KEPT - Duration::from_secs(1)), 1);
        assert_eq!(found(&records, KEPT), 0);
        assert_eq!(records.of("ns", "other", Duration::ZERO), []);
        for _ in 0..2 * RECORDS_MAX {
            records.keep("u".into(), &pod, limit(), KEPT);
        }
        assert_eq!(found(&records, KEPT), RECORDS_MAX);
        assert_eq!(limit().lines(), ["evicted for a limit of its own: Too much."]);
    }
}
