//! A pod worker's jobs that stop containers: the hook first, then the turn among the others, then the runtime (CRI-19). One
//! of them has all containers gone without hooks, so that the pod starts over in place (POD-18).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use super::hooks::LateHook;
use super::problems::{failed, joined};
use super::site::{JobSite, field_path};
use crate::actors::kit::trace::Cause;
use crate::cri::CriError;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::ContainerId;
use crate::logic::pods::container_actions::ResetContainer;
use crate::logic::pods::hooks::{STOP_GRACE_MIN, left_of, named, stop_order};
use crate::logic::pods::pod_lifecycle::{JobEnd, StopSandbox};

/// The runtime's grace period for a container that gets no time: the least that it is ever given (POD-08).
const NO_GRACE: Duration = Duration::from_secs(2);
/// How long the end of a late hook is waited for once its container has ended.
const LATE_HOOK_END: Duration = Duration::from_secs(1);

/// A container to stop.
pub(in super::super) struct Stop {
    /// Which instance.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// For the Event `Killing`.
    pub message: String,
}

impl Stop {
    /// One that stops with its pod.
    pub fn with_pod(id: ContainerId, name: String) -> Self {
        let message = format!("Stopping container {name}");
        Self { id, name, message }
    }
}

/// How a pod's containers are stopped.
pub(in super::super) struct Kill {
    /// How long all has, hooks too.
    pub grace: Duration,
    /// Whether a new sandbox is to follow.
    pub replace: bool,
    /// The pod's address.
    pub address: Option<String>,
}

/// The containers that one waits for before it is asked to stop.
pub(super) struct Turn {
    before: Vec<watch::Receiver<bool>>,
    /// Told when this one has ended.
    ended: watch::Sender<bool>,
}

impl Turn {
    /// The turns of these containers, by name.
    fn of(pod: Option<&Pod>, stops: &[Stop]) -> BTreeMap<String, Self> {
        let running: BTreeSet<&str> = stops.iter().map(|stop| stop.name.as_str()).collect();
        let mut order = pod.map(|pod| stop_order(pod, &running)).unwrap_or_default();
        let ends: BTreeMap<&str, watch::Sender<bool>> =
            running.iter().map(|name| (*name, watch::Sender::new(false))).collect();
        let turn = |name: &&str| {
            let before = order.remove(*name).unwrap_or_default();
            let before = before.iter().map(|other| ends[other.as_str()].subscribe()).collect();
            ((*name).to_owned(), Self { before, ended: ends[*name].clone() })
        };
        running.iter().map(turn).collect()
    }

    /// Waits until those before have ended, but not for longer than `most`.
    async fn come(&self, most: Duration) {
        let all = join_all(self.before.iter().map(async |other| {
            // One whose end is never told is waited for until the time is over.
            let mut other = other.clone();
            if other.wait_for(|ended| *ended).await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        let _ = tokio::time::timeout(most, all).await;
    }
}

impl JobSite {
    /// Stops one container.
    pub(in super::super) async fn kill_container(
        self,
        pod: Option<Arc<Pod>>,
        stop: Stop,
        grace: Duration,
        address: Option<String>,
        cause: Cause,
    ) -> JobEnd {
        let stopped = self.stop_one(pod.as_deref(), &stop, grace, address.as_deref(), None, &cause).await;
        JobEnd::Killed(stop.id, stopped.map_err(|error| error.to_string()))
    }

    /// Stops all containers, each in its turn, then the sandboxes, whatever the containers said.
    pub(in super::super) async fn kill_pod(
        self,
        pod: Option<Arc<Pod>>,
        stops: Vec<Stop>,
        sandboxes: Vec<StopSandbox>,
        kill: Kill,
        cause: Cause,
    ) -> JobEnd {
        if kill.replace {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.tell(&cause, self.subject(String::new()).normal(EventReason::SandboxChanged, message));
        }
        let turns = Turn::of(pod.as_deref(), &stops);
        let all = stops.iter().map(async |stop| {
            let (turn, address) = (turns.get(&stop.name), kill.address.as_deref());
            let stopped = self.stop_one(pod.as_deref(), stop, kill.grace, address, turn, &cause).await;
            stopped.err().map(|error| failed("KillContainer", &stop.name, "KillContainerError", &error))
        });
        let mut problems: Vec<String> = join_all(all).await.into_iter().flatten().collect();
        for StopSandbox { id, may_fail } in &sandboxes {
            match self.tools.adapters.runtime.stop_pod_sandbox(id).await {
                Ok(()) => {}
                Err(error) if *may_fail => {
                    let uid = &self.uid;
                    tracing::warn!(pod = %uid, sandbox = %id, %error, "A sandbox from before the machine's boot stays");
                }
                Err(error) => {
                    problems.push(failed("KillPodSandbox", self.uid.as_str(), "KillPodSandboxError", &error));
                }
            }
        }
        JobEnd::PodKilled(joined(problems))
    }

    /// Stops and removes containers, one after the other in this order. Their logs stay, and no hook runs.
    pub(in super::super) async fn reset_containers(self, containers: Vec<ResetContainer>, cause: Cause) -> JobEnd {
        let runtime = &self.tools.adapters.runtime;
        for ResetContainer { id, name, kind, runs } in containers {
            if runs {
                self.tell(&cause, self.subject(field_path(kind, &name)).normal(EventReason::Killing, "killing"));
                if let Err(error) = runtime.stop_container(&id, NO_GRACE).await {
                    return JobEnd::Reset(Err(failed("RemoveContainer", &name, "KillContainerError", &error)));
                }
            }
            if let Err(error) = runtime.remove_container(&id).await {
                return JobEnd::Reset(Err(failed("RemoveContainer", &name, "RemoveContainerError", &error)));
            }
        }
        JobEnd::Reset(Ok(()))
    }

    /// Waits for the stop of the container that is under way already; says whether there was one and it went well. A stop
    /// that outlasts `grace` is not begun again: its hook has had its time.
    async fn joined(&self, id: &ContainerId, grace: Duration) -> bool {
        let Some(mut other) = self.stops.under_way(id) else { return false };
        match tokio::time::timeout(grace, other.wait_for(|well| *well)).await {
            Ok(ended) => ended.is_ok(),
            Err(_) => {
                self.stops.note(id, grace);
                false
            }
        }
    }

    /// Stops the container while its hook, where that is late, goes on: the hook's process ends with the container, not
    /// before (POD-23). Its end becomes known shortly after.
    async fn stop_beside(&self, late: Option<LateHook<'_>>, id: &ContainerId, grace: Duration) -> Result<(), CriError> {
        let stop = self.tools.adapters.runtime.stop_container(id, grace);
        let Some(mut hook) = late else { return stop.await };
        tokio::pin!(stop);
        tokio::select! {
            biased;
            () = &mut hook => stop.await,
            stopped = &mut stop => {
                if stopped.is_ok() {
                    // No answer to the hook's call is a failure of that call, and keeps nobody.
                    let _ = tokio::time::timeout(LATE_HOOK_END, hook).await;
                }
                stopped
            }
        }
    }

    /// Tells the Event, runs the hook, waits for the container's turn, stops it: all within `grace`, but that the runtime is
    /// given two seconds in any case. A stop that is under way already is waited for instead.
    pub(super) async fn stop_one(
        &self,
        pod: Option<&Pod>,
        stop: &Stop,
        grace: Duration,
        address: Option<&str>,
        turn: Option<&Turn>,
        cause: &Cause,
    ) -> Result<(), CriError> {
        if self.joined(&stop.id, grace).await {
            if let Some(turn) = turn {
                turn.ended.send_replace(true);
            }
            return Ok(());
        }
        let end = self.stops.begin(&stop.id);
        let subject = self.subject(self.path_of(pod, &stop.name));
        self.tell(cause, subject.normal(EventReason::Killing, stop.message.clone()));
        let (mut spent, mut late) = (self.stops.spent(&stop.id), None);
        if let (None, Some(container)) = (spent, pod.and_then(|pod| named(pod, &stop.name))) {
            let took;
            (took, late) = self.pre_stop(container, &stop.id, grace, address, &subject, cause).await;
            self.stops.note(&stop.id, took);
            spent = Some(took);
        }
        let mut left = left_of(grace, spent.unwrap_or_default());
        if let Some(turn) = turn {
            let clock = &self.tools.clock;
            let began = clock.uptime();
            turn.come(left).await;
            let waited = clock.uptime().saturating_sub(began);
            self.stops.note(&stop.id, spent.unwrap_or_default() + waited);
            left = left_of(left, waited);
        }
        self.stop_beside(late, &stop.id, left.max(STOP_GRACE_MIN)).await?;
        self.stops.forget(&stop.id);
        end.send_replace(true);
        if let Some(turn) = turn {
            turn.ended.send_replace(true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
