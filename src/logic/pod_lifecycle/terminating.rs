//! When a pod is to end: stop it, see that it stopped, remove what is left.

use super::*;

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
            self.observed = None;
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

    /// Once nothing runs: gives back the cgroup, and everything else when nobody wants to read it any more.
    pub(super) fn clean_up(&mut self, now: Now) -> Vec<Action> {
        if self.finished {
            return vec![Action::Finish];
        }
        // A call that was cut off may have taken effect after all.
        if self.is_fresh()
            && let Some(seen) = self.observed.clone().filter(|seen| self.stops.are_due(seen))
        {
            return self.kill_pod(&seen, self.grace.unwrap_or(ORPHAN_GRACE), false, now);
        }
        if self.released || !self.may_begin(&Job::CleanUp, now, &self.remains()) {
            return vec![];
        }
        let seen = self.observed.as_ref().filter(|_| self.removed);
        let sandboxes = seen.iter().flat_map(|seen| &seen.sandboxes).map(|sandbox| sandbox.id.clone()).collect();
        let containers = seen.iter().flat_map(|seen| &seen.containers).map(|container| container.id.clone()).collect();
        vec![Action::CleanUp { sandboxes, containers, everything: self.removed }]
    }
}
