//! Starts of containers over time: how often each was started, how long it rests between crashes, and which instances are
//! stopped only to be started again.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use litemap::LiteMap;

use crate::logic::model::backoff::{BackoffPolicy, CrashLoops};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod, SandboxState};
use crate::logic::model::time::{Clocks, Steady};
use crate::logic::pods::container_actions::StartContainer;
use crate::logic::pods::pod_containers::{all_containers, find_container};

/// See the module.
#[derive(Clone, Debug)]
pub struct Restarts {
    crash_loops: CrashLoops,
    /// Instances that are to be, or were, stopped to be started again.
    stopped: BTreeSet<ContainerId>,
    /// Containers that are to be stopped once their start under way has ended.
    after_start: BTreeSet<String>,
    recovered: bool,
    /// The highest restart count that was seen of each container, among instances that were started.
    counts: BTreeMap<String, u32>,
}

impl Restarts {
    /// Nothing was started yet; crash loops are slowed down by this policy.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self {
            crash_loops: CrashLoops::new(policy),
            stopped: BTreeSet::new(),
            after_start: BTreeSet::new(),
            recovered: false,
            counts: BTreeMap::new(),
        }
    }

    /// The rests between crashes.
    pub fn crash_loops(&self) -> &CrashLoops {
        &self.crash_loops
    }

    /// The same, for tests that set them.
    #[cfg(test)]
    pub fn crash_loops_mut(&mut self) -> &mut CrashLoops {
        &mut self.crash_loops
    }

    /// Instances that are to be, or were, stopped to be started again.
    pub fn stopped(&self) -> &BTreeSet<ContainerId> {
        &self.stopped
    }

    /// This instance is to be stopped to be started again.
    pub fn stop(&mut self, id: ContainerId) {
        self.stopped.insert(id);
    }

    /// The container is to be stopped once its start under way has ended.
    pub fn stop_after_start(&mut self, container: &str) {
        self.after_start.insert(container.to_owned());
    }

    /// The container ends because it is stopped: how it ends then says nothing about its health.
    pub fn note_stop(&mut self, container: &str, id: ContainerId, ended: Option<Steady>) {
        self.crash_loops.note_stop(container, id, ended);
    }

    /// The container begins to be started. A start that failed before needs no stop: this one is new anyway.
    pub fn note_start(&mut self, pod: &Pod, start: &StartContainer, now: Steady) {
        self.after_start.remove(&start.name);
        if let Some((_, container)) = find_container(pod, &start.name) {
            self.crash_loops.note_start(&container, start.ended, now);
        }
    }

    /// The container was started as this instance.
    pub fn note_started(&mut self, container: &str, id: &ContainerId) {
        if self.after_start.remove(container) {
            self.stopped.insert(id.clone());
        }
    }

    /// The container rests no longer, and its next rest is short again.
    pub fn forgive(&mut self, container: &str) {
        self.crash_loops.reset(container);
    }

    /// Places the ends that a look shows on the agent's own clock.
    pub fn observe(&mut self, seen: &RuntimePod, now: Clocks) {
        self.crash_loops.observe(seen, now);
    }

    /// After a restart of the agent the back-off goes on from what the runtime still holds. Only then: later a container
    /// without an entry is one that changed, whose back-off starts over (POD-19). And only in a sandbox that still runs:
    /// what ended with its sandbox, as when the machine lost its power, did not crash.
    pub fn recover(&mut self, pod: &Pod, hashes: &LiteMap<String, String>, seen: &RuntimePod, now: Clocks) {
        if std::mem::replace(&mut self.recovered, true) {
            return;
        }
        let Some(sandbox) = seen.sandbox().filter(|sandbox| sandbox.state == SandboxState::Ready) else { return };
        let is_in_it = |one: &RuntimeContainer| one.sandbox_id == sandbox.id || one.sandbox_id.as_str().is_empty();
        for (_, container) in all_containers(pod) {
            let mut instances = seen.instances(&container.name);
            let same = |newest: &&RuntimeContainer| hashes.get(&container.name) == Some(&newest.hash);
            let Some(newest) = instances.next().filter(same) else { continue };
            let previous = instances.next();
            if is_in_it(newest) && previous.is_none_or(is_in_it) {
                let previous_finished = previous.map(|instance| instance.finished_at);
                self.crash_loops.recover(&container, newest, previous_finished, now);
            }
        }
    }

    /// Takes over what the pod's status tells of restarts: instances that were removed, with their logs, before the agent
    /// was started are known from nowhere else.
    pub fn recall_counts(&mut self, pod: &Pod) {
        let Some(status) = &pod.status else { return };
        let told = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        for container in told {
            let states = [container.state.as_ref(), container.last_state.as_ref()];
            let has_run =
                states.into_iter().flatten().any(|state| state.running.is_some() || state.terminated.is_some());
            if container.restart_count > 0 || has_run {
                self.count(&container.name, u32::try_from(container.restart_count).unwrap_or(0));
            }
        }
    }

    /// Counts the instances of a look. One that was only made may be removed and made again: that is no restart.
    pub fn count_seen(&mut self, seen: &RuntimePod) {
        for container in seen.containers.iter().filter(|one| one.state != ContainerState::Created) {
            self.count(&container.name, container.restart_count);
        }
    }

    fn count(&mut self, container: &str, restart_count: u32) {
        let count = self.counts.entry(container.to_owned()).or_default();
        *count = restart_count.max(*count);
    }

    /// The container was started with this count.
    pub fn set_count(&mut self, container: &str, restart_count: u32) {
        self.counts.insert(container.to_owned(), restart_count);
    }

    /// Counts starts on, over instances that were removed, too: those of init containers go before a new sandbox.
    pub fn next_count(&self, container: &str) -> u32 {
        self.counts.get(container).map_or(0, |count| count.saturating_add(1))
    }

    /// Forgets instances that the runtime no longer holds.
    pub fn keep_only(&mut self, held: &BTreeSet<ContainerId>) {
        self.stopped.retain(|id| held.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::logic::model::ids::FullName;
    use crate::logic::model::time::Stamp;

    fn restarts() -> Restarts {
        Restarts::new(BackoffPolicy::crash_loop(Duration::from_secs(300)))
    }

    fn seen(state: ContainerState, restart_count: u32) -> RuntimePod {
        let mut seen = RuntimePod::empty("u".into(), FullName::new("web", "default"), Stamp(1));
        seen.containers = vec![RuntimeContainer { restart_count, ..RuntimeContainer::sample("c", "web", state) }];
        seen
    }

    #[test]
    fn counts_go_on_from_the_highest_that_was_seen() {
        let mut restarts = restarts();
        assert_eq!(restarts.next_count("web"), 0);
        restarts.count_seen(&seen(ContainerState::Created, 7));
        assert_eq!(restarts.next_count("web"), 0, "it was never started");
        restarts.count_seen(&seen(ContainerState::Exited, 3));
        restarts.count_seen(&seen(ContainerState::Running, 2));
        assert_eq!(restarts.next_count("web"), 4);
    }

    /// By the container's status in the API: its restart count and its state, and the count of the next instance.
    #[test]
    fn counts_of_instances_that_were_removed_come_from_the_status() {
        for (count, state, next) in [
            (0, serde_json::json!({ "waiting": {} }), 0),
            (0, serde_json::json!({ "running": {} }), 1),
            (2, serde_json::json!({ "waiting": {} }), 3),
            (2, serde_json::json!({ "terminated": { "exitCode": 1 } }), 3),
        ] {
            let status = serde_json::json!({
                "name": "web", "restartCount": count, "state": state, "image": "", "imageID": "", "ready": false,
            });
            let pod = serde_json::json!({ "metadata": {}, "status": { "containerStatuses": [status] } });
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            let mut restarts = restarts();
            restarts.recall_counts(&pod);
            assert_eq!(restarts.next_count("web"), next, "{count} restarts, {state}");
        }
    }

    #[test]
    fn a_restart_asked_for_during_a_start_concerns_the_instance_that_comes() {
        let mut restarts = restarts();
        restarts.stop_after_start("web");
        restarts.note_started("other", &"o".into());
        assert!(restarts.stopped().is_empty());
        restarts.note_started("web", &"w".into());
        restarts.note_started("web", &"x".into());
        assert_eq!(*restarts.stopped(), [ContainerId::from("w")].into(), "once");
        restarts.keep_only(&BTreeSet::new());
        assert!(restarts.stopped().is_empty());
    }
}
