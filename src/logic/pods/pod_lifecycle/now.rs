//! The time of a step, and what it says of times that others tell.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::{Clocks, Moment, Stamp, Steady};
use crate::logic::probes::probe_schedule::RESTART_MARGIN;

/// The time of a step.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Wall clock. It may jump.
    pub moment: Moment,
    /// How long the agent has run.
    pub uptime: Duration,
    /// How long the machine has run.
    pub machine_uptime: Duration,
    /// Order.
    pub stamp: Stamp,
    /// In 0..1, seeded: spreads retries.
    pub jitter: f64,
}

impl Now {
    pub(super) fn clocks(&self) -> Clocks {
        Clocks { wall: self.moment, steady: self.steady() }
    }

    pub(super) fn steady(&self) -> Steady {
        Steady::at(self.uptime)
    }

    /// Whether the machine was started anew since then. An event in the future is no older than the machine.
    pub(super) fn is_before_boot(&self, event: Moment) -> bool {
        self.moment.since(event) > self.machine_uptime
    }

    /// Which of the running instances an earlier agent started, judged when the pod is looked at first. One whose start is
    /// dated later than now is among them: it was started before somebody set the clock back.
    pub(super) fn adopted(&self, seen: &RuntimePod) -> BTreeSet<ContainerId> {
        let is_older = |started: Moment| {
            started > self.moment || self.moment.since(started) > self.uptime.saturating_add(RESTART_MARGIN)
        };
        seen.running().filter(|one| is_older(one.started_at)).map(|one| one.id.clone()).collect()
    }
}
