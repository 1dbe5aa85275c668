//! The actions that a pod's life asks for, as its worker carries them out: it begins a job, or tells another actor.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;

use super::jobs::{Given, Kill, Stop};
use super::{Begun, PodWorker};
use crate::actors::kit::context::Context;
use crate::actors::kit::deadline::{Deadline, LATE_AFTER};
use crate::logic::events::reasons::EventReason;
use crate::logic::pods::pod_lifecycle::{Action, Job, JobEnd, Stage};
use crate::messages::event_recorder::EventSubject;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::runtime::pleg::PlegMsg;

impl PodWorker {
    pub(super) fn perform_all(&mut self, actions: Vec<Action>, is_update: bool, context: &mut Context<PodWorkerMsg>) {
        let (uptime, stage) = (context.clock().uptime(), self.lifecycle.stage());
        // Before it knows the pod, and what is of it, a worker has nothing to be at.
        let is_informed = self.lifecycle.pod().is_some() && self.lifecycle.observed().is_some();
        let pass = match is_informed || stage != Stage::Syncing {
            true => self.passes.enter(&self.site, stage, is_update, uptime),
            false => tracing::Span::none(),
        };
        pass.in_scope(|| actions.into_iter().for_each(|action| self.perform(action, context)));
    }

    fn perform(&mut self, action: Action, context: &mut Context<PodWorkerMsg>) {
        let (to, uid) = (&self.site.tools.to, self.site.uid.clone());
        match action {
            Action::Cancel(job) => self.cancel(&job, context),
            Action::Leave(container) => self.leave(container),
            Action::Inspect => {
                let is_heard = context.try_tell(&to.pleg, PlegMsg::Inspect(uid));
                self.note_asked(is_heard);
            }
            Action::InspectSoon => {
                let known = self.lifecycle.observed().expect("what is to be confirmed is known");
                let is_heard = context.try_tell(&to.pleg, PlegMsg::InspectSoon(Arc::clone(known)));
                self.note_asked(is_heard);
            }
            Action::NetworkNotReady(problem) => self.tell_network(&problem, context),
            Action::Over => self.published.note(context.try_tell(&to.pod_manager, PodManagerMsg::PodOver(uid))),
            Action::Finish => {
                self.published.note(context.try_tell(&to.pod_manager, PodManagerMsg::WorkerFinished(uid)))
            }
            Action::KillContainer { .. } | Action::KillPod { .. } | Action::ResetContainers(_) => {
                self.begin_stop(action, context);
            }
            Action::ReleaseClaims => {
                let work = self.site.clone().release_claims(context.cause());
                self.begin(Job::ReleaseClaims, "release claims", work, context);
            }
            Action::RemoveContainers(_) | Action::Confirm(_) | Action::CleanUp | Action::Remove(_) => {
                self.begin_removal(action, context);
            }
            Action::Prepare { .. }
            | Action::MountVolumes
            | Action::PrepareClaims { .. }
            | Action::SetUpSandbox { .. }
            | Action::EnsureImage { .. }
            | Action::StartContainer { .. }
            | Action::Resize(_) => self.begin_start(action, context),
        }
    }

    /// Takes whether `Pleg` had room for the question. An unheard one is asked again by the next turn that needs the look,
    /// which comes soon.
    fn note_asked(&mut self, is_heard: bool) {
        self.published.note(is_heard);
        if !is_heard {
            self.lifecycle.look_refused();
        }
    }

    /// Begins a job that brings a wanted pod to run.
    fn begin_start(&mut self, action: Action, context: &mut Context<PodWorkerMsg>) {
        let (site, cause) = (self.site.clone(), context.cause());
        let pod: Arc<Pod> = self.lifecycle.pod().cloned().expect("only a wanted pod is started");
        match action {
            Action::Prepare { anew } => self.begin(Job::Prepare, "prepare", site.prepare(pod, anew, cause), context),
            Action::MountVolumes => {
                let work = site.mount_volumes(pod, context.address().subscriber(), cause);
                self.begin(Job::MountVolumes, "mount volumes", work, context);
            }
            Action::PrepareClaims { .. } => {
                self.begin(Job::PrepareClaims, "prepare claims", site.prepare_claims(pod, cause), context);
            }
            Action::SetUpSandbox { attempt } => {
                self.begin(Job::SetUpSandbox, "run sandbox", site.set_up_sandbox(pod, attempt, cause), context);
            }
            Action::EnsureImage { container } => {
                let job = Job::EnsureImage(container.clone());
                self.begin(job, "ensure image", site.ensure_image(pod, container, cause), context);
            }
            Action::StartContainer { start, sandbox, image } => {
                let job = Job::StartContainer(start.name.clone());
                let volumes = self.lifecycle.volumes().cloned().unwrap_or_default();
                let recursive_read_only = self.lifecycle.health().recursive_read_only.unwrap_or_default();
                let runtime = self.lifecycle.observed().cloned();
                let given = Given { image, volumes, recursive_read_only, runtime };
                let (leave, left) = oneshot::channel();
                let work = site.start_container(pod, start, sandbox, given, left, cause);
                self.begin(job, "start container", work, context);
                self.jobs.last_mut().expect("it has just begun").leave = Some(leave);
            }
            Action::Resize(work) => {
                self.resize.begin(context.clock().uptime());
                self.begin(Job::Resize, "resize", site.resize(pod, work, cause), context);
            }
            other => unreachable!("{other:?} does not start anything"),
        }
    }

    /// Begins a job that stops containers.
    fn begin_stop(&mut self, action: Action, context: &mut Context<PodWorkerMsg>) {
        let (site, pod, cause) = (self.site.clone(), self.lifecycle.pod().cloned(), context.cause());
        match action {
            Action::KillContainer { id, name, message, grace } => {
                let job = Job::KillContainer(id.clone());
                let work = site.kill_container(pod, Stop { id, name, message }, grace, self.address(), cause);
                self.begin_by(within(grace), (job, "stop container"), work, context);
            }
            Action::ResetContainers(containers) => {
                let work = site.reset_containers(containers, cause);
                self.begin(Job::ResetContainers, "start over", work, context);
            }
            Action::KillPod { containers, sandboxes, grace, replace } => {
                let stops = containers.into_iter().map(|(id, name)| Stop::with_pod(id, name)).collect();
                let address = self.address();
                let work = site.kill_pod(pod, stops, sandboxes, Kill { grace, replace, address }, cause);
                self.begin_by(within(grace), (Job::KillPod, "stop pod"), work, context);
            }
            other => unreachable!("{other:?} does not stop anything"),
        }
    }

    /// Begins a job that removes, or looks whether something is gone.
    fn begin_removal(&mut self, action: Action, context: &mut Context<PodWorkerMsg>) {
        let (site, known) = (self.site.clone(), self.lifecycle.observed().cloned());
        match action {
            Action::RemoveContainers(ids) => {
                self.begin(Job::RemoveContainers, "remove containers", site.remove_containers(known, ids), context);
            }
            Action::Confirm(absent) => self.begin(Job::Confirm, "confirm absence", site.confirm(absent), context),
            Action::CleanUp => {
                let pod = self.lifecycle.pod().cloned();
                self.begin(Job::CleanUp, "clean up", site.clean_up(pod, context.cause()), context);
            }
            Action::Remove(remains) => {
                self.begin(Job::Remove, "remove", site.remove_remains(known, remains), context);
            }
            other => unreachable!("{other:?} does not remove anything"),
        }
    }

    /// The pod's address, where the runtime knows one.
    fn address(&self) -> Option<String> {
        self.site.address_of(self.lifecycle.observed()?.sandbox()?)
    }

    fn begin(
        &mut self,
        job: Job,
        name: &'static str,
        work: impl Future<Output = JobEnd> + Send + 'static,
        context: &mut Context<PodWorkerMsg>,
    ) {
        self.begin_by(Deadline::of(name), (job, name), work, context);
    }

    fn begin_by(
        &mut self,
        deadline: Deadline,
        (job, name): (Job, &'static str),
        work: impl Future<Output = JobEnd> + Send + 'static,
        context: &mut Context<PodWorkerMsg>,
    ) {
        let about = match &job {
            Job::EnsureImage(container) | Job::StartContainer(container) => container.clone(),
            Job::KillContainer(id) => id.to_string(),
            _ => self.site.full_name.to_string(),
        };
        let lost = job.clone();
        let operation = context.start_by(deadline, (name, about), work, move |outcome| {
            PodWorkerMsg::JobEnded(outcome.unwrap_or_else(|loss| JobEnd::lost(lost, loss.to_string())))
        });
        self.jobs.push(Begun { job, operation, leave: None });
    }

    fn cancel(&mut self, job: &Job, context: &mut Context<PodWorkerMsg>) {
        let (ended, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|open| open.job == *job);
        self.jobs = open;
        for ended in ended {
            context.cancel(ended.operation);
        }
    }

    fn leave(&mut self, container: String) {
        let job = Job::StartContainer(container);
        let leave = self.jobs.iter_mut().find(|open| open.job == job).and_then(|open| open.leave.take());
        if let Some(leave) = leave {
            let _ = leave.send(()); // It may have ended by now.
        }
    }

    fn tell_network(&mut self, problem: &str, context: &Context<PodWorkerMsg>) {
        if self.told.misses_network() {
            let subject = EventSubject::pod(&self.site.uid, &self.site.full_name);
            let message = format!("network is not ready: {problem}");
            context.tell(&self.site.tools.to.event_recorder, subject.warning(EventReason::NetworkNotReady, message));
        }
    }
}

/// A stop is late some time after its grace period, which its pod chose.
fn within(grace: Duration) -> Deadline {
    Deadline::Late(grace.saturating_add(LATE_AFTER))
}
