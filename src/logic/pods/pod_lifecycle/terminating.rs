//! When a pod is to end: stop it, see that it stopped, release its volumes and its cgroup, remove what is left.
//!
//! The release ends the pod: then it may go from the API, and its name is free. The removal begins beside the release, and
//! holds up nobody: the worker goes on with it, however long it takes.

use super::*;
use crate::logic::model::runtime_pod::RuntimeContainer;

/// What a pod that has ended waits for first.
pub(super) const RELEASE: &str = "its volumes and its cgroup to be released";
/// What a pod leaves behind.
pub(super) const REMAINS: &str = "what is left of it to be removed";
/// The longest wait between tries to remove what is left, before jitter. The first is [`ERROR_RETRY`].
const REMOVAL_RETRY_MAX: Duration = Duration::from_secs(60);

/// What is left of a pod that has ended, to be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Sandboxes.
    pub sandboxes: Vec<SandboxId>,
    /// Containers.
    pub containers: Vec<ContainerId>,
    /// Whether the pod's directory is.
    pub directory: bool,
}

impl Remains {
    fn is_nothing(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty() && !self.directory
    }
}

/// How far a pod is of which nothing runs any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// For how long after their creation dead containers of removed pods are kept (`--minimum-container-ttl-duration`).
    container_ttl: Duration,
    /// Its volumes are unmounted and its cgroup is gone.
    released: bool,
    /// It was released and removed; and that was said.
    over: bool,
    said: bool,
    /// Since when it is to be removed, in uptime.
    since: Option<Duration>,
    directory_gone: bool,
    /// Tries to remove what is left that failed, one after the other.
    failures: u32,
    finished: bool,
}

impl Ending {
    pub(super) fn note_released(&mut self) {
        self.released = true;
    }

    /// A word that is lost is said again.
    pub(super) fn say_again(&mut self) {
        self.said = false;
    }

    /// How long a dead container is kept on; `None` when it may go. A clock that was set back makes that no longer.
    fn keeps(&self, container: &RuntimeContainer, now: Now) -> Option<Duration> {
        let by_age = self.container_ttl.saturating_sub(now.moment.since(container.created_at));
        let since = self.since.unwrap_or(now.uptime);
        let by_end = self.container_ttl.saturating_sub(now.uptime.saturating_sub(since));
        Some(by_age.min(by_end)).filter(|left| !left.is_zero())
    }
}

/// Stops of the whole pod: the one under way, and what the last one that went well was for.
#[derive(Clone, Debug, Default)]
pub(super) struct Stops {
    /// When the one under way is to be over, in uptime.
    until: Option<Duration>,
    /// The sandboxes that it is for.
    begun: Vec<SandboxId>,
    /// The sandboxes that the runtime said it has stopped.
    done: Vec<SandboxId>,
}

impl Stops {
    pub(super) fn begin(&mut self, until: Duration, sandboxes: &[SandboxId]) {
        (self.until, self.begun) = (Some(until), sandboxes.to_vec());
    }

    pub(super) fn end(&mut self, well: bool) {
        self.until = None;
        let sandboxes = std::mem::take(&mut self.begun);
        if well {
            self.done = sandboxes;
        }
    }

    /// Whether there is something to stop: what runs, and each sandbox until the runtime says that it has stopped it. One
    /// whose processes are gone may still have its network, which is given back by nothing else (CRI-19).
    fn are_due(&self, seen: &RuntimePod) -> bool {
        seen.is_alive() || seen.sandboxes.iter().any(|sandbox| !self.done.contains(&sandbox.id))
    }
}

impl PodLifecycle {
    /// Enters or hurries the termination. The grace period may shrink but not grow (POD-08).
    pub(super) fn begin_termination(&mut self, grace: Option<Duration>, now: Now) -> Vec<Action> {
        let own = self.pod.as_ref().map_or(ORPHAN_GRACE, |pod| self.own_grace(pod));
        let wanted = grace.unwrap_or(own).max(Duration::from_secs(1));
        if self.grace.is_none_or(|current| wanted < current) {
            self.grace = Some(wanted);
            self.retries.remove(&Job::KillPod); // A shorter grace period does not wait for the next try.
        }
        if self.stage != Stage::Syncing {
            return vec![];
        }
        self.stage = Stage::Terminating;
        self.retries.clear();
        // What stops already goes on: a hook that has begun is not to be run again, nor its time to be given twice.
        let stops = |job: &Job| matches!(job, Job::KillPod | Job::KillContainer(_));
        let jobs: Vec<Job> = self.jobs.iter().filter(|job| !stops(job)).cloned().collect();
        for job in &jobs {
            self.jobs.remove(job);
        }
        if !jobs.is_empty() {
            // What a cancelled call did in the runtime all the same must be seen before it is stopped.
            self.forget_observed();
            self.outdate(now);
        }
        jobs.into_iter().map(Action::Cancel).collect()
    }

    pub(super) fn terminate(&mut self, now: Now) -> Vec<Action> {
        let grace = self.grace.unwrap_or(ORPHAN_GRACE);
        let mut actions = vec![];
        if self.jobs.contains(&Job::KillPod) {
            self.waits.push((format!("its containers to stop, within {}s", grace.as_secs()), None));
            // A shorter grace period takes effect at once, unless the longer one is nearly over.
            let until = now.uptime.saturating_add(grace);
            if self.stops.until.is_none_or(|under_way| until >= under_way) {
                return actions;
            }
            self.jobs.remove(&Job::KillPod);
            actions.push(Action::Cancel(Job::KillPod));
        }
        if !self.is_fresh() {
            actions.extend(self.ask());
            return actions;
        }
        let seen = self.observed.clone().expect("fresh, so there is one");
        if self.stops.are_due(&seen) {
            actions.extend(self.kill_pod(&seen, grace, false, now));
            return actions;
        }
        self.stage = Stage::Terminated;
        self.retries.clear();
        actions.extend(self.clean_up(now));
        actions
    }

    /// Once nothing runs: releases the volumes and the cgroup, and removes the rest when nobody wants to read it any more.
    pub(super) fn clean_up(&mut self, now: Now) -> Vec<Action> {
        if self.ending.finished {
            return vec![Action::Finish];
        }
        // A call that was cut off may have taken effect after all.
        if self.is_fresh()
            && let Some(seen) = self.observed.clone().filter(|seen| self.stops.are_due(seen))
        {
            self.ending.released = false; // What was made late may have made the cgroup anew.
            return self.kill_pod(&seen, self.grace.unwrap_or(ORPHAN_GRACE), false, now);
        }
        let mut actions = vec![];
        if !self.ending.released && self.may_begin(&Job::CleanUp, now, &self.with_problem(RELEASE, &Job::CleanUp)) {
            actions.push(Action::CleanUp);
        }
        if self.removed {
            self.ending.over |= self.ending.released;
            actions.extend(self.remove(now));
        }
        actions
    }

    /// Whether the pod may go from the API, and another take its name, whatever is left of it.
    pub fn is_over(&self) -> bool {
        self.ending.over
    }

    /// With how long dead containers of removed pods are kept.
    #[must_use]
    pub fn with_container_ttl(mut self, container_ttl: Duration) -> Self {
        self.ending.container_ttl = container_ttl;
        self
    }

    /// Removes what nobody reads any more. Only the directory waits for the volumes that are in it.
    fn remove(&mut self, now: Now) -> Vec<Action> {
        self.ending.since.get_or_insert(now.uptime);
        let over = self.ending.over;
        let mut actions = vec![];
        if over && !std::mem::replace(&mut self.ending.said, true) {
            actions.push(Action::Over);
        }
        let Some(seen) = self.observed.clone() else { return actions };
        let (kept, due): (Vec<_>, Vec<_>) =
            seen.containers.iter().partition(|container| self.ending.keeps(container, now).is_some());
        let holds = |sandbox: &&RuntimeSandbox| kept.iter().any(|container| container.sandbox_id == sandbox.id);
        let remains = Remains {
            sandboxes: seen.sandboxes.iter().filter(|one| !holds(one)).map(|one| one.id.clone()).collect(),
            containers: due.into_iter().map(|container| container.id.clone()).collect(),
            directory: over && !self.ending.directory_gone,
        };
        if let Some(left) = kept.iter().filter_map(|container| self.ending.keeps(container, now)).min() {
            let until = now.steady().plus(left);
            self.waits.push(("its dead containers to be old enough to go".to_owned(), Some(until)));
        } else if self.ending.released && remains.is_nothing() {
            self.ending.finished = true;
            return vec![Action::Finish];
        }
        if !remains.is_nothing() && self.may_begin(&Job::Remove, now, &self.with_problem(REMAINS, &Job::Remove)) {
            actions.push(Action::Remove(remains));
        }
        actions
    }

    /// What was removed is no more, without a look; gives when to try again if something stays.
    pub(super) fn note_removed(&mut self, remains: &Remains, well: bool, now: Now) -> Option<Duration> {
        if !well {
            let wait = ERROR_RETRY.saturating_mul(1 << self.ending.failures.min(6)).min(REMOVAL_RETRY_MAX);
            self.ending.failures = self.ending.failures.saturating_add(1);
            return Some(wait.mul_f64(1.0 + now.jitter / 2.0));
        }
        self.ending.failures = 0;
        self.ending.directory_gone |= remains.directory;
        self.amend(now, |seen| {
            seen.containers.retain(|container| !remains.containers.contains(&container.id));
            seen.sandboxes.retain(|sandbox| !remains.sandboxes.contains(&sandbox.id));
        });
        None
    }
}
