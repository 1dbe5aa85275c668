//! How many pods there are, of which kinds, as the metrics count them (POD-39).

use std::collections::BTreeMap;

use crate::logic::pods::pod_lifecycle::Stage;

/// Pods by where they come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByOrigin {
    /// From the API server.
    pub others: usize,
    /// From a file or a URL.
    pub statics: usize,
}

impl ByOrigin {
    /// One more.
    pub fn add(&mut self, is_static: bool) {
        *(if is_static { &mut self.statics } else { &mut self.others }) += 1;
    }
}

/// Why a worker has its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// A source wants it.
    Desired,
    /// A source wanted it.
    Orphan,
    /// Only the runtime knows it.
    RuntimeOnly,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PodCensus {
    /// The pods that sources want, refused ones included.
    pub desired: ByOrigin,
    /// The pods that run or are to run, and take room.
    pub active: ByOrigin,
    /// Ephemeral containers of desired pods.
    pub ephemeral_containers: usize,
    workers: BTreeMap<(Claim, Stage, bool), usize>,
}

impl PodCensus {
    /// One more worker.
    pub fn add_worker(&mut self, claim: Claim, stage: Stage, is_static: bool) {
        // Of a pod that only the runtime knows, its origin is unknown.
        let is_static = is_static && claim != Claim::RuntimeOnly;
        *self.workers.entry((claim, stage, is_static)).or_default() += 1;
    }

    /// Workers by upstream's labels `config`, `lifecycle` and `static`: every combination that can be, also with none.
    pub fn working(&self) -> impl Iterator<Item = ([&'static str; 3], usize)> + '_ {
        let claims = [
            (Claim::Desired, "desired", false, ""),
            (Claim::Desired, "desired", true, "true"),
            (Claim::Orphan, "orphan", false, ""),
            (Claim::Orphan, "orphan", true, "true"),
            (Claim::RuntimeOnly, "runtime_only", false, "unknown"),
        ];
        let stages = [(Stage::Syncing, "sync"), (Stage::Terminated, "terminated"), (Stage::Terminating, "terminating")];
        claims.into_iter().flat_map(move |(claim, config, is_static, origin)| {
            stages.into_iter().map(move |(stage, lifecycle)| {
                let count = self.workers.get(&(claim, stage, is_static)).copied().unwrap_or_default();
                ([config, lifecycle, origin], count)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_are_told_and_no_worker_is_lost() {
        let mut census = PodCensus::default();
        assert_eq!((census.working().count(), census.working().map(|(_, count)| count).sum::<usize>()), (15, 0));
        census.add_worker(Claim::Desired, Stage::Syncing, true);
        census.add_worker(Claim::Desired, Stage::Syncing, true);
        census.add_worker(Claim::Orphan, Stage::Terminating, false);
        census.add_worker(Claim::RuntimeOnly, Stage::Terminating, true);
        let told: Vec<_> = census.working().filter(|(_, count)| *count > 0).collect();
        let expected = [
            (["desired", "sync", "true"], 2),
            (["orphan", "terminating", ""], 1),
            (["runtime_only", "terminating", "unknown"], 1),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn pods_are_counted_by_their_origin() {
        let mut count = ByOrigin::default();
        for (is_static, others, statics) in [(true, 0, 1), (false, 1, 1), (false, 2, 1), (true, 2, 2)] {
            count.add(is_static);
            assert_eq!(count, ByOrigin { others, statics }, "one more, static: {is_static}");
        }
    }

    /// POD-39: upstream's labels. A worker counts in one row, and no other.
    #[test]
    fn each_worker_has_its_row() {
        let stages = [(Stage::Syncing, "sync"), (Stage::Terminating, "terminating"), (Stage::Terminated, "terminated")];
        let claims = [
            (Claim::Desired, "desired", ["", "true"]),
            (Claim::Orphan, "orphan", ["", "true"]),
            (Claim::RuntimeOnly, "runtime_only", ["unknown", "unknown"]),
        ];
        for (claim, config, origins) in claims {
            for (stage, lifecycle) in stages {
                for (is_static, origin) in [false, true].into_iter().zip(origins) {
                    let mut census = PodCensus::default();
                    census.add_worker(claim, stage, is_static);
                    let rows: Vec<_> = census.working().filter(|(_, count)| *count > 0).collect();
                    assert_eq!(rows, [([config, lifecycle, origin], 1)], "{claim:?} {stage:?} {is_static}");
                }
            }
        }
    }

    /// A row that appears only with its first pod looks like a metric that is missing.
    #[test]
    fn the_rows_are_the_same_with_any_workers() {
        let rows = |census: &PodCensus| census.working().map(|(labels, _)| labels).collect::<Vec<_>>();
        let mut census = PodCensus::default();
        let empty = rows(&census);
        let distinct: std::collections::BTreeSet<_> = empty.iter().collect();
        assert_eq!(distinct.len(), empty.len(), "no row twice");
        census.add_worker(Claim::Orphan, Stage::Terminated, true);
        assert_eq!(rows(&census), empty);
    }
}
