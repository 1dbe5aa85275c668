//! Compares what is observed with the thresholds, and remembers since when each is met (EVI-11, EVI-12, EVI-14, EVI-31).
//!
//! Owned by `EvictionManager`. Times are uptime, so that a clock that is set neither ends a grace period nor lengthens it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::signal::{Condition, Observation, Observations, Resource};
use super::threshold::Threshold;
use crate::logic::model::pressure::Pressure;

/// The thresholds of a node, and since when they are met.
#[derive(Clone, Debug)]
pub struct Monitor {
    thresholds: Vec<Threshold>,
    /// `evictionPressureTransitionPeriod`: how long a condition outlasts its cause.
    transition: Duration,
    /// Uptime at which each threshold, by position, was first met; those that are not met are absent.
    met_since: BTreeMap<usize, Duration>,
    /// Thresholds that were met for their whole grace period at the last look: they count until minimum reclaim is left.
    due: BTreeSet<usize>,
    /// Uptime at which the cause of a condition was last observed.
    observed: BTreeMap<Condition, Duration>,
}

/// The result of a look.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Findings {
    /// The conditions of the Node.
    pub pressure: Pressure,
    /// The shortage to relieve first, with its observation; `None` when nothing has been short for long enough.
    pub shortage: Option<Shortage>,
    /// When a soft threshold that is met will have been met for its whole grace period, from now.
    pub due_in: Option<Duration>,
}

/// A threshold that is met, and for long enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortage {
    /// The threshold that is relieved.
    pub threshold: Threshold,
    /// All that are met for long enough, this one first.
    pub all: Vec<(Threshold, Observation)>,
}

impl Shortage {
    /// The resource that runs short.
    pub fn resource(&self) -> Resource {
        self.threshold.signal.resource()
    }

    /// The hard thresholds of the shortage; `None` when all are soft.
    pub fn hard_alone(self) -> Option<Self> {
        let all: Vec<_> = self.all.into_iter().filter(|(threshold, _)| threshold.is_hard()).collect();
        Some(Self { threshold: all.first()?.0, all })
    }
}

impl Monitor {
    /// Nothing was looked at yet.
    pub fn new(thresholds: Vec<Threshold>, transition: Duration) -> Self {
        let (met_since, due, observed) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { thresholds, transition, met_since, due, observed }
    }

    /// Other thresholds from now on. Thresholds that stay keep their times, and conditions keep theirs.
    pub fn follow(&mut self, thresholds: Vec<Threshold>) {
        let before = std::mem::replace(&mut self.thresholds, thresholds);
        let place = |at: usize| self.thresholds.iter().position(|one| *one == before[at]);
        self.met_since = self.met_since.iter().filter_map(|(at, since)| Some((place(*at)?, *since))).collect();
        self.due = self.due.iter().filter_map(|at| place(*at)).collect();
    }

    /// Conditions outlast their causes by this from now on.
    pub fn outlast(&mut self, transition: Duration) {
        self.transition = transition;
    }

    /// Takes one look at everything.
    pub fn look(&mut self, observations: &Observations, uptime: Duration) -> Findings {
        let met: BTreeSet<usize> =
            (0..self.thresholds.len()).filter(|at| self.is_met(*at, observations, self.due.contains(at))).collect();
        self.met_since.retain(|at, _| met.contains(at));
        for at in met {
            self.met_since.entry(at).or_insert(uptime);
            self.observed.insert(self.thresholds[at].signal.condition(), uptime);
        }
        let left =
            |at: &usize, since: &Duration| self.thresholds[*at].grace.saturating_sub(uptime.saturating_sub(*since));
        self.due = self.met_since.iter().filter(|(at, since)| left(at, since).is_zero()).map(|(at, _)| *at).collect();
        let waits = self.met_since.iter().map(|(at, since)| left(at, since)).filter(|left| !left.is_zero());
        Findings { due_in: waits.min(), pressure: self.pressure(uptime), shortage: self.shortage(observations) }
    }

    /// The thresholds in force.
    pub fn thresholds(&self) -> &[Threshold] {
        &self.thresholds
    }

    /// Whether no threshold is met any more, minimum reclaim counted: then no pod has to go.
    pub fn is_relieved(&self, observations: &Observations) -> bool {
        !(0..self.thresholds.len()).any(|at| self.is_met(at, observations, true))
    }

    /// The conditions that hold: their cause was observed within the transition period.
    pub fn pressure(&self, uptime: Duration) -> Pressure {
        let holds = |condition| {
            let last = self.observed.get(&condition);
            last.is_some_and(|last| uptime.saturating_sub(*last) < self.transition)
        };
        Pressure {
            memory: holds(Condition::MemoryPressure),
            disk: holds(Condition::DiskPressure),
            pid: holds(Condition::PidPressure),
        }
    }

    fn is_met(&self, at: usize, observations: &Observations, with_reclaim: bool) -> bool {
        let threshold = &self.thresholds[at];
        observations.get(&threshold.signal).is_some_and(|observed| threshold.is_met(observed, with_reclaim))
    }

    /// Memory first: a node without memory cannot even end its pods.
    fn shortage(&self, observations: &Observations) -> Option<Shortage> {
        let due = self.due.iter().map(|at| self.thresholds[*at]);
        let mut all: Vec<_> = due.filter_map(|one| Some((one, *observations.get(&one.signal)?))).collect();
        all.sort_by_key(|(one, _)| one.signal.resource() != Resource::Memory);
        Some(Shortage { threshold: all.first()?.0, all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::eviction::signal::Signal;
    use crate::logic::eviction::testing::{observed, threshold};

    const SECOND: Duration = Duration::from_secs(1);

    fn monitor(thresholds: Vec<Threshold>) -> Monitor {
        Monitor::new(thresholds, 300 * SECOND)
    }

    fn signal_of(findings: &Findings) -> Option<Signal> {
        findings.shortage.as_ref().map(|shortage| shortage.threshold.signal)
    }

    /// EVI-11.
    #[test]
    fn evi_11_a_hard_threshold_is_relieved_at_once_and_a_soft_one_after_its_period() {
        let soft = Threshold { grace: 30 * SECOND, ..threshold(Signal::NodeFsAvailable, 100) };
        let mut monitor = monitor(vec![threshold(Signal::NodeFsAvailable, 50), soft]);
        let findings = monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), SECOND);
        assert_eq!(findings.pressure, Pressure { disk: true, ..Pressure::default() }, "before the period is over");
        assert_eq!((signal_of(&findings), findings.due_in), (None, Some(30 * SECOND)));
        let findings = monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), 30 * SECOND);
        assert_eq!((signal_of(&findings), findings.due_in), (None, Some(SECOND)));
        let findings = monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), 31 * SECOND);
        assert_eq!(findings.shortage.map(|shortage| shortage.threshold), Some(soft));
        let findings = monitor.look(&observed(&[(Signal::NodeFsAvailable, 40)]), 32 * SECOND);
        assert_eq!(findings.shortage.map(|shortage| shortage.all.len()), Some(2), "the hard one needs no period");
    }

    /// EVI-11.
    #[test]
    fn evi_11_a_soft_threshold_that_is_left_for_a_moment_begins_anew() {
        let soft = Threshold { grace: 30 * SECOND, ..threshold(Signal::NodeFsAvailable, 100) };
        let mut monitor = monitor(vec![soft]);
        monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), SECOND);
        monitor.look(&observed(&[(Signal::NodeFsAvailable, 100)]), 20 * SECOND);
        let findings = monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), 35 * SECOND);
        assert_eq!((signal_of(&findings), findings.due_in), (None, Some(30 * SECOND)));
    }

    #[test]
    fn other_thresholds_leave_those_that_stay_and_the_conditions_as_they_are() {
        let soft = Threshold { grace: 30 * SECOND, ..threshold(Signal::NodeFsAvailable, 100) };
        let (gone, new) = (threshold(Signal::ContainerFsAvailable, 50), threshold(Signal::PidAvailable, 50));
        let mut monitor = monitor(vec![gone, soft]);
        monitor.look(&observed(&[(Signal::NodeFsAvailable, 80), (Signal::ContainerFsAvailable, 60)]), SECOND);
        monitor.follow(vec![new, soft]);
        let findings = monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), 21 * SECOND);
        assert_eq!((signal_of(&findings), findings.due_in), (None, Some(10 * SECOND)), "its period runs on");
        monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), 31 * SECOND);
        monitor.follow(vec![soft]);
        let findings = monitor.look(&observed(&[(Signal::NodeFsAvailable, 80)]), 32 * SECOND);
        assert_eq!(signal_of(&findings), Some(Signal::NodeFsAvailable));
        monitor.follow(vec![new]);
        let findings = monitor.look(&observed(&[]), 33 * SECOND);
        assert!(findings.pressure.disk && findings.shortage.is_none(), "within the transition period");
    }

    /// EVI-12.
    #[test]
    fn evi_12_a_condition_outlasts_its_cause_by_the_transition_period() {
        let mut monitor = monitor(vec![threshold(Signal::PidAvailable, 10)]);
        assert!(monitor.look(&observed(&[(Signal::PidAvailable, 9)]), SECOND).pressure.pid);
        assert!(monitor.look(&observed(&[(Signal::PidAvailable, 10)]), 300 * SECOND).pressure.pid);
        assert!(!monitor.look(&observed(&[(Signal::PidAvailable, 10)]), 301 * SECOND).pressure.pid);
    }

    /// EVI-14.
    #[test]
    fn evi_14_memory_comes_first() {
        let mut monitor = monitor(vec![
            threshold(Signal::NodeFsAvailable, 10),
            threshold(Signal::PidAvailable, 10),
            threshold(Signal::AllocatableMemoryAvailable, 10),
        ]);
        let all = [Signal::NodeFsAvailable, Signal::PidAvailable, Signal::AllocatableMemoryAvailable];
        let findings = monitor.look(&observed(&all.map(|signal| (signal, 1))), SECOND);
        assert_eq!(signal_of(&findings), Some(Signal::AllocatableMemoryAvailable));
        assert_eq!(findings.pressure, Pressure { memory: true, disk: true, pid: true });
    }

    /// EVI-31.
    #[test]
    fn evi_31_what_was_relieved_counts_until_minimum_reclaim_is_left() {
        let with_reclaim = Threshold {
            reclaim_min: Some(threshold(Signal::NodeFsAvailable, 20).value),
            ..threshold(Signal::NodeFsAvailable, 100)
        };
        let mut monitor = monitor(vec![with_reclaim]);
        let enough = observed(&[(Signal::NodeFsAvailable, 110)]);
        assert_eq!(signal_of(&monitor.look(&enough, SECOND)), None, "it was never met");
        assert!(!monitor.is_relieved(&enough));
        monitor.look(&observed(&[(Signal::NodeFsAvailable, 99)]), 2 * SECOND);
        assert_eq!(signal_of(&monitor.look(&enough, 3 * SECOND)), Some(Signal::NodeFsAvailable));
        let relieved = observed(&[(Signal::NodeFsAvailable, 120)]);
        assert!(monitor.is_relieved(&relieved));
        assert_eq!(signal_of(&monitor.look(&relieved, 4 * SECOND)), None);
        assert_eq!(signal_of(&monitor.look(&enough, 5 * SECOND)), None, "it was left");
    }

    /// EVI-07.
    #[test]
    fn evi_07_what_is_not_observed_is_not_short() {
        let mut monitor = monitor(vec![threshold(Signal::AllocatableMemoryAvailable, 10)]);
        assert_eq!(monitor.look(&Observations::new(), SECOND), Findings::default());
    }
}
