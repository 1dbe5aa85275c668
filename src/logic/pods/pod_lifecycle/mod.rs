//! A pod's life on the node: syncing, terminating, terminated. The one place that says what happens next.
//!
//! Owned by the pod's `PodWorker`, which feeds it what was seen and carries out what it says. It keeps the newest desired
//! pod, the newest observation, the jobs under way, and what must be waited for. It is level-triggered: `step` takes one
//! input and then decides from the whole state, so an input lost is only time lost.
//!
//! Waits after a job are kept in uptime: a clock that is set back makes none longer. Those of crash loops are wall-clock
//! moments, because the runtime tells with those when a container ended.
//!
//! Starting is a graph: images and sandbox have no order among them. Containers keep upstream's order (POD-13, CRI-18).

mod absent;
mod action;
mod demands;
mod job;
mod looks;
mod now;
mod obstacles;
mod resizing;
mod room;
mod syncing;
mod terminating;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use litemap::LiteMap;

use super::container_actions::{ContainerKind, ResetContainer, StartContainer};
use super::pod_resize::PodResources;
use crate::logic::images::image_policy::ImageInUse;
use crate::logic::model::backoff::{BackoffPolicy, CrashLoops};
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_health::RuntimeHealth;
use crate::logic::model::runtime_pod::{ContainerState, ProbeResults, RuntimePod, RuntimeSandbox};
use crate::logic::model::time::{Moment, Stamp, Steady};
use crate::logic::probes::probe_schedule::ProbeKind;
use crate::logic::resources::cgroup_name::CgroupDriver;
use crate::logic::status::pod_status::StartError;
use crate::logic::volumes::volume_states::MountedVolumes;
pub use absent::{Absent, Found};
pub use action::Action;
pub use demands::{Demand, Demanded};
pub use job::{Job, JobEnd, POST_START_HOOK_ERROR, SandboxFailure, StartFailure, Started};
pub use now::Now;
pub use resizing::ResizeMeans;
pub use terminating::Remains;

/// Wait after an error, before jitter (upstream's back-off period of a pod worker).
pub const ERROR_RETRY: Duration = Duration::from_secs(10);
/// Wait while pods have no network, before jitter.
pub const NETWORK_RETRY: Duration = Duration::from_secs(1);
/// How long a container may be made and not started before it counts as half-made: the call to start it comes at once, and
/// one whose caller failed meanwhile may still come.
pub const HALF_MADE_AGE: Duration = Duration::from_secs(10);
/// Grace of pods that nobody wants: no more than the runtime needs (POD-10).
pub const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// How far a pod has come. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// To be run, or kept running.
    Syncing,
    /// Its containers end.
    Terminating,
    /// Nothing of it runs, and never will again.
    Terminated,
}

/// What a worker sees.
#[derive(Clone, Debug)]
pub enum Input {
    /// The newest desired pod.
    Spec(Arc<Pod>),
    /// Nobody wants the pod any more. A shorter grace period takes the place of a longer one, never the reverse.
    Removed {
        /// Time for the containers to end; `None` leaves the pod's own.
        grace: Option<Duration>,
    },
    /// What the runtime holds of the pod.
    Observed(Arc<RuntimePod>),
    /// Whether the runtime can be worked with.
    Health(RuntimeHealth),
    /// A probe's threshold was reached.
    Probed {
        /// Of which container.
        container: ContainerId,
        /// Which probe.
        kind: ProbeKind,
        /// What it found.
        healthy: bool,
    },
    /// What the runtime was told of the pod's resources before this worker was.
    Actuated(PodResources),
    /// A job ended.
    Ended(JobEnd),
    /// The pod's phase is final: what its containers, or its deadline, made of it (POD-15, POD-25).
    Over,
    /// A wait is over, or a probe changed what is to be done.
    Due,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PodLifecycle {
    pod: Option<Arc<Pod>>,
    hashes: LiteMap<String, String>,
    stage: Stage,
    removed: bool,
    grace: Option<Duration>,
    observed: Option<Arc<RuntimePod>>,
    absences: absent::Absences,
    /// An observation older than this lacks something that this pod's own jobs did.
    fresh_after: Stamp,
    /// A fresh observation is worth asking for once nothing else is to be done.
    unconfirmed: bool,
    asked: bool,
    health: RuntimeHealth,
    prepared: bool,
    driver: CgroupDriver,
    volumes: volumes::PodVolumes,
    resizing: resizing::Resizing,
    /// By job, how its last try failed.
    problems: BTreeMap<Job, String>,
    cleared_for: Option<u32>,
    jobs: BTreeSet<Job>,
    stops: terminating::Stops,
    images: BTreeMap<String, ImageInUse>,
    /// By container that is being started, the hash that it is made with.
    starting: BTreeMap<String, String>,
    start_errors: BTreeMap<String, StartError>,
    /// Until when each is not tried again, in uptime.
    retries: BTreeMap<Job, Duration>,
    crash_loops: CrashLoops,
    /// Instances that are to be, or were, stopped to be started again.
    restarts: BTreeSet<ContainerId>,
    /// Containers that are to be once their start under way has ended.
    restart_started: BTreeSet<String>,
    recovered: bool,
    /// Instances that an earlier agent started.
    adopted: BTreeSet<ContainerId>,
    probes: ProbeResults,
    /// The highest restart count that was seen of each container, among instances that were started.
    counts: BTreeMap<String, u32>,
    /// Containers that were made and that nobody starts: until when, in uptime, a start may still come; `None` once one last
    /// look was asked for.
    half_made: BTreeMap<ContainerId, Option<Duration>>,
    replacing: bool,
    waits: Vec<(String, Option<Steady>)>,
    ending: terminating::Ending,
}

impl PodLifecycle {
    /// A pod of which nothing is known yet, whose crash-loop back-off follows `crash_loop`. Observations from before `born`
    /// are not looked at.
    pub fn new(crash_loop: BackoffPolicy, born: Stamp) -> Self {
        Self {
            pod: None,
            hashes: LiteMap::new(),
            stage: Stage::Syncing,
            removed: false,
            grace: None,
            observed: None,
            absences: absent::Absences::default(),
            fresh_after: born,
            unconfirmed: false,
            asked: false,
            health: RuntimeHealth::default(),
            prepared: false,
            driver: CgroupDriver::Cgroupfs,
            volumes: volumes::PodVolumes::default(),
            resizing: resizing::Resizing::default(),
            cleared_for: None,
            jobs: BTreeSet::new(),
            stops: terminating::Stops::default(),
            images: BTreeMap::new(),
            starting: BTreeMap::new(),
            start_errors: BTreeMap::new(),
            retries: BTreeMap::new(),
            crash_loops: CrashLoops::new(crash_loop),
            restarts: BTreeSet::new(),
            restart_started: BTreeSet::new(),
            recovered: false,
            adopted: BTreeSet::new(),
            probes: ProbeResults::default(),
            counts: BTreeMap::new(),
            half_made: BTreeMap::new(),
            replacing: false,
            problems: BTreeMap::new(),
            waits: Vec::new(),
            ending: terminating::Ending::default(),
        }
    }

    /// Whether it has asked for a look at the runtime that has not come yet.
    pub fn awaits_a_look(&self) -> bool {
        self.asked
    }

    /// With what probes said before this machine was made (PAIN-16); of containers that are no more it is dropped.
    pub fn with_probes(self, probes: ProbeResults) -> Self {
        Self { probes, ..self }
    }

    /// How far the pod has come.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The newest desired pod; `None` for one that only the runtime knows.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        self.pod.as_ref()
    }

    /// The newest observation, with what the pod's own jobs have done since.
    pub fn observed(&self) -> Option<&Arc<RuntimePod>> {
        self.observed.as_ref()
    }

    /// Why containers did not start, by name: reason and message (upstream's reason cache, POD-40).
    pub fn start_errors(&self) -> &BTreeMap<String, StartError> {
        &self.start_errors
    }

    /// Whether the runtime can be worked with, and what it can do.
    pub fn health(&self) -> &RuntimeHealth {
        &self.health
    }

    /// Instances that were stopped to be started again.
    pub fn restarts(&self) -> &BTreeSet<ContainerId> {
        &self.restarts
    }

    /// What probes last said.
    pub fn probes(&self) -> &ProbeResults {
        &self.probes
    }

    /// The grace period in force; `None` while not terminating.
    pub fn grace(&self) -> Option<Duration> {
        self.grace
    }

    /// Instances that an earlier agent started, and that the runtime still holds.
    pub fn adopted(&self) -> &BTreeSet<ContainerId> {
        &self.adopted
    }

    /// What the pod waits for, one sentence each, newest decision.
    pub fn waits(&self) -> impl Iterator<Item = &str> {
        self.waits.iter().map(|(sentence, _)| sentence.as_str())
    }

    /// When something is due although nothing happens.
    pub fn wake_at(&self) -> Option<Steady> {
        self.waits.iter().filter_map(|(_, until)| *until).min()
    }

    /// Takes one input; says what to do about it, in order.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Action> {
        let mut actions = self.absorb(input, now);
        self.waits.clear();
        let doubt = self.resolve_absences(now);
        actions.extend(doubt.unwrap_or_else(|| match self.stage {
            Stage::Syncing => self.sync(now),
            Stage::Terminating => self.terminate(now),
            Stage::Terminated => self.clean_up(now),
        }));
        self.note_begun(&actions, now);
        self.let_go_of_emptied();
        actions
    }

    fn absorb(&mut self, input: Input, now: Now) -> Vec<Action> {
        match input {
            Input::Spec(pod) => self.take_spec(pod, now),
            Input::Removed { grace } => {
                self.removed = true;
                self.begin_termination(grace, now)
            }
            Input::Observed(seen) => {
                let is_newest = self.observed.as_ref().is_none_or(|known| seen.taken >= known.taken);
                if seen.taken >= self.fresh_after && is_newest {
                    let seen = self.with_absent(seen);
                    let ids: BTreeSet<&ContainerId> = seen.containers.iter().map(|container| &container.id).collect();
                    for results in [&mut self.probes.readiness, &mut self.probes.liveness, &mut self.probes.startup] {
                        results.retain(|id, _| ids.contains(id));
                    }
                    let is_gone = |job: &Job| matches!(job, Job::KillContainer(id) if !ids.contains(id));
                    self.retries.retain(|job, _| !is_gone(job));
                    self.problems.retain(|job, _| !is_gone(job));
                    self.half_made.retain(|id, _| ids.contains(id));
                    self.restarts.retain(|id| ids.contains(id));
                    self.adopted.retain(|id| ids.contains(id));
                    if self.observed.is_none() {
                        self.adopted = now.adopted(&seen);
                    }
                    // One that was only made may be removed and made again: that is no restart.
                    for container in seen.containers.iter().filter(|one| one.state != ContainerState::Created) {
                        let count = self.counts.entry(container.name.clone()).or_default();
                        *count = container.restart_count.max(*count);
                    }
                    self.observed = Some(seen);
                    self.asked = false;
                    self.unconfirmed = false;
                }
                vec![]
            }
            Input::Health(health) => {
                self.health = health;
                vec![]
            }
            Input::Probed { container, kind, healthy } => {
                let results = match kind {
                    ProbeKind::Readiness => &mut self.probes.readiness,
                    ProbeKind::Liveness => &mut self.probes.liveness,
                    ProbeKind::Startup => &mut self.probes.startup,
                };
                results.insert(container, healthy);
                vec![]
            }
            Input::Actuated(read) => {
                self.take_actuated(read);
                vec![]
            }
            Input::Ended(end) => {
                self.jobs.remove(&end.job());
                self.note_problems(&end);
                self.note_volumes(&end);
                self.absorb_end(end, now);
                vec![]
            }
            Input::Over if self.stage == Stage::Syncing => self.begin_termination(None, now),
            Input::Over => vec![],
            Input::Due => {
                self.asked = false; // An answer that has not come by now may never come.
                self.ending.say_again();
                vec![]
            }
        }
    }

    fn absorb_end(&mut self, end: JobEnd, now: Now) {
        let job = end.job();
        let failed = match end {
            JobEnd::Prepared(Ok(cgroup_made)) => {
                self.take_prepared(cgroup_made);
                None
            }
            JobEnd::VolumesMounted(outcome) => outcome.err().map(|failure| Some(failure.retry_after)),
            JobEnd::SandboxUp(Ok(sandbox)) => {
                self.inject_sandbox(sandbox, now);
                // One that cannot be used is made again, but not without a pause.
                if self.has_fit_sandbox() { None } else { Some(None) }
            }
            JobEnd::ImageEnsured(container, Ok(image)) => {
                self.images.insert(container, image);
                None
            }
            JobEnd::Started(container, Ok(started)) => {
                self.inject_container(&container, started, now);
                self.note_started(&container);
                None
            }
            JobEnd::Removed(Ok(())) | JobEnd::Reset(Ok(())) => {
                self.note_removal_ended(true);
                self.outdate(now);
                None
            }
            // Should it be seen running all the same, it is stopped again, but not without a pause.
            JobEnd::Killed(_, Ok(())) => {
                self.outdate(now);
                Some(None)
            }
            JobEnd::PodKilled(Ok(())) => {
                self.take_stopped(now);
                (self.stage == Stage::Terminating).then_some(None)
            }
            JobEnd::CleanedUp(Ok(())) => {
                self.ending.note_released();
                None
            }
            JobEnd::Confirmed(asked, Ok(found)) => {
                self.note_confirmed(&asked, &found);
                None
            }
            JobEnd::RemainsRemoved(remains, outcome) => self.note_removed(&remains, outcome.is_ok(), now).map(Some),
            JobEnd::ImageEnsured(container, Err(failure)) => {
                self.note_start_error(container, failure.reason, failure.message);
                Some(failure.retry_after)
            }
            JobEnd::Started(container, Err(failure)) => {
                self.outdate(now);
                self.note_start_failed(&container);
                self.images.remove(&container); // It may be what is wrong; upstream looks again at each try, too.
                self.note_start_error(container, failure.reason, failure.message);
                // One that ran and ended waits as others that end do, not as one that could not be tried.
                if failure.reason == POST_START_HOOK_ERROR { None } else { Some(None) }
            }
            JobEnd::Resized(report) => self.note_resized(report, now).then_some(None),
            JobEnd::PodKilled(Err(_)) => {
                self.outdate(now);
                self.stops.end(false);
                Some(None)
            }
            JobEnd::Removed(Err(_)) => {
                self.note_removal_ended(false);
                Some(None)
            }
            JobEnd::Reset(Err(_)) => {
                self.note_removal_ended(false);
                self.outdate(now);
                Some(None)
            }
            JobEnd::SandboxUp(Err(_)) | JobEnd::Killed(_, Err(_)) => {
                self.outdate(now);
                Some(None)
            }
            JobEnd::Prepared(Err(_)) | JobEnd::CleanedUp(Err(_)) | JobEnd::Confirmed(_, Err(_)) => Some(None),
        };
        self.note_retry(job, failed, now);
    }

    fn take_prepared(&mut self, cgroup_made: bool) {
        self.prepared = true;
        self.note_prepared(cgroup_made);
        // Containers that run outside the pod's cgroup are started again inside it (POD-10).
        if cgroup_made && self.observed.as_ref().is_some_and(|seen| seen.running().next().is_some()) {
            self.begin_replacement();
        }
    }

    fn take_stopped(&mut self, now: Now) {
        self.outdate(now);
        self.stops.end(true);
        self.cleared_for = Some(self.next_attempt());
        self.replacing = false;
        self.prepared = false; // Whatever took its sandbox may have taken its cgroup along (POD-13).
    }

    /// When the job may be tried again; a failure that names no wait has the usual one.
    fn note_retry(&mut self, job: Job, failed: Option<Option<Duration>>, now: Now) {
        match failed {
            Some(wait) => {
                let wait = wait.unwrap_or_else(|| ERROR_RETRY.mul_f64(1.0 + now.jitter / 2.0));
                self.retries.insert(job, now.uptime + wait);
            }
            None => {
                self.retries.remove(&job);
            }
        }
    }

    /// Whether the job may begin now; else notes the wait.
    fn may_begin(&mut self, job: &Job, now: Now, waiting_for: &str) -> bool {
        if self.jobs.contains(job) {
            self.waits.push((waiting_for.to_owned(), None));
            return false;
        }
        match self.retries.get(job) {
            Some(until) if *until > now.uptime => {
                self.waits.push((format!("{waiting_for}, to be tried again"), Some(Steady::at(*until))));
                false
            }
            _ => true,
        }
    }

    fn note_begun(&mut self, actions: &[Action], now: Now) {
        for action in actions {
            if let Some(sentence) = action.waited_for() {
                self.waits.push((sentence, None));
            }
            match action {
                Action::Prepare { .. } => self.note_preparing(),
                Action::StartContainer { start, .. } => {
                    let hash = self.hashes.get(&start.name).cloned().unwrap_or_default();
                    self.starting.insert(start.name.clone(), hash);
                    self.note_starting(&start.name);
                }
                Action::KillPod { grace, sandboxes, .. } => {
                    self.stops.begin(now.uptime.saturating_add(*grace), sandboxes);
                }
                Action::RemoveContainers(ids) => self.note_removing(ids.iter()),
                Action::ResetContainers(all) => self.note_removing(all.iter().map(|reset| &reset.id)),
                _ => {}
            }
            self.jobs.extend(action.job());
        }
    }
}
