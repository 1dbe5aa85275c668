//! Processor time used a second: what two looks at the same group tell.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sample::RawSample;
use super::told::{ToldPods, cpu_times};
use crate::logic::model::time::Moment;

/// Looks nearer to each other tell no rate: the later one leaves what the earlier ones told.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// A sight that is older is forgotten (upstream's period).
const KEPT: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Moment,
    total_ns: u64,
    nano_cores: Option<u64>,
}

/// The last sight of each group.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    seen: BTreeMap<String, Seen>,
}

impl Rates {
    /// Takes a look in; gives the rates known now, by the group's path, in ns of processor time a second.
    pub fn take(&mut self, sample: &RawSample) -> BTreeMap<String, u64> {
        let mut rates = BTreeMap::new();
        for group in sample.groups() {
            if let Some(cpu) = &group.figures.cpu {
                self.see(&group.path, group.figures.at, cpu.total_ns, &mut rates);
            }
        }
        self.seen.retain(|_, seen| sample.at.since(seen.at) < KEPT);
        rates
    }

    /// Takes in what the runtime tells of containers, after [`Self::take`]; adds the rates known now, by their IDs.
    pub fn take_told(&mut self, told: &ToldPods, rates: &mut BTreeMap<String, u64>) {
        for (id, at, total_ns) in cpu_times(told) {
            self.see(id.as_str(), at, total_ns, rates);
        }
    }

    fn see(&mut self, key: &str, at: Moment, total_ns: u64, rates: &mut BTreeMap<String, u64>) {
        let next = match self.seen.get(key) {
            // A group of the same name that was made anew; or a clock that was set back.
            Some(before) if total_ns < before.total_ns || at < before.at => Seen { at, total_ns, nano_cores: None },
            Some(before) if at.since(before.at) < SPAN_MIN => *before,
            Some(before) => {
                let span = at.since(before.at).as_nanos();
                let used = u128::from(total_ns - before.total_ns) * 1_000_000_000;
                Seen { at, total_ns, nano_cores: u64::try_from(used / span).ok() }
            }
            None => Seen { at, total_ns, nano_cores: None },
        };
        if let Some(rate) = next.nano_cores {
            rates.insert(key.to_owned(), rate);
        }
        self.seen.insert(key.to_owned(), next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::{ContainerId, SandboxId};
    use crate::logic::statistics::figures::{CpuFigures, GroupFigures};
    use crate::logic::statistics::sample::{Group, NodeSample};
    use crate::logic::statistics::summary::{CpuStats, Time};
    use crate::logic::statistics::told::{ToldContainer, ToldPod};

    fn look(seconds: f64, total_ns: u64) -> RawSample {
        let at = Moment::EPOCH.plus(Duration::from_secs(1000)).plus(Duration::from_secs_f64(seconds));
        let cpu = Some(CpuFigures { total_ns, ..CpuFigures::default() });
        let group = Group { path: "/".to_owned(), figures: GroupFigures { at, cpu, ..GroupFigures::default() } };
        RawSample { at, node: NodeSample { group, ..NodeSample::default() }, ..RawSample::default() }
    }

    #[test]
    fn a_rate_needs_two_looks_and_outlives_one_that_comes_too_soon() {
        let mut rates = Rates::default();
        assert_eq!(rates.take(&look(0.0, 1_000)).get("/"), None, "one look tells no rate");
        assert_eq!(rates.take(&look(10.0, 5_000_001_000)).get("/"), Some(&500_000_000), "half a processor");
        assert_eq!(rates.take(&look(10.1, 5_100_001_000)).get("/"), Some(&500_000_000), "too soon to tell anew");
        assert_eq!(rates.take(&look(11.0, 5_000_001_000 + 250_000_000)).get("/"), Some(&250_000_000));
    }

    #[test]
    fn a_group_that_was_made_anew_begins_anew() {
        let mut rates = Rates::default();
        rates.take(&look(0.0, 9_000_000_000));
        assert_eq!(rates.take(&look(10.0, 1_000)).get("/"), None);
        assert_eq!(rates.take(&look(20.0, 10_000_001_000)).get("/"), Some(&1_000_000_000));
    }

    /// A runtime that tells no rates: two of its answers do.
    #[test]
    fn two_answers_of_the_runtime_tell_a_rate() {
        let told = |seconds: u64, total_ns| {
            let time = Time(Moment::EPOCH.plus(Duration::from_secs(1000 + seconds)));
            let cpu = Some(CpuStats { time, usage_core_nano_seconds: Some(total_ns), ..CpuStats::default() });
            let container = (ContainerId::from("c"), ToldContainer { cpu, ..ToldContainer::default() });
            let pod = ToldPod { containers: [container].into(), ..ToldPod::default() };
            ToldPods::from([(SandboxId::from("s"), pod)])
        };
        let (mut rates, mut known) = (Rates::default(), BTreeMap::new());
        rates.take_told(&told(0, 1_000), &mut known);
        assert_eq!(known.get("c"), None);
        rates.take_told(&told(10, 2_500_001_000), &mut known);
        assert_eq!(known.get("c"), Some(&250_000_000), "a quarter of a processor");
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut rates = Rates::default();
        rates.take(&look(0.0, 1_000));
        let mut other = look(700.0, 1_000);
        other.node.group.path = "/other".to_owned();
        rates.take(&other);
        assert_eq!(rates.take(&look(701.0, 2_000)).get("/"), None);
    }
}
