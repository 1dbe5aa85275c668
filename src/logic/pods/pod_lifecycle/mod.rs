//! A pod's life on the node: syncing, terminating, terminated. The one place that says what happens next.
//!
//! Owned by the pod's `PodWorker`, which feeds it what was seen and carries out what it says. It is level-triggered: `step`
//! takes one input and then decides from the whole state, so an input lost is only time lost.
//!
//! [`parts`] keep the state: the newest desired pod, the newest observation, the jobs under way, and so on. The files here
//! combine them: `absorb` takes an input, `syncing` and `containers` bring a pod to run, `terminating` brings it to its end.
//!
//! Waits after a job are kept in uptime: a clock that is set back makes none longer. Those of crash loops are wall-clock
//! moments, because the runtime tells with those when a container ended.
//!
//! Starting is a graph: images and sandbox have no order among them. Containers keep upstream's order (POD-13, CRI-18).

mod absorb;
mod action;
mod containers;
mod demand;
mod demanding;
mod job;
mod now;
mod parts;
mod problems;
mod syncing;
mod terminating;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::backoff::BackoffPolicy;
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_health::RuntimeHealth;
use crate::logic::model::runtime_pod::{ProbeResults, RuntimePod};
use crate::logic::model::time::{Stamp, Steady};
use crate::logic::pods::pod_resize::{PodFigures, PodResources};
use crate::logic::pods::wait::{Awaited, Problem, StageWait};
use crate::logic::probes::probe_kind::ProbeKind;
use crate::logic::resources::cgroup_name::CgroupDriver;
use crate::logic::volumes::volume_states::MountedVolumes;
pub use action::{Action, StopSandbox};
pub use demand::{Demand, Demanded};
pub use job::{
    Absent, ClaimFailure, CleanUpFailure, Found, Job, JobEnd, Remains, SandboxFailure, StartFailure, Started,
};
pub use now::Now;
pub use parts::course::{ORPHAN_GRACE, Stage};
pub use parts::resizing::ResizeMeans;
pub use parts::starts::StartError;

/// An observation of a worker.
#[derive(Clone, Debug)]
pub enum Input {
    /// The newest desired pod.
    Spec(Arc<Pod>),
    /// Nobody wants the pod any more. A shorter grace period takes the place of a longer one, never the reverse.
    Removed {
        /// Time for the containers to end; `None` leaves the pod's own.
        grace: Option<Duration>,
    },
    /// The runtime's objects of the pod.
    Observed(Arc<RuntimePod>),
    /// Whether the runtime can be worked with.
    Health(RuntimeHealth),
    /// A probe's threshold was reached.
    Probed {
        /// Of which container.
        container: ContainerId,
        /// Which probe.
        kind: ProbeKind,
        /// The probe's result.
        healthy: bool,
    },
    /// The pod's resources as the runtime had them before this worker began.
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
    desired: parts::desired::Desired,
    course: parts::course::Course,
    sight: parts::sight::Sight,
    health: RuntimeHealth,
    jobs: parts::jobs::Jobs,
    cgroup: parts::cgroup::PodCgroup,
    claims: parts::claims::PodClaims,
    volumes: parts::volumes::PodVolumes,
    resizing: parts::resizing::Resizing,
    replacement: parts::stops::Replacement,
    starts: parts::starts::Starts,
    restarts: parts::restarts::Restarts,
    instances: parts::instances::Instances,
    stops: parts::stops::Stops,
    ending: parts::ending::Ending,
}

impl PodLifecycle {
    /// A pod of which nothing is known yet, whose crash-loop back-off follows `crash_loop`. Observations from before `born`
    /// are not looked at.
    pub fn new(crash_loop: BackoffPolicy, born: Stamp) -> Self {
        Self {
            desired: parts::desired::Desired::default(),
            course: parts::course::Course::default(),
            sight: parts::sight::Sight::new(born),
            health: RuntimeHealth::default(),
            jobs: parts::jobs::Jobs::default(),
            cgroup: parts::cgroup::PodCgroup::default(),
            claims: parts::claims::PodClaims::default(),
            volumes: parts::volumes::PodVolumes::default(),
            resizing: parts::resizing::Resizing::default(),
            replacement: parts::stops::Replacement::default(),
            starts: parts::starts::Starts::default(),
            restarts: parts::restarts::Restarts::new(crash_loop),
            instances: parts::instances::Instances::default(),
            stops: parts::stops::Stops::default(),
            ending: parts::ending::Ending::default(),
        }
    }

    /// With the results that probes had before this machine was made (PAIN-16). Those of containers that no longer exist are
    /// dropped.
    #[must_use]
    pub fn with_probes(mut self, probes: ProbeResults) -> Self {
        self.instances.recall_probes(probes);
        self
    }

    /// With cgroups that are made by another than files.
    #[must_use]
    pub fn with_cgroup_driver(mut self, driver: CgroupDriver) -> Self {
        self.cgroup.set_driver(driver);
        self
    }

    /// With how long dead containers of removed pods are kept.
    #[must_use]
    pub fn with_container_ttl(mut self, container_ttl: Duration) -> Self {
        self.ending.set_container_ttl(container_ttl);
        self
    }

    /// A pod whose resources may change while it runs.
    #[must_use]
    pub fn with_resizing(mut self, means: ResizeMeans) -> Self {
        self.resizing.allow(means);
        self
    }

    /// Whether it has asked for a look at the runtime that has not come yet.
    pub fn awaits_a_look(&self) -> bool {
        self.sight.is_awaited()
    }

    /// Nobody had room for the question for a look: none is on its way.
    pub fn look_refused(&mut self) {
        self.sight.ask_again();
    }

    /// How far the pod has come.
    pub fn stage(&self) -> Stage {
        self.course.stage()
    }

    /// The newest desired pod; `None` for one that only the runtime knows.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        self.desired.pod()
    }

    /// The newest observation, with what the pod's own jobs have done since.
    pub fn observed(&self) -> Option<&Arc<RuntimePod>> {
        self.sight.observed()
    }

    /// The same, once the runtime has answered about every instance that the pod's status named before this agent saw any. A
    /// status is made of it.
    pub fn settled(&self) -> Option<&Arc<RuntimePod>> {
        self.sight.observed().filter(|_| !self.sight.is_recalling())
    }

    /// Why containers did not start, by name: reason and message (upstream's reason cache, POD-40).
    pub fn start_errors(&self) -> &BTreeMap<String, StartError> {
        self.starts.errors()
    }

    /// Whether the runtime can be worked with, and what it can do.
    pub fn health(&self) -> &RuntimeHealth {
        &self.health
    }

    /// Instances that were stopped to be started again.
    pub fn restarts(&self) -> &BTreeSet<ContainerId> {
        self.restarts.stopped()
    }

    /// The last results of probes.
    pub fn probes(&self) -> &ProbeResults {
        self.instances.probes()
    }

    /// The grace period in force; `None` while not terminating.
    pub fn grace(&self) -> Option<Duration> {
        self.course.grace()
    }

    /// Instances that an earlier agent started, and that the runtime still holds.
    pub fn adopted(&self) -> &BTreeSet<ContainerId> {
        self.instances.adopted()
    }

    /// Where the pod's volumes are; `None` until all are there.
    pub fn volumes(&self) -> Option<&Arc<MountedVolumes>> {
        self.volumes.mounted()
    }

    /// Whether containers may be made as far as volumes are concerned.
    pub fn has_its_volumes(&self) -> bool {
        self.volumes.are_there()
    }

    /// The cause that kept the pod's volumes away, or from going, may be over: the next step asks again, whatever wait there was.
    pub fn volumes_changed(&mut self) {
        self.jobs.forgive(&Job::MountVolumes);
        self.jobs.forgive(&Job::CleanUp);
    }

    /// The pod's resources as the runtime was last told them; `None` until that is known.
    pub fn actuated(&self) -> Option<&PodResources> {
        self.resizing.actuated()
    }

    /// The figures of the pod's cgroup; `None` until they are known, or where there is none.
    pub fn pod_figures(&self) -> Option<&PodFigures> {
        self.resizing.figures()
    }

    /// Whether all that the pod was given is in force; `None` while that is not known.
    pub fn is_in_force(&self) -> Option<bool> {
        self.resizing.is_in_force(self.pod()?, self.observed()?)
    }

    /// Whether the pod may go from the API, and another take its name, whatever is left of it.
    pub fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// The failure that is tried again; `None` while all goes well.
    pub fn problem(&self) -> Option<Problem> {
        problems::problem(self.stage(), &self.jobs)
    }

    /// The pod's waits, by the newest decision.
    pub fn waits(&self) -> impl Iterator<Item = &StageWait> {
        self.jobs.waits()
    }

    /// When something is due although nothing happens.
    pub fn wake_at(&self) -> Option<Steady> {
        self.jobs.wake_at()
    }

    /// Takes one input; says what to do about it, in order.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Action> {
        let mut actions = self.absorb(input, now);
        self.jobs.forget_waits();
        let doubt = self.resolve_absences(now);
        actions.extend(doubt.unwrap_or_else(|| match self.stage() {
            Stage::Syncing => self.sync(now),
            Stage::Terminating => self.terminate(now),
            Stage::Terminated => self.clean_up(now),
        }));
        self.note_begun(&actions, now);
        self.jobs.shrink();
        self.starts.shrink();
        self.resizing.shrink();
        actions
    }

    /// Asks about what looks lacked before anything is decided; `None` when nothing is in doubt, or the runtime does not say:
    /// then all counts as it was known. Of an instance that this agent never saw nothing is known: a pod that is to run waits.
    fn resolve_absences(&mut self, now: Now) -> Option<Vec<Action>> {
        let doubted = self.sight.doubted().filter(|_| self.health.runtime_problem.is_none()).cloned()?;
        if self.jobs.has(&Job::Confirm) {
            self.jobs.wait(Awaited::Absence);
            return Some(vec![]);
        }
        let wait = self.jobs.with_problem(Awaited::Absence, &Job::Confirm);
        if self.jobs.may_begin(&Job::Confirm, now.uptime, wait) {
            return Some(vec![Action::Confirm(doubted)]);
        }
        (self.stage() == Stage::Syncing && self.sight.is_recalling()).then(Vec::new)
    }

    /// Asks for an observation, unless one is on its way.
    fn ask(&mut self) -> Vec<Action> {
        self.jobs.wait(Awaited::Look);
        self.ask_for(Action::Inspect)
    }

    /// The same, for a look that nothing waits for.
    fn ask_for(&mut self, look: Action) -> Vec<Action> {
        if self.sight.ask() { vec![look] } else { vec![] }
    }

    fn note_begun(&mut self, actions: &[Action], now: Now) {
        for action in actions {
            if let Some(what) = action.waited_for() {
                self.jobs.wait(what);
            }
            match action {
                Action::PrepareClaims { attempt } => self.claims.note_preparing(*attempt),
                Action::Prepare { .. } => self.resizing.note_preparing(self.desired.pod().map(AsRef::as_ref)),
                Action::StartContainer { start, .. } => {
                    debug_assert!(
                        self.sight.observed().is_some_and(|seen| !seen.runs(&start.name)),
                        "two instances of container {} never run side by side",
                        start.name
                    );
                    self.starts.begin(&start.name, self.desired.hash_of(&start.name));
                    self.resizing.note_starting(self.desired.pod().map(AsRef::as_ref), &start.name);
                }
                Action::KillPod { grace, sandboxes, .. } => {
                    let sandboxes = sandboxes.iter().map(|stop| stop.id.clone());
                    self.stops.begin(now.uptime.saturating_add(*grace), sandboxes);
                }
                Action::RemoveContainers(ids) => self.sight.note_removing(ids.iter()),
                Action::ResetContainers(all) => self.sight.note_removing(all.iter().map(|reset| &reset.id)),
                _ => {}
            }
            if let Some(job) = action.job() {
                self.jobs.begin(job);
            }
        }
    }
}
