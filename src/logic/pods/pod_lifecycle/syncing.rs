//! While a pod is to run: the way from what is to what should be.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::PodLifecycle;
use super::action::{Action, StopSandbox};
use super::job::Job;
use super::now::Now;
use super::parts::course::Stage;
use super::parts::desired::own_grace;
use super::problems::progress;
use crate::logic::model::runtime_pod::{RuntimePod, RuntimeSandbox, SandboxState};
use crate::logic::pods::container_actions::{self, PlanInput, PodPlan, ResetContainer};
use crate::logic::pods::wait::Awaited;

/// Wait while pods have no network, before jitter.
pub(super) const NETWORK_RETRY: Duration = Duration::from_secs(1);

impl PodLifecycle {
    /// Decides what a pod needs that is to run.
    pub(super) fn sync(&mut self, now: Now) -> Vec<Action> {
        debug_assert_eq!(self.stage(), Stage::Syncing, "only a pod that is to run is synced");
        let Some(pod) = self.pod().cloned() else {
            return vec![]; // Known only from the runtime so far: the order to end it comes first.
        };
        if let Some(problem) = &self.health.runtime_problem {
            self.jobs.wait(Awaited::WellRuntime(problem.clone()));
            return vec![];
        }
        let Some(seen) = self.sight.fresh().cloned() else { return self.ask() };
        if let Some(busy) = self.jobs.stopping() {
            self.jobs.wait(busy);
            return vec![];
        }
        self.restarts.observe(&seen, now.clocks());
        self.restarts.recover(&pod, self.desired.hashes(), &seen, now.clocks());
        if self.replacement.is_due() {
            return self.kill_pod(&seen, own_grace(&pod), true, now);
        }
        let plan = container_actions::plan(&PlanInput {
            pod: &pod,
            runtime: &seen,
            hashes: self.desired.hashes(),
            probes: self.instances.probes(),
            crash_loops: self.restarts.crash_loops(),
            restarts: self.restarts.stopped(),
            resize: self.resizing.input(),
            now: now.clocks(),
        });
        if plan.kill_pod.is_some() && plan.create_sandbox.is_none() {
            let mut actions = self.begin_termination(None, now);
            actions.extend(self.terminate(now));
            return actions;
        }
        if !plan.reset.is_empty() {
            return self.reset(plan.reset, now);
        }
        self.note_back_offs(&plan);
        let mut actions = self.mount_volumes(now);
        actions.extend(self.follow(&pod, &seen, plan, now));
        for what in progress(&pod, &seen, &self.jobs, self.instances.probes()) {
            self.jobs.wait(what);
        }
        let is_done = actions.is_empty() && self.jobs.are_done();
        if is_done && self.sight.is_unconfirmed() { self.ask_for(Action::InspectSoon) } else { actions }
    }

    /// Has all containers gone, so that they start over.
    fn reset(&mut self, containers: Vec<ResetContainer>, now: Now) -> Vec<Action> {
        if self.jobs.makes_any() {
            self.jobs.wait(Awaited::StartsBeforeReset);
            return vec![];
        }
        if !self.jobs.may_begin(&Job::ResetContainers, now.uptime, Awaited::Reset) {
            return vec![];
        }
        self.starts.clear_errors();
        vec![Action::ResetContainers(containers)]
    }

    /// Carries out a plan as far as it goes now.
    fn follow(&mut self, pod: &Pod, seen: &RuntimePod, mut plan: PodPlan, now: Now) -> Vec<Action> {
        if plan.kill_pod.is_some() && self.replacement.cleared_for() != plan.create_sandbox {
            return self.kill_pod(seen, own_grace(pod), true, now);
        }
        if let Some(actions) = self.kill_containers(pod, &plan, now) {
            return actions;
        }
        let half_made = self.half_made(seen, &plan, now);
        if half_made.last_look {
            self.outdate(now);
            return self.ask();
        }
        Self::keep_startable(&mut plan, &half_made.names, seen);
        let mut actions = self.resize(seen, &plan, now);
        if !actions.is_empty() || self.jobs.has(&Job::Resize) {
            // The pod has its room before a container that needs more of it.
            plan.start.clear();
        }
        actions.extend(self.remove_dead(&plan, half_made.remove, now));
        if (plan.create_sandbox.is_some() || !plan.start.is_empty())
            && let Some(problem) = self.network_problem(pod)
        {
            let until = now.steady().plus(NETWORK_RETRY.mul_f64(1.0 + now.jitter / 2.0));
            self.jobs.wait_until(Awaited::Network(problem.clone()), until);
            actions.push(Action::NetworkNotReady(problem));
            return actions;
        }
        actions.extend(self.set_up(pod, seen, &plan, now));
        let sandbox = plan.create_sandbox.is_none().then(|| seen.sandbox().cloned()).flatten();
        actions.extend(self.advance_containers(pod, &plan, sandbox, now));
        actions
    }

    /// Makes the pod's cgroup and its sandbox, side by side as far as the cgroup admits that.
    fn set_up(&mut self, pod: &Pod, seen: &RuntimePod, plan: &PodPlan, now: Now) -> Vec<Action> {
        // No container was made, or none is left, so nobody saw to it that the cgroup is set: a runtime that puts a sandbox in
        // makes the folder alone, and a try that failed may have left it half set.
        let anew = seen.containers.is_empty() || self.replacement.cleared_for().is_some();
        let may_prepare = !self.cgroup.is_set() && self.jobs.may_begin(&Job::Prepare, now.uptime, Awaited::Cgroup);
        let admits_sandbox = self.cgroup.admits_sandbox(may_prepare || self.jobs.has(&Job::Prepare));
        let mut actions = vec![];
        // Init containers of the former sandbox go first: in the new one they would count as done.
        if let Some(attempt) = plan.create_sandbox
            && plan.remove.is_empty()
            && admits_sandbox
        {
            actions.extend(self.sandbox(pod, attempt, now));
        }
        actions.extend(may_prepare.then_some(Action::Prepare { anew }));
        actions
    }

    /// Makes the sandbox, once its claims of resources are prepared.
    fn sandbox(&mut self, pod: &Pod, attempt: u32, now: Now) -> Option<Action> {
        if self.claims.are_needed(pod, attempt) {
            let wait = self.jobs.with_problem(Awaited::Claims, &Job::PrepareClaims);
            let may_begin = self.jobs.may_begin(&Job::PrepareClaims, now.uptime, wait);
            return may_begin.then_some(Action::PrepareClaims { attempt });
        }
        let may_begin = self.jobs.may_begin(&Job::SetUpSandbox, now.uptime, Awaited::Sandbox);
        may_begin.then_some(Action::SetUpSandbox { attempt })
    }

    /// Side by side with sandbox and images, and of a pod that runs already, too: the agent may have been restarted.
    fn mount_volumes(&mut self, now: Now) -> Vec<Action> {
        if self.volumes.are_there() {
            return vec![];
        }
        let what = match self.jobs.problem_of(&Job::MountVolumes) {
            Some(_) => Awaited::Volumes,
            None => Awaited::VolumesMounted,
        };
        let wait = self.jobs.with_problem(what, &Job::MountVolumes);
        let may_begin = self.jobs.may_begin(&Job::MountVolumes, now.uptime, wait);
        if may_begin { vec![Action::MountVolumes] } else { vec![] }
    }

    /// Gives running containers, and the pod's cgroup, what the pod was given.
    fn resize(&mut self, seen: &RuntimePod, plan: &PodPlan, now: Now) -> Vec<Action> {
        if !self.cgroup.is_set() || plan.create_sandbox.is_some() {
            return vec![];
        }
        let Some(work) = self.resizing.due(self.desired.pod().map(AsRef::as_ref), seen, plan) else { return vec![] };
        let may_begin = self.jobs.may_begin(&Job::Resize, now.uptime, Awaited::Resize);
        if may_begin { vec![Action::Resize(work)] } else { vec![] }
    }

    fn network_problem(&self, pod: &Pod) -> Option<String> {
        let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
        if host_network { None } else { self.health.network_problem.clone() }
    }

    /// Kills everything of the pod, within this grace period; a new sandbox follows if it is to `replace`.
    pub(super) fn kill_pod(&mut self, seen: &RuntimePod, grace: Duration, replace: bool, now: Now) -> Vec<Action> {
        // A container that is being made must be there before it can be stopped; a look at it half made says little.
        if replace && self.jobs.makes_any() {
            self.jobs.wait(Awaited::StartsBeforeReplacement);
            return vec![];
        }
        if !self.jobs.may_begin(&Job::KillPod, now.uptime, Awaited::Stop) {
            return vec![];
        }
        let containers = seen.running().map(|container| (container.id.clone(), container.name.clone())).collect();
        let stop = |sandbox: &RuntimeSandbox| StopSandbox {
            id: sandbox.id.clone(),
            may_fail: sandbox.state != SandboxState::Ready && now.is_before_boot(sandbox.created_at),
        };
        let sandboxes = seen.sandboxes.iter().map(stop).collect();
        vec![Action::KillPod { containers, sandboxes, grace, replace }]
    }

    /// A job did something that only an observation from now on shows.
    pub(super) fn outdate(&mut self, now: Now) {
        self.sight.outdate(now.stamp);
    }
}
