//! Growing waits: after failures in general ([`Backoff`]), and between a container's end and its next start
//! ([`CrashLoops`]).
//!
//! Both follow upstream's `flowcontrol.Backoff` in their numbers. Waits are measured on the agent's own clock, so that
//! setting the wall clock makes none of them longer or shorter. The runtime dates the ends of containers by the wall clock:
//! each is placed on the agent's clock when it is first seen ([`CrashLoops::observe`]), and stays there.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::ids::ContainerId;
use super::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod};
use super::time::{Clocks, Moment, Steady};

/// How waits grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BackoffPolicy {
    /// The first wait.
    pub initial: Duration,
    /// The longest wait; at least `initial`.
    pub max: Duration,
    /// After so long without a failure, all is forgotten.
    pub reset: Duration,
}

impl BackoffPolicy {
    /// For image pulls: 10 s, doubled up to 300 s, forgotten after 600 s.
    pub const IMAGE_PULL: Self =
        Self { initial: Duration::from_secs(10), max: Duration::from_secs(300), reset: Duration::from_secs(600) };

    /// For crash loops: 10 s, doubled up to `period_max` (`crashLoopBackOff.maxContainerRestartPeriod`, here held
    /// within 1 s and 300 s), forgotten after 600 s. A maximum below 10 s lowers the first wait to it (KEP-4603).
    pub fn crash_loop(period_max: Duration) -> Self {
        let max = period_max.clamp(Duration::from_secs(1), Duration::from_secs(300));
        Self { initial: max.min(Duration::from_secs(10)), max, reset: Duration::from_secs(600) }
    }

    /// The same with the gate `ReduceDefaultCrashLoopBackOffDecay`: 1 s, doubled up to `period_max`.
    pub fn reduced_crash_loop(period_max: Duration) -> Self {
        let normal = Self::crash_loop(period_max);
        Self { initial: normal.max.min(Duration::from_secs(1)), ..normal }
    }

    fn doubled(&self, period: Duration) -> Duration {
        period.saturating_mul(2).min(self.max)
    }

    /// The wait after `failures` failures in a row, counted from 1; zero for none.
    fn after(&self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            // 2^16 initial periods are past every maximum.
            _ => self.initial.saturating_mul(1 << (failures - 1).min(16)).min(self.max),
        }
    }
}

/// A wait that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Wait {
    /// The whole wait, as told to people.
    pub period: Duration,
    /// When it is over.
    pub until: Steady,
}

/// One thing's back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
struct Entry {
    period: Duration,
    updated: Steady,
}

impl Entry {
    fn is_expired(&self, event: Steady, policy: &BackoffPolicy) -> bool {
        event.since(self.updated) > policy.reset
    }

    /// The wait that began at `event`, if it is not over.
    fn wait(&self, event: Steady, now: Steady, policy: &BackoffPolicy) -> Option<Wait> {
        let event = event.min(now);
        if now.since(event) >= self.period || self.is_expired(event, policy) {
            return None;
        }
        Some(Wait { period: self.period, until: event.plus(self.period) })
    }

    fn next(before: Option<Self>, event: Steady, now: Steady, policy: &BackoffPolicy) -> Self {
        let period = match before {
            Some(entry) if !entry.is_expired(event, policy) => policy.doubled(entry.period),
            _ => policy.initial,
        };
        Self { period, updated: now }
    }
}

/// Back-off by key, for anything that is tried again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Backoff {
    policy: BackoffPolicy,
    entries: BTreeMap<String, Entry>,
}

impl Backoff {
    /// Nothing has failed yet.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self { policy, entries: BTreeMap::new() }
    }

    /// The wait that the last failure of `key` began, if it is not over.
    pub fn wait(&self, key: &str, now: Steady) -> Option<Wait> {
        let entry = self.entries.get(key)?;
        // Here the event is the trial at `now`; the wait began with the failure before it.
        (!entry.is_expired(now, &self.policy)).then(|| entry.wait(entry.updated, now, &self.policy)).flatten()
    }

    /// `key` failed: begins its next wait, and says which.
    pub fn fail(&mut self, key: &str, now: Steady) -> Wait {
        let entry = Entry::next(self.entries.get(key).copied(), now, now, &self.policy);
        self.entries.insert(key.to_owned(), entry);
        Wait { period: entry.period, until: now.plus(entry.period) }
    }

    /// Forgets `key`.
    pub fn reset(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Forgets what would be forgotten at its next use anyway.
    pub fn collect_garbage(&mut self, now: Steady) {
        let policy = self.policy;
        self.entries.retain(|_, entry| !entry.is_expired(now, &policy));
    }
}

/// Crash-loop back-off of one pod's containers.
///
/// The first start after an end is immediate and makes an entry; each later one doubles its period. The waits between
/// an end and the next start are therefore 0, 10, 20, 40, 80, 160, 300, 300 … seconds. A change of the container's image
/// or resources starts over, as does a run of more than 600 s.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CrashLoops {
    policy: BackoffPolicy,
    by_container: BTreeMap<String, CrashLoop>,
    /// By container that was stopped to be started again at once: which instance, and the end that counts for that start.
    stops: BTreeMap<String, (ContainerId, Option<Steady>)>,
    /// When the instances ended that the runtime holds.
    ends: BTreeMap<ContainerId, Steady>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
struct CrashLoop {
    /// The definition of the container when it failed.
    definition: String,
    entry: Entry,
}

impl CrashLoops {
    /// No container has ended yet.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self { policy, by_container: BTreeMap::new(), stops: BTreeMap::new(), ends: BTreeMap::new() }
    }

    /// Takes note of ends that the runtime shows. Where the wall clock is set later, they do not move.
    pub fn observe(&mut self, seen: &RuntimePod, now: Clocks) {
        let ended = |one: &&RuntimeContainer| one.state == ContainerState::Exited;
        let known = std::mem::take(&mut self.ends);
        let end =
            |one: &RuntimeContainer| known.get(&one.id).copied().unwrap_or_else(|| now.steady_of(one.finished_at));
        self.ends = seen.containers.iter().filter(ended).map(|one| (one.id.clone(), end(one))).collect();
    }

    /// How long the container, whose newest ended instance ended at `finished`, still has to wait.
    pub fn wait(&self, container: &Container, finished: Steady, now: Steady) -> Option<Wait> {
        self.entry(container)?.wait(finished, now, &self.policy)
    }

    /// The container's running instance is being stopped to be started again at once: its back-off allows that now. The
    /// back-off counts from `ended`, the end of the instance before (upstream stops and starts in one pass, by the status
    /// from before it). Should that start not come to pass, the own end of this one counts as ever.
    pub fn note_stop(&mut self, container_name: &str, instance: ContainerId, ended: Option<Steady>) {
        self.stops.insert(container_name.to_owned(), (instance, ended));
    }

    /// From which end on the back-off of a start after this instance counts, where any does.
    pub fn end_that_counts(&self, ended: &RuntimeContainer, now: Clocks) -> Option<Steady> {
        let stop = self.stops.get(&ended.name).filter(|(instance, _)| *instance == ended.id);
        let own = || self.ends.get(&ended.id).copied().unwrap_or_else(|| now.steady_of(ended.finished_at));
        stop.map_or_else(|| Some(own()), |(_, before)| *before)
    }

    /// The container is being started at `now`, after the end that counts; with `None` its start is no repetition.
    pub fn note_start(&mut self, container: &Container, finished: Option<Steady>, now: Steady) {
        self.stops.remove(&container.name);
        let Some(finished) = finished else { return };
        let entry = Entry::next(self.entry(container), finished, now, &self.policy);
        self.insert(container, entry);
    }

    /// Rebuilds a container's back-off after the agent was restarted, so that it goes on where it was (upstream forgets it
    /// and starts over). Callers give the newest instance, and the end of the instance before it, where the runtime or the
    /// API status still know that. Does nothing for a container that has an entry or never ended.
    ///
    /// The period is that of `restart_count` failures in a row. It is never more than the observed gap between the former
    /// end and the newest instance explains: a gap of less than 10 s was the immediate restart, one of less than 20 s the
    /// wait of 10 s, and so on. The count alone would make a container that was restarted now and then over months wait as
    /// if it had crashed each time; the gap alone would count a slow image pull as a wait. Both can only err upwards, so the
    /// smaller one is taken; where the clock was set back in between, the gap tells nothing. The entry's time is that of the
    /// newest instance's creation; a run of more than 600 s since then makes it void as ever.
    pub fn recover(
        &mut self,
        container: &Container,
        newest: &RuntimeContainer,
        previous_finished: Option<Moment>,
        now: Clocks,
    ) {
        if newest.restart_count == 0 || self.entry(container).is_some() {
            return;
        }
        let by_count = self.policy.after(newest.restart_count);
        let previous_finished = previous_finished.filter(|finished| *finished <= newest.created_at);
        let by_gap = previous_finished.map(|finished| self.explained_by(newest.created_at.since(finished)));
        let period = by_gap.map_or(by_count, |period| period.min(by_count));
        self.insert(container, Entry { period, updated: now.steady_of(newest.created_at) });
    }

    /// Forgets the container, as when someone asked for it to be started at once.
    pub fn reset(&mut self, container_name: &str) {
        self.by_container.remove(container_name);
    }

    /// The period that follows a wait of `gap`: the smallest one that is longer.
    fn explained_by(&self, gap: Duration) -> Duration {
        let mut period = self.policy.initial;
        while period <= gap && period < self.policy.max {
            period = self.policy.doubled(period);
        }
        period
    }

    fn entry(&self, container: &Container) -> Option<Entry> {
        let known = self.by_container.get(&container.name)?;
        (known.definition == definition(container)).then_some(known.entry)
    }

    fn insert(&mut self, container: &Container, entry: Entry) {
        self.by_container.insert(container.name.clone(), CrashLoop { definition: definition(container), entry });
    }
}

/// The parts of a container whose change makes its back-off start over: image and resources.
fn definition(container: &Container) -> String {
    let resources = container.resources.as_ref().and_then(|resources| serde_json::to_string(resources).ok());
    format!("{} {}", container.image.as_deref().unwrap_or_default(), resources.unwrap_or_default())
}

/// Why a container is not started again yet. `Display` is the API's message to the reason `CrashLoopBackOff`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CrashLoopWait {
    /// The container's name.
    pub container: String,
    /// Its pod: `name_namespace(uid)`.
    pub pod: String,
    /// How long it waits after its end.
    pub period: Duration,
}

impl fmt::Display for CrashLoopWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { container, pod, period } = self;
        write!(f, "back-off {} restarting failed container={container} pod={pod}", go_duration(*period))
    }
}

/// A duration as Go prints it (`1m20s`, `5m0s`, `1.5s`), to the millisecond: upstream's messages hold such.
pub fn go_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    if milliseconds < 1000 {
        return format!("{milliseconds}ms");
    }
    let (hours, minutes) = (milliseconds / 3_600_000, milliseconds / 60_000 % 60);
    let fraction = format!(".{:03}", milliseconds % 1000);
    let seconds = format!("{}{}s", milliseconds / 1000 % 60, fraction.trim_end_matches('0').trim_end_matches('.'));
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests;
