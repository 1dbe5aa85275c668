//! When a pod is to end: stop it, see that it stopped, remove what is left.

use super::*;

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
        let jobs: Vec<Job> = self.jobs.iter().filter(|job| !matches!(job, Job::KillPod)).cloned().collect();
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
            let until = now.moment.plus(grace);
            if self.kill_until.is_none_or(|under_way| until >= under_way) {
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
        if seen.is_alive() {
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
            && let Some(seen) = self.observed.clone().filter(|seen| seen.is_alive())
        {
            return self.kill_pod(&seen, self.grace.unwrap_or(ORPHAN_GRACE), false, now);
        }
        let waiting_for = match &self.clean_up_problem {
            Some(problem) => format!("what is left of it to be removed: {problem}"),
            None => "what is left of it to be removed".to_owned(),
        };
        if self.released || !self.may_begin(&Job::CleanUp, now, &waiting_for) {
            return vec![];
        }
        let seen = self.observed.as_ref().filter(|_| self.removed);
        let sandboxes = seen.iter().flat_map(|seen| &seen.sandboxes).map(|sandbox| sandbox.id.clone()).collect();
        let containers = seen.iter().flat_map(|seen| &seen.containers).map(|container| container.id.clone()).collect();
        vec![Action::CleanUp { sandboxes, containers, everything: self.removed }]
    }
}
