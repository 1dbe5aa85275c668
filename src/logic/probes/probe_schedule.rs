//! When one container is probed in one way, and what comes of the outcomes: upstream's prober worker, without the probing.
//!
//! One machine per container and [`ProbeKind`]; the three kinds differ in their first value, in when they hold still and in
//! nothing else. Its owner keeps one timer, set to [`ProbeSchedule::due`], and carries out its orders.
//! Times are measured in uptime, which never jumps. The runtime dates a container's start by the wall clock: that date is read
//! once, when the container is first seen running, so that setting the clock later moves no initial delay.

mod seen;
mod tally;
mod ticks;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};

use super::probe_memory::{RUN_AGE_MAX, Remembered};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::time::Moment;
use crate::logic::probes::probe_kind::ProbeKind;
pub use seen::{Seen, Target, TargetState};
use tally::{Tally, Timeouts};
use ticks::Ticks;

/// A container that has run for longer than the agent by this much was there before it. Less, and the agent may well
/// have started it: the runtime's clock and the agent's need not agree.
pub const RESTART_MARGIN: Duration = Duration::from_secs(10);

/// The longest that a probe whose command runs out of time again and again is put off, where its period is not longer.
pub const TIMEOUT_WAIT_MAX: Duration = Duration::from_secs(60);

/// Rounds after the first begin together with those of other probes, at multiples of this: waking costs a processor more
/// than probing does. No period is a fraction of a second, so none drifts.
pub const SLOT: Duration = Duration::from_millis(500);

/// The probes that a pod has: of its regular containers, then of its restartable init containers (KEP-753), of each in
/// the order startup, readiness, liveness. Ordinary init containers and ephemeral ones are never probed.
pub fn probes_of(pod: &Pod) -> Vec<(&Container, ProbeKind)> {
    let Some(spec) = pod.spec.as_ref() else { return Vec::new() };
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| is_sidecar(container));
    let of = |container| {
        let kinds = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness].into_iter();
        kinds.filter(move |kind| kind.of(container).is_some()).map(move |kind| (container, kind))
    };
    spec.containers.iter().chain(sidecars).flat_map(of).collect()
}

/// A probe's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ProbeTiming {
    /// From one round to the next; at least a second.
    pub period: Duration,
    /// So long after the container's start no round is held.
    pub initial_delay: Duration,
    /// So many successes in a row make a success; at least 1.
    pub success_threshold: u32,
    /// So many failures in a row make a failure; at least 1.
    pub failure_threshold: u32,
    /// For one try; at least a second.
    pub timeout: Duration,
}

impl From<&Probe> for ProbeTiming {
    /// With the API's defaults for what is not set (PRB-02).
    fn from(probe: &Probe) -> Self {
        let number = |given: Option<i32>, default: u32| {
            given.and_then(|given| u32::try_from(given).ok()).filter(|given| *given > 0).unwrap_or(default)
        };
        Self {
            period: Duration::from_secs(number(probe.period_seconds, 10).into()),
            initial_delay: Duration::from_secs(number(probe.initial_delay_seconds, 0).into()),
            success_threshold: number(probe.success_threshold, 1),
            failure_threshold: number(probe.failure_threshold, 3),
            timeout: Duration::from_secs(number(probe.timeout_seconds, 1).into()),
        }
    }
}

/// How one round of probing went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum ProbeOutcome {
    /// The container answered well (a warning is a success, too).
    Success,
    /// It did not.
    Failure,
    /// Its command did not end in time: a failure, and what it began may run on in the container.
    TimedOut,
    /// The probe could not be tried; says nothing about the container.
    Errored,
}

/// The orders of the machine, in sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAction {
    /// The container's result is this now; others hear of it only when it differs.
    Store(ContainerId, bool),
    /// The container has no result any more.
    Forget(ContainerId),
    /// Probe the container; its outcome is awaited.
    Probe(ContainerId),
    /// There will be nothing to probe any more.
    End,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct ProbeSchedule {
    kind: ProbeKind,
    timing: ProbeTiming,
    agent_started: Moment,
    /// The container whose results are kept.
    container: Option<ContainerId>,
    /// When that container was first seen running, and how long it had run by then.
    ran: Option<(Duration, Duration)>,
    tally: Tally,
    /// No probing until there is another container.
    on_hold: bool,
    /// A round is under way.
    probing: bool,
    ended: bool,
    /// A round was asked for while one was under way.
    triggered: bool,
    /// The memory of an earlier agent, until a container is met.
    remembered: Option<Remembered>,
    /// How often in a row the container's command ran out of time.
    timeouts: Timeouts,
    ticks: Ticks,
}

impl ProbeSchedule {
    /// A machine made at the uptime `now`, with its first round at once; only while the agent is younger than a period. The
    /// wait is then `jitter` (0 up to 1) of a period, so that an agent that comes back does not probe everything at once.
    pub fn new(
        kind: ProbeKind,
        timing: ProbeTiming,
        agent_started: Moment,
        agent_age: Duration,
        jitter: f64,
        now: Duration,
    ) -> Self {
        let delay =
            if agent_age < timing.period { timing.period.mul_f64(jitter.clamp(0.0, 1.0)) } else { Duration::ZERO };
        let first = now.saturating_add(delay);
        Self {
            kind,
            timing,
            agent_started,
            container: None,
            ran: None,
            tally: Tally::default(),
            on_hold: false,
            probing: false,
            ended: false,
            triggered: false,
            remembered: None,
            timeouts: Timeouts::default(),
            ticks: Ticks::new(timing.period, first),
        }
    }

    /// The machine goes on where an earlier one of the same container was (PAIN-16).
    pub fn resume(&mut self, remembered: Remembered) {
        self.remembered = Some(remembered);
    }

    /// The memory to keep, at `wall`; `None` before a container was met. `result` is what others hear of it.
    pub fn memory(&self, result: Option<bool>, wall: Moment) -> Option<Remembered> {
        if self.container.is_none() {
            return self.remembered.clone();
        }
        let Tally { last, run } = self.tally;
        let enough = if last == Some(true) { self.timing.success_threshold } else { self.timing.failure_threshold };
        let container = self.container.clone()?;
        Some(Remembered { container, result, last, run: run.min(enough), at: wall })
    }

    /// The wait before the next round where the container's command has run out of time more often in a row than a
    /// failure takes: the period, doubled with each further time.
    pub fn put_off(&self) -> Option<(u32, Duration)> {
        self.timeouts.wait(&self.timing)
    }

    /// The uptime of the next round, which may have passed; `None` while one is under way, and after the end.
    pub fn due(&self) -> Option<Duration> {
        (!self.probing && !self.ended).then_some(self.ticks.next())
    }

    /// The uptime at which the timer is to be set, at the uptime `now`: the round's own, or, for one that is not the first and
    /// is not to begin at once, the next [`SLOT`]'s.
    pub fn wake(&self, now: Duration) -> Option<Duration> {
        let due = self.due()?;
        if self.tally.last.is_none() || due <= now {
            return Some(due);
        }
        let slots = due.as_nanos().div_ceil(SLOT.as_nanos());
        Some(SLOT.saturating_mul(u32::try_from(slots).unwrap_or(u32::MAX)).max(due))
    }

    /// Takes note of a new status. A container that runs and has started, and is only held back by its readiness, is
    /// probed at once (PRB-20): it must not wait for a period after its startup probe has succeeded. For the same reason
    /// the startup probe of a container that was not seen running before is made at once (PAIN-39).
    pub fn notice(&mut self, seen: &Seen, now: Duration) {
        let Seen::Container(target) = seen else { return };
        let TargetState::Running { .. } = target.state else { return };
        if self.container.as_ref() != Some(&target.id) {
            self.timeouts = Timeouts::default();
        }
        let hastens = match self.kind {
            ProbeKind::Startup => {
                !target.started && (self.ran.is_none() || self.container.as_ref() != Some(&target.id))
            }
            ProbeKind::Readiness => target.started && !target.ready,
            ProbeKind::Liveness => false,
        };
        if hastens {
            self.trigger(now);
        }
    }

    /// Asks for a round now. Ticks are counted from here on.
    pub fn trigger(&mut self, now: Duration) {
        if !self.timeouts.lets(now) {
            return;
        }
        if self.probing {
            self.triggered = true;
        } else {
            self.ticks.restart(now);
        }
    }

    /// Holds a round at the uptime `now`: `wall` on the wall clock.
    pub fn round(&mut self, seen: &Seen, wall: Moment, now: Duration) -> Vec<ProbeAction> {
        if self.probing || self.ended {
            return Vec::new();
        }
        self.ticks.advance(now);
        match seen {
            Seen::Nothing => Vec::new(),
            Seen::PodOver => self.end(Vec::new()),
            Seen::Container(target) => {
                let actions = self.meet(target, wall);
                self.look(target, wall, now, actions)
            }
        }
    }

    /// Takes the outcome of the round under way.
    pub fn finish(&mut self, outcome: ProbeOutcome, now: Duration) -> Vec<ProbeAction> {
        if !std::mem::take(&mut self.probing) {
            return Vec::new();
        }
        if std::mem::take(&mut self.triggered) {
            self.trigger(now);
        }
        let result = match outcome {
            ProbeOutcome::Success => true,
            ProbeOutcome::Failure | ProbeOutcome::TimedOut => false,
            ProbeOutcome::Errored => return Vec::new(),
        };
        self.timeouts.note(outcome == ProbeOutcome::TimedOut);
        if let Some((_, wait)) = self.put_off() {
            let until = now.saturating_add(wait);
            self.timeouts.put_off(until);
            self.ticks.restart(until);
        }
        self.count(result)
    }

    /// The machine is to end, whatever it does.
    pub fn stop(&mut self) -> Vec<ProbeAction> {
        if self.ended { Vec::new() } else { self.end(Vec::new()) }
    }

    /// The container that a round is under way for.
    pub fn probing(&self) -> Option<&ContainerId> {
        self.container.as_ref().filter(|_| self.probing)
    }

    /// Begins with a new container's first value. The run of equal results goes on, as upstream's does.
    fn meet(&mut self, target: &Target, wall: Moment) -> Vec<ProbeAction> {
        if self.container.as_ref() == Some(&target.id) {
            return Vec::new();
        }
        let former = self.container.replace(target.id.clone());
        // One that came after another was started by this agent, whatever the wall clock says of it.
        let is_first = former.is_none();
        (self.on_hold, self.ran) = (false, None);
        self.timeouts = Timeouts::default();
        let mut actions: Vec<ProbeAction> = former.map(ProbeAction::Forget).into_iter().collect();
        if let Some(kept) = self.remembered.take().filter(|kept| kept.container == target.id) {
            actions.extend(self.go_on(&kept, wall));
            return actions;
        }
        let initial = match target.state {
            // It ran before the agent did: what it was, it stays, until a probe says otherwise. A sidecar that had started
            // must be seen so, since others are started after it.
            TargetState::Running { started_at }
                if is_first && self.agent_started.since(started_at) > RESTART_MARGIN =>
            {
                (self.kind == ProbeKind::Startup && target.is_sidecar && target.started).then_some(true)
            }
            _ => self.kind.initial(),
        };
        actions.extend(initial.map(|value| ProbeAction::Store(target.id.clone(), value)));
        actions
    }

    fn go_on(&mut self, kept: &Remembered, wall: Moment) -> Option<ProbeAction> {
        if wall.since(kept.at) <= RUN_AGE_MAX {
            self.tally = Tally { last: kept.last, run: kept.run };
        }
        self.on_hold = match self.kind {
            ProbeKind::Startup => kept.result.is_some(),
            ProbeKind::Liveness => kept.result == Some(false),
            ProbeKind::Readiness => false,
        };
        kept.result.map(|result| ProbeAction::Store(kept.container.clone(), result))
    }

    /// How long the container has run.
    fn age(&mut self, target: &Target, wall: Moment, now: Duration) -> Duration {
        let TargetState::Running { started_at } = target.state else { return Duration::ZERO };
        let (met, age) = *self.ran.get_or_insert_with(|| (now, wall.since(started_at)));
        age.saturating_add(now.saturating_sub(met))
    }

    fn look(
        &mut self,
        target: &Target,
        wall: Moment,
        now: Duration,
        mut actions: Vec<ProbeAction>,
    ) -> Vec<ProbeAction> {
        let is_readiness = self.kind == ProbeKind::Readiness;
        let is_startup = self.kind == ProbeKind::Startup;
        let age = self.age(target, wall, now);
        match target.state {
            _ if self.on_hold => {}
            // One that was made and does not run yet, as during its postStart hook, has not failed: were that stored, it
            // would be ended as soon as it runs.
            TargetState::Waiting => {}
            TargetState::Ended { comes_back: true } => {
                actions.push(ProbeAction::Store(target.id.clone(), false));
            }
            TargetState::Ended { comes_back: false } => {
                actions.push(ProbeAction::Store(target.id.clone(), false));
                return self.end(actions);
            }
            TargetState::Running { .. } if target.ends && !is_readiness => {
                actions.push(ProbeAction::Store(target.id.clone(), true)); // for a quiet end
                return self.end(actions);
            }
            TargetState::Running { .. } => {
                // A startup probe is for those that have not started, the others are for those that have.
                if target.started == is_startup {
                    return actions;
                }
                if Duration::from_secs(age.as_secs()) >= self.timing.initial_delay {
                    self.probing = true;
                    actions.push(ProbeAction::Probe(target.id.clone()));
                } else {
                    // The delay's end is a better moment than the next tick after it.
                    let end = now.saturating_add(self.timing.initial_delay.saturating_sub(age));
                    self.ticks.hasten(end);
                }
            }
        }
        actions
    }

    fn count(&mut self, result: bool) -> Vec<ProbeAction> {
        debug_assert!(self.container.is_some(), "a round is of the container that is met");
        let run = self.tally.count(result);
        let threshold = if result { self.timing.success_threshold } else { self.timing.failure_threshold };
        if run < threshold {
            return Vec::new();
        }
        // The container is about to be restarted, or has started: either way there is nothing more to learn of it.
        if self.kind == ProbeKind::Startup || (self.kind == ProbeKind::Liveness && !result) {
            self.on_hold = true;
            self.tally.end_run();
        }
        self.container.iter().map(|container| ProbeAction::Store(container.clone(), result)).collect()
    }

    fn end(&mut self, mut actions: Vec<ProbeAction>) -> Vec<ProbeAction> {
        self.ended = true;
        self.probing = false;
        actions.extend(self.container.take().map(ProbeAction::Forget));
        actions.push(ProbeAction::End);
        actions
    }
}

#[cfg(test)]
mod tests;
