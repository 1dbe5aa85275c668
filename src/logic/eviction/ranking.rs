//! The order in which pods go (EVI-17, EVI-18, EVI-19). Upstream leaves equal pods in any order; here they keep theirs.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::layout::DiskLayout;
use super::signal::{Resource, Signal};
use super::usage;
use crate::logic::resources::{EPHEMERAL_STORAGE, MEMORY, pod_requests};
use crate::logic::statistics::summary::PodStats;

/// A pod that may have to go.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The pod, with the resources that it was given.
    pub pod: Arc<Pod>,
    /// Its use; `None` where nobody knows, which puts it before others.
    pub stats: Option<PodStats>,
}

/// A candidate's place, and the figures that put it there.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The pod that it ranks.
    pub candidate: Candidate,
    /// Its use of the resource that runs short: bytes, files or processes.
    pub usage: u64,
    /// Its request of that resource; 0 where nothing can be requested.
    pub request: u64,
}

impl Ranked {
    /// Whether it uses more than it asked for.
    pub fn exceeds(&self) -> bool {
        self.usage > self.request
    }
}

/// Orders the candidates for a signal: the first one goes first.
pub fn rank(candidates: Vec<Candidate>, signal: Signal, layout: DiskLayout, pod_level_resources: bool) -> Vec<Ranked> {
    let resource = signal.resource();
    let measured = layout.measured(signal);
    let mut ranked: Vec<_> = candidates
        .into_iter()
        .map(|candidate| {
            let request = |name: &str| request(&candidate.pod, name, pod_level_resources);
            let of = |count: &dyn Fn(&PodStats) -> u64| candidate.stats.as_ref().map_or(0, count);
            let (usage, request, subtracted) = match resource {
                Resource::Memory => {
                    let request = request(MEMORY);
                    (of(&|stats| usage::memory(stats.memory.as_ref())), request, request)
                }
                Resource::EphemeralStorage => {
                    let request = request(EPHEMERAL_STORAGE);
                    (of(&|stats| usage::bytes(stats, &candidate.pod, measured)), request, request)
                }
                // Nobody asks for files. Upstream takes the bytes that were asked for from their number, all the same.
                Resource::Inodes => {
                    let usage = of(&|stats| usage::inodes(stats, &candidate.pod, measured));
                    (usage, 0, request(EPHEMERAL_STORAGE))
                }
                Resource::Pids => (of(&usage::processes), 0, 0),
            };
            (i128::from(usage) - i128::from(subtracted), Ranked { candidate, usage, request })
        })
        .collect();
    let priority = |ranked: &Ranked| ranked.candidate.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    let is_known = |ranked: &Ranked| ranked.candidate.stats.is_some();
    match resource {
        Resource::Pids => ranked.sort_by_key(|(over, one)| (priority(one), is_known(one), Reverse(*over))),
        _ => ranked.sort_by_key(|(over, one)| (is_known(one), !one.exceeds(), priority(one), Reverse(*over))),
    }
    ranked.into_iter().map(|(_, one)| one).collect()
}

/// The amount of a resource that a pod asks for. The overhead of its runtime class counts where the pod asks for something
/// itself: a pod that asks for nothing exceeds its request with whatever it uses (upstream's `GetResourceRequestQuantity`).
fn request(pod: &Pod, name: &str, pod_level_resources: bool) -> u64 {
    let requested = |overhead| pod_requests(pod, pod_level_resources, overhead).get(name).copied();
    let own = requested(false).filter(|own| !own.is_zero());
    own.and_then(|_| requested(true)).map_or(0, |quantity| u64::try_from(quantity.value()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::eviction::testing::{
        asking, container, space, stats, using_memory, with_overhead, with_processes,
    };

    fn order(candidates: Vec<(Pod, Option<PodStats>)>, signal: Signal) -> Vec<String> {
        let candidates = candidates.into_iter().map(|(pod, stats)| Candidate { pod: Arc::new(pod), stats }).collect();
        let ranked = rank(candidates, signal, DiskLayout::Single, true);
        ranked.iter().map(|one| one.candidate.pod.metadata.name.clone().unwrap_or_default()).collect()
    }

    fn memory(name: &str, priority: i32, request: &str, usage: u64) -> (Pod, Option<PodStats>) {
        (asking(name, priority, "memory", request), Some(using_memory(name, usage)))
    }

    /// EVI-17.
    #[test]
    fn evi_17_memory_by_excess_then_priority_then_amount() {
        let candidates = vec![
            memory("within-low", 0, "1000", 999),
            memory("above-high-much", 9, "100", 5000),
            memory("above-low-little", 0, "100", 101),
            memory("above-low-much", 0, "100", 300),
            memory("within-high", 9, "1000", 10),
            (asking("unknown", 9, "memory", "1000"), None),
        ];
        assert_eq!(
            order(candidates, Signal::MemoryAvailable),
            ["unknown", "above-low-much", "above-low-little", "above-high-much", "within-low", "within-high"]
        );
    }

    /// EVI-17: the overhead of a runtime class alone is no request.
    #[test]
    fn evi_17_overhead_counts_for_pods_that_ask_for_something() {
        let heavy = |(pod, stats): (Pod, _)| (with_overhead(pod, "memory", "1000"), stats);
        let candidates = vec![
            heavy(memory("asks-high", 9, "100", 1100)),
            heavy(memory("asks-low", 0, "100", 1101)),
            heavy(memory("asks-nothing", 5, "0", 10)),
            memory("plain", 7, "100", 101),
        ];
        assert_eq!(order(candidates, Signal::MemoryAvailable), ["asks-low", "asks-nothing", "plain", "asks-high"]);
    }

    /// EVI-18.
    #[test]
    fn evi_18_disk_by_excess_then_priority_then_amount() {
        let files = |name: &str, priority, request: &str, bytes, inodes| {
            let mut stats = stats(name);
            stats.containers = vec![container("c", space(bytes, inodes), space(0, 0))];
            (asking(name, priority, "ephemeral-storage", request), Some(stats))
        };
        let candidates = || {
            vec![
                files("within", 0, "1000", 900, 30),
                files("above-high", 9, "100", 5000, 10),
                files("above-low", 0, "100", 200, 20),
            ]
        };
        assert_eq!(order(candidates(), Signal::NodeFsAvailable), ["above-low", "above-high", "within"]);
        // Of files everybody uses more than was asked for: priority decides, then the number less the bytes asked for.
        assert_eq!(order(candidates(), Signal::NodeFsInodesFree), ["above-low", "within", "above-high"]);
    }

    /// EVI-19.
    #[test]
    fn evi_19_processes_by_priority_then_number() {
        let processes =
            |name: &str, priority, count| (asking(name, priority, "cpu", "1"), Some(with_processes(name, count)));
        let candidates = vec![
            processes("high-many", 9, 1000),
            processes("low-few", 0, 1),
            processes("low-many", 0, 10),
            (asking("low-unknown", 0, "cpu", "1"), None),
        ];
        assert_eq!(order(candidates, Signal::PidAvailable), ["low-unknown", "low-many", "low-few", "high-many"]);
    }

    proptest! {
        /// A pod within its request never goes before a pod above its own, as long as both are known.
        #[test]
        fn who_keeps_to_its_request_goes_last(figures in prop::collection::vec((0_i32..3, 0_u64..50, 0_u64..50), 1..12)) {
            let candidates = figures.iter().enumerate().map(|(at, (priority, request, usage))| {
                let (pod, stats) = memory(&format!("p{at}"), *priority, &request.to_string(), *usage);
                Candidate { pod: Arc::new(pod), stats }
            });
            let ranked = rank(candidates.collect(), Signal::MemoryAvailable, DiskLayout::Single, true);
            prop_assert_eq!(ranked.len(), figures.len());
            prop_assert!(ranked.windows(2).all(|pair| pair[0].exceeds() || !pair[1].exceeds()));
        }
    }
}
