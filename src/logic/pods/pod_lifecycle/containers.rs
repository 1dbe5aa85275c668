//! Containers of a pod that is to run: their images side by side, their starts one after the other, and stops of single ones.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::PodLifecycle;
use super::action::Action;
use super::job::{Job, Started};
use super::now::Now;
use super::parts::desired::own_grace;
use super::parts::starts::HalfMade;
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::{
    ContainerProcess, ContainerState, RuntimeContainer, RuntimePod, RuntimeSandbox,
};
use crate::logic::model::time::{Moment, Steady};
use crate::logic::pods::container_actions::{KillContainer, PodPlan, StartContainer};
use crate::logic::pods::hooks::probe_grace;
use crate::logic::pods::wait::Awaited;

impl PodLifecycle {
    /// Stops single containers, one after the other; `None` when none is to be stopped now.
    pub(super) fn kill_containers(&mut self, pod: &Pod, plan: &PodPlan, now: Now) -> Option<Vec<Action>> {
        // A hook that still runs is not cut off by a restart.
        let (starting, kills): (Vec<&KillContainer>, Vec<_>) =
            plan.kill.iter().partition(|kill| self.jobs.starts(&kill.name));
        for kill in starting {
            self.jobs.wait(Awaited::StartBeforeStop(kill.name.clone()));
        }
        let kill = kills.first()?;
        let grace = probe_grace(pod, kill).unwrap_or_else(|| own_grace(pod));
        let job = Job::KillContainer(kill.id.clone());
        let stop = self.jobs.with_problem(Awaited::ContainerStop, &job);
        if !self.jobs.may_begin(&job, now.uptime, stop) {
            return Some(vec![]);
        }
        let (id, name, message) = (kill.id.clone(), kill.name.clone(), kill.message.clone());
        // How it ends when it is stopped says nothing: it was decided by now that it comes back.
        let at_once = plan.start.iter().find(|start| start.name == name);
        if let Some(start) = at_once {
            self.restarts.note_stop(&name, id.clone(), start.ended);
        }
        if at_once.is_some() || plan.waiting.iter().any(|waiting| waiting.name == name) {
            self.restarts.stop(id.clone());
        }
        Some(vec![Action::KillContainer { id, name, message, grace }])
    }

    /// Looks after instances that were made and never started, of containers that are to be made again.
    pub(super) fn half_made(&mut self, seen: &RuntimePod, plan: &PodPlan, now: Now) -> HalfMade {
        let idle = plan.start.iter().filter(|start| !self.jobs.starts(&start.name));
        let made = idle.flat_map(|start| seen.instances(&start.name));
        let made: Vec<&RuntimeContainer> = made.filter(|made| made.state == ContainerState::Created).collect();
        let found = self.starts.look_after_half_made(made.into_iter(), plan.sandbox.as_ref(), now.uptime);
        for (name, until) in &found.waits {
            self.jobs.wait_until(Awaited::LateStart(name.clone()), Steady::at(*until));
        }
        found
    }

    /// Removes dead containers, so that others are made in their stead.
    pub(super) fn remove_dead(&mut self, plan: &PodPlan, half_made: Vec<ContainerId>, now: Now) -> Option<Action> {
        let dead: Vec<ContainerId> = plan.remove.iter().cloned().chain(half_made).collect();
        let removal = self.jobs.with_problem(Awaited::DeadContainers, &Job::RemoveContainers);
        let may_begin = !dead.is_empty() && self.jobs.may_begin(&Job::RemoveContainers, now.uptime, removal);
        may_begin.then_some(Action::RemoveContainers(dead))
    }

    /// Images side by side; containers one after the other, in the plan's order. An init container that has yet to end is
    /// the plan's last: nothing starts after it, whether it fails or not (POD-20).
    pub(super) fn advance_containers(
        &mut self,
        pod: &Pod,
        plan: &PodPlan,
        sandbox: Option<RuntimeSandbox>,
        now: Now,
    ) -> Vec<Action> {
        let mut actions = vec![];
        let mut turn_taken = self.jobs.starts_any();
        for start in &plan.start {
            let name = &start.name;
            let job = Job::StartContainer(name.clone());
            if self.jobs.has(&job) || self.jobs.rests(&job, now.uptime) {
                // Notes the wait. A container that failed does not hold up the next one in the plan.
                self.jobs.may_begin(&job, now.uptime, Awaited::Start(name.clone()));
                continue;
            }
            let Some(image) = self.starts.image(name) else {
                let job = Job::EnsureImage(name.clone());
                let failed = self.jobs.rests(&job, now.uptime);
                if self.jobs.may_begin(&job, now.uptime, Awaited::Image(name.clone())) {
                    actions.push(Action::EnsureImage { container: name.clone() });
                }
                turn_taken |= !failed;
                continue;
            };
            let has_all = self.cgroup.is_set() && self.volumes.are_there();
            if let (false, Some(sandbox), true) = (turn_taken, &sandbox, has_all) {
                let (image, sandbox) = (image.clone(), sandbox.clone());
                self.restarts.note_start(pod, start, now.steady());
                let restart_count = start.restart_count.max(self.restarts.next_count(name));
                let start = StartContainer { restart_count, ..start.clone() };
                actions.push(Action::StartContainer { start, sandbox, image });
            }
            turn_taken = true;
        }
        actions
    }

    /// Takes a started container for running until the runtime tells more.
    pub(super) fn inject_container(&mut self, name: &str, started: Started, now: Now) {
        let Started { id, restart_count, seen: shown } = started;
        self.sight.note_unconfirmed();
        self.restarts.note_started(name, &id);
        let (image, hash) = self.starts.end(name);
        let Some(seen) = self.observed() else { return };
        let known = seen.containers.iter().find(|container| container.id == id);
        if known.is_some_and(|known| known.state != ContainerState::Created) {
            return; // A look from before the job's end knows more than that it was started.
        }
        let sandbox_id = seen.sandbox().map_or_else(|| SandboxId::from(""), |sandbox| sandbox.id.clone());
        let container = shown.map(|shown| *shown).unwrap_or_else(|| RuntimeContainer {
            id,
            sandbox_id,
            name: name.to_owned(),
            restart_count,
            hash,
            process: ContainerProcess::of_image(&image),
            state: ContainerState::Running,
            created_at: now.moment,
            started_at: now.moment,
            finished_at: Moment::EPOCH,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            log_path: String::new(),
            resources: None,
        });
        self.sight.amend(now.stamp, |seen| {
            seen.containers.retain(|other| other.id != container.id);
            seen.containers.insert(0, container);
        });
        self.restarts.set_count(name, restart_count);
    }

    /// Containers that rest between crashes say so in the pod's status.
    pub(super) fn note_back_offs(&mut self, plan: &PodPlan) {
        for wait in &plan.waiting {
            // One that is being started is made but does not run yet: it waits for nothing any more.
            if self.jobs.starts(&wait.name) {
                continue;
            }
            self.starts.note_error(wait.name.clone(), wait.reason, wait.message.to_string());
            self.jobs.wait_until(Awaited::Restart(wait.message.clone()), wait.wait.until);
        }
    }

    /// The names of containers that the plan starts and that nothing keeps from being made.
    pub(super) fn keep_startable(plan: &mut PodPlan, half_made: &BTreeSet<String>, seen: &RuntimePod) {
        plan.start.retain(|start| !half_made.contains(&start.name) && !seen.runs(&start.name));
    }
}
