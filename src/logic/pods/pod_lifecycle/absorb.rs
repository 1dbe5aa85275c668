//! Changes of the state by an input, before anything is decided.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::action::Action;
use super::job::{Absent, Found, Job, JobEnd, Retry, SandboxFailure, StartFailure, Started};
use super::now::Now;
use super::parts::course::Stage;
use super::parts::desired::is_to_end;
use super::parts::stops::Replacement;
use super::{Input, PodLifecycle};
use crate::logic::images::image_policy::{ImageFailure, ImageInUse};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::{RuntimePod, RuntimeSandbox};
use crate::logic::model::start_reason::StartReason;
use crate::logic::pods::container_actions::{self, SandboxDecision};

impl PodLifecycle {
    /// Takes one input. Gives what it cancels: nothing else begins here.
    pub(super) fn absorb(&mut self, input: Input, now: Now) -> Vec<Action> {
        match input {
            Input::Spec(pod) => return self.take_spec(pod, now),
            Input::Removed { grace } => {
                self.course.remove();
                return self.begin_termination(grace, now);
            }
            Input::Over => return self.begin_termination(None, now),
            Input::Observed(seen) => self.take_look(seen, now),
            Input::Health(health) => {
                // Jobs that failed while the runtime was away may succeed now.
                if self.health.runtime_problem.is_some() && health.runtime_problem.is_none() {
                    self.jobs.forgive_all();
                }
                self.health = health;
            }
            Input::Probed { container, kind, healthy } => self.instances.note_probe(container, kind, healthy),
            Input::Actuated(read) => self.resizing.take_actuated(read),
            Input::Ended(end) => {
                self.jobs.end(&end);
                let job = end.job();
                let retry = self.take_end(end, now);
                self.jobs.retry(job, retry, now.uptime, now.jitter);
            }
            Input::Due => {
                self.sight.ask_again();
                self.ending.say_again();
            }
        }
        vec![]
    }

    fn take_look(&mut self, seen: Arc<RuntimePod>, now: Now) {
        let Some(look) = self.sight.take(seen, self.jobs.has(&Job::Confirm)) else { return };
        let seen = look.whole;
        let mut held: BTreeSet<ContainerId> = seen.containers.iter().map(|container| container.id.clone()).collect();
        held.extend(self.sight.doubted().into_iter().flat_map(|doubted| doubted.containers.keys().cloned()));
        self.jobs.keep_only(&held);
        self.starts.keep_only(&held);
        self.restarts.keep_only(&held);
        self.instances.keep_only(&held);
        if look.is_first {
            self.instances.adopt(now.adopted(&seen));
        }
        self.restarts.count_seen(&seen);
    }

    /// Takes what a job did; says when it may begin again.
    fn take_end(&mut self, end: JobEnd, now: Now) -> Retry {
        match end {
            JobEnd::Prepared(Ok(cgroup_made)) => self.take_prepared(cgroup_made),
            JobEnd::VolumesMounted(Ok(mounted)) => {
                self.volumes.take_mounted(&mounted, self.desired.pod().map(AsRef::as_ref));
                Retry::AtOnce
            }
            JobEnd::VolumesMounted(Err(failure)) => Retry::After(failure.retry_after),
            JobEnd::ClaimsPrepared(Ok(())) => {
                self.claims.note_prepared();
                Retry::AtOnce
            }
            JobEnd::ClaimsReleased(Ok(())) => {
                self.claims.note_released();
                Retry::AtOnce
            }
            JobEnd::ClaimsPrepared(Err(failure)) | JobEnd::ClaimsReleased(Err(failure)) => failure.retry(),
            JobEnd::SandboxUp(outcome) => self.take_sandbox(outcome, now),
            JobEnd::ImageEnsured(container, outcome) => self.take_image(container, outcome),
            JobEnd::Started(container, Ok(started)) => self.take_started(&container, started, now),
            JobEnd::Started(container, Err(failure)) => self.take_start_failure(container, failure, now),
            JobEnd::Left(_) => self.take_left(now),
            // Should it be seen running although it was stopped, it is stopped again, but not without a pause.
            JobEnd::Killed(..) => {
                self.outdate(now);
                Retry::Usual
            }
            JobEnd::Removed(Err(_)) => {
                self.sight.note_removal_ended(false);
                Retry::Usual
            }
            JobEnd::Removed(Ok(())) => self.take_removal(true, now),
            JobEnd::Reset(outcome) => self.take_removal(outcome.is_ok(), now),
            JobEnd::Resized(report) => {
                if report.changed {
                    self.outdate(now); // The status is to show what the runtime says of it.
                }
                if self.resizing.note_resized(report) { Retry::Usual } else { Retry::AtOnce }
            }
            JobEnd::PodKilled(outcome) => self.take_stop(outcome.is_ok(), now),
            JobEnd::Confirmed(asked, Ok(found)) => self.take_confirmed(&asked, &found, now),
            JobEnd::CleanedUp(Ok(())) => {
                self.ending.note_released();
                Retry::AtOnce
            }
            JobEnd::RemainsRemoved(remains, outcome) => {
                if outcome.is_ok() {
                    self.sight.amend(now.stamp, |seen| {
                        seen.containers.retain(|container| !remains.containers.contains(&container.id));
                        seen.sandboxes.retain(|sandbox| !remains.sandboxes.contains(&sandbox.id));
                    });
                }
                self.ending.note_removed(&remains, outcome.is_ok(), now.jitter)
            }
            JobEnd::CleanedUp(Err(failure)) => failure.retry(),
            JobEnd::Prepared(Err(_)) | JobEnd::Confirmed(_, Err(_)) => Retry::Usual,
        }
    }

    fn take_prepared(&mut self, cgroup_made: bool) -> Retry {
        self.cgroup.note_set();
        self.resizing.note_prepared(cgroup_made);
        // Containers that run outside the pod's cgroup are started again inside it (POD-10).
        if cgroup_made && self.observed().is_some_and(|seen| seen.running().next().is_some()) {
            self.replacement = Replacement::Due;
        }
        Retry::AtOnce
    }

    fn take_sandbox(&mut self, outcome: Result<RuntimeSandbox, SandboxFailure>, now: Now) -> Retry {
        let Ok(sandbox) = outcome else {
            self.outdate(now);
            return Retry::Usual;
        };
        self.sight.note_unconfirmed();
        self.sight.amend(now.stamp, |seen| {
            // A look from before the job's end may have shown it already, unfinished.
            seen.sandboxes.retain(|other| other.id != sandbox.id);
            seen.sandboxes.insert(0, sandbox);
        });
        // One that cannot be used is made again, but not without a pause.
        if self.has_fit_sandbox() { Retry::AtOnce } else { Retry::Usual }
    }

    fn take_image(&mut self, container: String, outcome: Result<ImageInUse, ImageFailure>) -> Retry {
        match outcome {
            Ok(image) => {
                self.starts.set_image(container, image);
                Retry::AtOnce
            }
            Err(failure) => {
                // An image that was not even tried says nothing about the container.
                if let Some(reason) = failure.reason {
                    self.starts.note_error(container, reason, failure.message);
                }
                failure.retry_after.map_or(Retry::Usual, Retry::After)
            }
        }
    }

    fn take_started(&mut self, container: &str, started: Started, now: Now) -> Retry {
        self.inject_container(container, started, now);
        self.resizing.note_started(container);
        Retry::AtOnce
    }

    /// How far the start had come, a look shows.
    fn take_left(&mut self, now: Now) -> Retry {
        self.look_anew(now);
        Retry::AtOnce
    }

    fn take_start_failure(&mut self, container: String, failure: StartFailure, now: Now) -> Retry {
        self.outdate(now);
        match failure.reason {
            // The runtime may have made and even started it, with what was noted before: an answer can be lost.
            StartReason::CreateContainerError | StartReason::RunContainerError | StartReason::PostStartHookError => {
                self.resizing.note_started(&container);
            }
            _ => self.resizing.note_start_failed(&container),
        }
        self.starts.forget_image(&container); // It may be what is wrong; upstream looks again at each try, too.
        self.starts.note_error(container, failure.reason, failure.message);
        // One that ran and ended waits as others that end do, not as one that could not be tried.
        if failure.reason == StartReason::PostStartHookError { Retry::AtOnce } else { Retry::Usual }
    }

    fn take_removal(&mut self, well: bool, now: Now) -> Retry {
        self.sight.note_removal_ended(well);
        self.outdate(now);
        if well { Retry::AtOnce } else { Retry::Usual }
    }

    fn take_stop(&mut self, well: bool, now: Now) -> Retry {
        self.outdate(now);
        self.stops.end(well);
        if !well {
            return Retry::Usual;
        }
        self.replacement = Replacement::ClearedFor(self.sight.next_attempt());
        self.cgroup.doubt(); // The loss of its sandbox may have taken its cgroup along (POD-13).
        if self.stage() == Stage::Terminating { Retry::Usual } else { Retry::AtOnce }
    }

    fn take_confirmed(&mut self, asked: &Absent, found: &Found, now: Now) -> Retry {
        let was_recalling = self.sight.is_recalling();
        self.sight.confirm(asked, found);
        // Nothing was started before the answer.
        if let Some(seen) = self.sight.observed().filter(|_| was_recalling) {
            self.instances.adopt(now.adopted(seen));
            self.restarts.count_seen(seen);
        }
        Retry::AtOnce
    }

    /// Takes the newest desired pod. An image that was fetched for a container that is another now is of no use.
    ///
    /// A pod that is being deleted, or that its status says is over, ends (POD-07).
    fn take_spec(&mut self, pod: Arc<Pod>, now: Now) -> Vec<Action> {
        let seconds = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        if self.volumes.take_pod(&pod) {
            self.jobs.forgive(&Job::MountVolumes);
        }
        self.jobs.forgive(&Job::Resize); // A resize that was not possible may be another one now.
        if self.pod().is_none() {
            self.restarts.recall_counts(&pod);
            self.sight.recall(told_instances(&pod));
        }
        let mut actions = vec![];
        for name in self.desired.take(Arc::clone(&pod)) {
            self.starts.forget_image(&name);
            let job = Job::EnsureImage(name);
            self.jobs.forgive(&job);
            if self.jobs.cancel(&job) {
                actions.push(Action::Cancel(job));
            }
        }
        if is_to_end(&pod) {
            actions.extend(self.begin_termination(seconds.map(Duration::from_secs), now));
        }
        actions
    }

    /// Whether the sandbox that the pod has can be used.
    pub fn has_fit_sandbox(&self) -> bool {
        let decision =
            self.pod().zip(self.observed()).map(|(pod, seen)| container_actions::sandbox_decision(pod, seen));
        matches!(decision, Some(SandboxDecision::Keep { .. }))
    }
}

/// The instances that a pod's status names, for which they are the current ones.
fn told_instances(pod: &Pod) -> impl Iterator<Item = ContainerId> {
    let of = |status: &PodStatus| -> Vec<ContainerId> {
        let told = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
        let all = told.into_iter().flatten().flatten();
        all.filter_map(|one| one.container_id.as_deref().filter(|id| !id.is_empty()).map(ContainerId::of_full))
            .collect()
    };
    pod.status.as_ref().map(of).unwrap_or_default().into_iter()
}
