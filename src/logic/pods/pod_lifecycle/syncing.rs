//! While a pod is to run: what brings it from what is to what should be.

use super::*;
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::runtime_pod::RuntimeContainer;
use crate::logic::pods::container_actions::{self, KillContainer, PlanInput, PodPlan, SandboxDecision};
use crate::logic::pods::container_hash::container_hash;
use crate::logic::pods::hooks::probe_grace;
use crate::logic::pods::pod_containers::{all_containers, find_container};

/// The hash by which a running container is known to be of this spec (CRI-15), by container name.
pub(super) fn expected_hashes(pod: &Pod) -> LiteMap<String, String> {
    all_containers(pod)
        .map(|(_, container)| {
            let image = container.image.as_deref().unwrap_or_default();
            (container.name.clone(), container_hash(&container.name, image))
        })
        .collect()
}

/// Whether nothing after the container may start while it cannot be started.
fn holds_up(pod: &Pod, start: &StartContainer) -> bool {
    let is_sidecar = || find_container(pod, &start.name).is_some_and(|(_, container)| is_sidecar(&container));
    start.kind == ContainerKind::Init && !is_sidecar()
}

/// What is known of containers that were made and never started.
#[derive(Default)]
struct HalfMade {
    /// Whose they are: nothing is made in their stead before they are gone.
    names: BTreeSet<String>,
    /// Those that go now.
    remove: Vec<ContainerId>,
    /// Some are to go, unless one more look shows that they run.
    last_look: bool,
}

impl PodLifecycle {
    /// With cgroups that are made by another than files.
    pub fn with_cgroup_driver(self, driver: CgroupDriver) -> Self {
        Self { driver, ..self }
    }

    /// Takes the newest desired pod. What was fetched for a container that is another now is of no use.
    ///
    /// A pod that is being deleted, or that its status says is over, ends (POD-07).
    pub(super) fn take_spec(&mut self, pod: Arc<Pod>, now: Now) -> Vec<Action> {
        let before = std::mem::replace(&mut self.hashes, expected_hashes(&pod));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let is_over = matches!(phase, Some("Failed" | "Succeeded")) || pod.metadata.deletion_timestamp.is_some();
        let seconds = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        self.note_used_volumes(&pod);
        self.retries.remove(&Job::Resize); // What could not be done may be another thing now.
        if self.pod.is_none() {
            self.recall_counts(&pod);
        }
        self.pod = Some(pod);
        let mut actions = vec![];
        for (name, _) in before.into_iter().filter(|(name, hash)| self.hashes.get(name) != Some(hash)) {
            self.images.remove(&name);
            let job = Job::EnsureImage(name);
            self.retries.remove(&job);
            if self.jobs.remove(&job) {
                actions.push(Action::Cancel(job));
            }
        }
        if is_over {
            actions.extend(self.begin_termination(seconds.map(Duration::from_secs), now));
        }
        actions
    }

    pub(super) fn sync(&mut self, now: Now) -> Vec<Action> {
        let Some(pod) = self.pod.clone() else {
            return vec![]; // Known only from the runtime so far: the order to end it comes first.
        };
        if let Some(problem) = &self.health.runtime_problem {
            self.waits.push((format!("the container runtime: {problem}"), None));
            return vec![];
        }
        if !self.is_fresh() {
            return self.ask();
        }
        if let Some(busy) = self.stopping_job() {
            self.waits.push((busy.to_owned(), None));
            return vec![];
        }
        let seen = self.observed.clone().expect("fresh, so there is one");
        self.crash_loops.observe(&seen, now.clocks());
        self.recover_crash_loops(&pod, &seen, now);
        if self.replacing {
            return self.kill_pod(&seen, self.own_grace(&pod), true, now);
        }
        let plan = container_actions::plan(&PlanInput {
            pod: &pod,
            runtime: &seen,
            hashes: &self.hashes,
            probes: &self.probes,
            crash_loops: &self.crash_loops,
            restarts: &self.restarts,
            resize: self.resize_input(),
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
        self.note_progress(&pod, &seen);
        let is_done = actions.is_empty() && self.jobs.is_empty();
        if is_done && self.unconfirmed { self.ask_for(Action::InspectSoon) } else { actions }
    }

    /// Has all containers gone, so that they start over.
    fn reset(&mut self, containers: Vec<ResetContainer>, now: Now) -> Vec<Action> {
        if self.jobs.iter().any(|job| matches!(job, Job::SetUpSandbox | Job::StartContainer(_))) {
            self.waits.push(("what is being started, before all starts over".to_owned(), None));
            return vec![];
        }
        if !self.may_begin(&Job::ResetContainers, now, "its containers to be removed, to start over") {
            return vec![];
        }
        self.start_errors.clear();
        vec![Action::ResetContainers(containers)]
    }

    fn follow(&mut self, pod: &Pod, seen: &RuntimePod, mut plan: PodPlan, now: Now) -> Vec<Action> {
        if plan.kill_pod.is_some() && self.cleared_for != plan.create_sandbox {
            return self.kill_pod(seen, self.own_grace(pod), true, now);
        }
        // A hook that still runs is not cut off by a restart.
        let (starting, kills): (Vec<_>, Vec<_>) =
            plan.kill.iter().partition(|kill| self.jobs.contains(&Job::StartContainer(kill.name.clone())));
        let wait =
            |kill: &&KillContainer| (format!("container {} to have started, before it is stopped", kill.name), None);
        self.waits.extend(starting.iter().map(wait));
        if let Some(kill) = kills.first() {
            let grace = probe_grace(pod, kill).unwrap_or_else(|| self.own_grace(pod));
            let job = Job::KillContainer(kill.id.clone());
            if !self.may_begin(&job, now, &self.with_problem("a container to stop", &job)) {
                return vec![];
            }
            let (id, name, message) = (kill.id.clone(), kill.name.clone(), kill.message.clone());
            // How it ends when it is stopped says nothing: it was decided by now that it comes back.
            let at_once = plan.start.iter().find(|start| start.name == name);
            if let Some(start) = at_once {
                self.crash_loops.note_stop(&name, id.clone(), start.ended);
            }
            if at_once.is_some() || plan.waiting.iter().any(|waiting| waiting.name == name) {
                self.restarts.insert(id.clone());
            }
            return vec![Action::KillContainer { id, name, message, grace }];
        }
        let half_made = self.half_made(seen, &plan, now);
        if half_made.last_look {
            self.outdate(now);
            return self.ask();
        }
        plan.start.retain(|start| !half_made.names.contains(&start.name) && !seen.runs(&start.name));
        let mut actions = self.resize(seen, &plan, now);
        if !actions.is_empty() || self.jobs.contains(&Job::Resize) {
            // The pod has its room before a container that needs more of it.
            plan.start.clear();
        }
        let dead: Vec<ContainerId> = plan.remove.iter().cloned().chain(half_made.remove).collect();
        let removal = self.with_problem("dead containers to be removed", &Job::RemoveContainers);
        if !dead.is_empty() && self.may_begin(&Job::RemoveContainers, now, &removal) {
            actions.push(Action::RemoveContainers(dead));
        }
        if (plan.create_sandbox.is_some() || !plan.start.is_empty())
            && let Some(problem) = self.network_problem(pod)
        {
            let until = now.steady().plus(NETWORK_RETRY.mul_f64(1.0 + now.jitter / 2.0));
            self.waits.push((format!("network is not ready: {problem}"), Some(until)));
            actions.push(Action::NetworkNotReady(problem));
            return actions;
        }
        // No container was made, or none is left, so nobody saw to it that the cgroup is set: a runtime that puts a sandbox in
        // makes the folder alone, and a try that failed may have left it half set.
        let prepare = Action::Prepare { anew: seen.containers.is_empty() || self.cleared_for.is_some() };
        let prepare = (!self.prepared && self.may_begin(&Job::Prepare, now, "the pod's cgroup")).then_some(prepare);
        // A sandbox uses nothing that a limit is for: it is set up while the cgroup is, and waits only for one that could
        // not be made. A slice, though, must be there before something is put in it: one that systemd then makes by
        // itself is stopped with the first when the node shuts down.
        let has_cgroup = match self.driver {
            CgroupDriver::Cgroupfs => self.prepared || prepare.is_some() || self.jobs.contains(&Job::Prepare),
            CgroupDriver::Systemd => self.prepared,
        };
        // Init containers of the former sandbox go first: in the new one they would count as done.
        if let Some(attempt) = plan.create_sandbox
            && plan.remove.is_empty()
            && has_cgroup
            && self.may_begin(&Job::SetUpSandbox, now, "the pod's sandbox and network")
        {
            actions.push(Action::SetUpSandbox { attempt });
        }
        actions.extend(prepare);
        let sandbox = plan.create_sandbox.is_none().then(|| seen.sandbox().cloned()).flatten();
        actions.extend(self.advance_containers(pod, &plan, sandbox, now));
        actions
    }

    /// Looks after instances that were made and never started, of containers that are to be made again. A start of theirs
    /// that nobody waits for any more may still come: it gets its time, and then must find nothing to start.
    fn half_made(&mut self, seen: &RuntimePod, plan: &PodPlan, now: Now) -> HalfMade {
        let home = plan.sandbox.as_ref();
        let mut found = HalfMade::default();
        let idle = plan.start.iter().filter(|start| !self.jobs.contains(&Job::StartContainer(start.name.clone())));
        let made = idle.flat_map(|start| seen.instances(&start.name));
        for made in made.filter(|made| made.state == ContainerState::Created) {
            found.names.insert(made.name.clone());
            // Nothing starts any more in a sandbox that is over.
            let wait = (home == Some(&made.sandbox_id)).then(|| now.uptime + HALF_MADE_AGE);
            let until = self.half_made.entry(made.id.clone()).or_insert(wait);
            match *until {
                None => found.remove.push(made.id.clone()),
                Some(due) if due > now.uptime => {
                    let sentence = format!("container {}, which was made, to start after all", made.name);
                    self.waits.push((sentence, Some(Steady::at(due))));
                }
                Some(_) => {
                    *until = None;
                    found.last_look = true;
                }
            }
        }
        found
    }

    /// Images side by side; containers one after the other, in the plan's order.
    fn advance_containers(
        &mut self,
        pod: &Pod,
        plan: &PodPlan,
        sandbox: Option<RuntimeSandbox>,
        now: Now,
    ) -> Vec<Action> {
        let mut actions = vec![];
        let mut turn_taken = self.jobs.iter().any(|job| matches!(job, Job::StartContainer(_)));
        for start in &plan.start {
            let name = &start.name;
            let job = Job::StartContainer(name.clone());
            if self.jobs.contains(&job) || self.retries.get(&job).is_some_and(|until| *until > now.uptime) {
                self.may_begin(&job, now, &format!("container {name} to start")); // Notes the wait.
                // A failed container does not hold up the next one; an init container that is to end does.
                turn_taken |= holds_up(pod, start);
                continue;
            }
            let Some(image) = self.images.get(name) else {
                let failed = self.retries.get(&Job::EnsureImage(name.clone())).is_some_and(|until| *until > now.uptime);
                if self.may_begin(&Job::EnsureImage(name.clone()), now, &format!("the image of container {name}")) {
                    actions.push(Action::EnsureImage { container: name.clone() });
                }
                turn_taken |= !failed || holds_up(pod, start);
                continue;
            };
            let has_all = self.prepared && self.has_its_volumes();
            if let (false, Some(sandbox), true) = (turn_taken, &sandbox, has_all) {
                let (image, sandbox) = (image.clone(), sandbox.clone());
                self.note_start(pod, start, now);
                let restart_count = start.restart_count.max(self.restart_count(name));
                let start = StartContainer { restart_count, ..start.clone() };
                actions.push(Action::StartContainer { start, sandbox, image });
            }
            turn_taken = true;
        }
        actions
    }

    /// Kills everything of the pod, by its own grace period, before a new sandbox.
    pub(super) fn kill_pod(&mut self, seen: &RuntimePod, grace: Duration, replace: bool, now: Now) -> Vec<Action> {
        // What is being made must be there before it can be stopped; a look at it half made says little.
        let makes = |job: &Job| matches!(job, Job::SetUpSandbox | Job::StartContainer(_));
        if replace && self.jobs.iter().any(makes) {
            self.waits.push(("what is being started, before all is replaced".to_owned(), None));
            return vec![];
        }
        if !self.may_begin(&Job::KillPod, now, "its containers to stop") {
            return vec![];
        }
        let containers = seen.running().map(|container| (container.id.clone(), container.name.clone())).collect();
        let sandboxes = seen.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
        vec![Action::KillPod { containers, sandboxes, grace, replace }]
    }

    /// The pod's own grace period, as for a kill that nobody asked for.
    pub(super) fn own_grace(&self, pod: &Pod) -> Duration {
        let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(2);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    pub(super) fn begin_replacement(&mut self) {
        self.cleared_for = None;
        self.replacing = true;
    }

    pub(super) fn next_attempt(&self) -> u32 {
        self.observed.as_ref().and_then(|seen| seen.sandbox()).map_or(0, |sandbox| sandbox.attempt.saturating_add(1))
    }

    pub(super) fn inject_sandbox(&mut self, sandbox: RuntimeSandbox, now: Now) {
        self.unconfirmed = true;
        self.amend(now, |seen| {
            // A look from before the job's end may have shown it already, unfinished.
            seen.sandboxes.retain(|other| other.id != sandbox.id);
            seen.sandboxes.insert(0, sandbox);
        });
    }

    /// Takes a started container for running until the runtime tells more.
    pub(super) fn inject_container(&mut self, name: &str, started: Started, now: Now) {
        let Started { id, restart_count, seen: shown } = started;
        self.unconfirmed = true;
        self.start_errors.remove(name);
        if self.restart_started.remove(name) {
            self.restarts.insert(id.clone());
        }
        let image = self.images.remove(name);
        let hash = self.starting.remove(name).unwrap_or_default();
        let Some(seen) = &self.observed else { return };
        let known = seen.containers.iter().find(|container| container.id == id);
        if known.is_some_and(|known| known.state != ContainerState::Created) {
            return; // A look from before the job's end knows more than that it was started.
        }
        let sandbox_id = seen.sandbox().map_or_else(|| SandboxId::from(""), |sandbox| sandbox.id.clone());
        let image_ref = image.map(|image| image.reference).unwrap_or_default();
        let container = shown.map(|shown| *shown).unwrap_or_else(|| RuntimeContainer {
            id,
            sandbox_id,
            name: name.to_owned(),
            restart_count,
            hash,
            stop_signal: None,
            state: ContainerState::Running,
            created_at: now.moment,
            started_at: now.moment,
            finished_at: Moment::EPOCH,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            image: image_ref.clone(),
            image_ref,
            log_path: String::new(),
            user: None,
            resources: None,
        });
        self.amend(now, |seen| {
            seen.containers.retain(|other| other.id != container.id);
            seen.containers.insert(0, container);
        });
        self.counts.insert(name.to_owned(), restart_count);
    }

    /// Adds what a job did to the observation. One that lacks what another job did still lacks it.
    pub(super) fn amend(&mut self, now: Now, change: impl FnOnce(&mut RuntimePod)) {
        let was_fresh = self.is_fresh();
        self.outdate(now);
        let Some(seen) = &self.observed else { return };
        let mut seen = RuntimePod::clone(seen);
        change(&mut seen);
        if was_fresh {
            seen.taken = now.stamp;
        }
        self.observed = Some(Arc::new(seen));
    }

    /// Takes over what the pod's status tells of restarts: instances that were removed, with their logs, before the agent
    /// was started are known from nowhere else.
    fn recall_counts(&mut self, pod: &Pod) {
        let Some(status) = &pod.status else { return };
        let told = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        for container in told {
            let states = [container.state.as_ref(), container.last_state.as_ref()];
            let has_run =
                states.into_iter().flatten().any(|state| state.running.is_some() || state.terminated.is_some());
            if container.restart_count > 0 || has_run {
                let count = self.counts.entry(container.name.clone()).or_default();
                *count = u32::try_from(container.restart_count).unwrap_or(0).max(*count);
            }
        }
    }

    /// Counts starts on, over instances that were removed, too: those of init containers go before a new sandbox.
    fn restart_count(&self, name: &str) -> u32 {
        self.counts.get(name).map_or(0, |count| count.saturating_add(1))
    }

    fn stopping_job(&self) -> Option<&'static str> {
        self.jobs.iter().find_map(|job| match job {
            Job::KillPod => Some("its containers to stop"),
            Job::KillContainer(_) => Some("a container to stop"),
            Job::ResetContainers => Some("its containers to be removed, to start over"),
            _ => None,
        })
    }

    fn network_problem(&self, pod: &Pod) -> Option<String> {
        let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
        if host_network { None } else { self.health.network_problem.clone() }
    }

    /// After a restart of the agent the back-off goes on from what the runtime still holds. Only then: later a container
    /// without an entry is one that changed, whose back-off starts over (POD-19).
    fn recover_crash_loops(&mut self, pod: &Pod, seen: &RuntimePod, now: Now) {
        if std::mem::replace(&mut self.recovered, true) {
            return;
        }
        for (_, container) in all_containers(pod) {
            let mut instances = seen.instances(&container.name);
            let same = |newest: &&RuntimeContainer| self.hashes.get(&container.name) == Some(&newest.hash);
            if let Some(newest) = instances.next().filter(same) {
                let previous_finished = instances.next().map(|instance| instance.finished_at);
                self.crash_loops.recover(&container, newest, previous_finished, now.clocks());
            }
        }
    }

    fn note_start(&mut self, pod: &Pod, start: &StartContainer, now: Now) {
        self.restart_started.remove(&start.name); // The start that it was about has failed: this one is new anyway.
        if let Some((_, container)) = find_container(pod, &start.name) {
            self.crash_loops.note_start(&container, start.ended, now.steady());
        }
    }

    /// Why a container is not started. What was not even tried says nothing about it.
    pub(super) fn note_start_error(&mut self, container: String, reason: &str, message: String) {
        if !reason.is_empty() {
            self.start_errors.insert(container, StartError { reason: reason.to_owned(), message });
        }
    }

    fn note_back_offs(&mut self, plan: &PodPlan) {
        for wait in &plan.waiting {
            // What is being started is made but does not run yet: it waits for nothing any more.
            if self.jobs.contains(&Job::StartContainer(wait.name.clone())) {
                continue;
            }
            self.note_start_error(wait.name.clone(), wait.reason, wait.message.clone());
            self.waits.push((wait.message.clone(), Some(wait.wait.until)));
        }
    }

    /// Whether the sandbox that the pod has can be used.
    pub fn has_fit_sandbox(&self) -> bool {
        let decision = |seen: &Arc<RuntimePod>| Some(container_actions::sandbox_decision(self.pod.as_ref()?, seen));
        matches!(self.observed.as_ref().and_then(decision), Some(SandboxDecision::Keep { .. }))
    }
}
