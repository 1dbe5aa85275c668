//! When a pod is to end: stop it, see that it stopped, have its claims released, release its volumes and its cgroup, remove what
//! is left.
//!
//! The release ends the pod: then it may go from the API, and its name is free. The removal begins beside the release, and
//! holds up nobody: the worker goes on with it, however long it takes.

use std::time::Duration;

use super::PodLifecycle;
use super::action::Action;
use super::job::Job;
use super::now::Now;
use super::parts::course::{ORPHAN_GRACE, Stage};
use super::parts::desired::own_grace;
use crate::logic::model::time::Steady;
use crate::logic::pods::wait::Awaited;

impl PodLifecycle {
    /// Enters or hurries the termination. The grace period may shrink but not grow (POD-08). The pod's own counts only where
    /// none is in force yet (upstream's `calculateEffectiveGracePeriod`): a longer one may have been asked for.
    pub(super) fn begin_termination(&mut self, grace: Option<Duration>, now: Now) -> Vec<Action> {
        let own = || self.pod().map_or(ORPHAN_GRACE, |pod| own_grace(pod));
        let wanted = grace.or(self.course.grace()).unwrap_or_else(own);
        if self.course.shorten(wanted) {
            self.jobs.forgive(&Job::KillPod); // A shorter grace period does not wait for the next try.
        }
        if self.stage() != Stage::Syncing {
            return vec![];
        }
        self.course.enter(Stage::Terminating);
        self.jobs.forgive_all();
        let jobs = self.jobs.cancel_for_the_end();
        if !jobs.is_empty() {
            self.look_anew(now);
        }
        self.course.let_starts_end(now.uptime);
        jobs.into_iter().map(Action::Cancel).chain(self.jobs.starting().into_iter().map(Action::Leave)).collect()
    }

    /// The effects of a call that was cut off must be seen before they are stopped.
    pub(super) fn look_anew(&mut self, now: Now) {
        self.sight.forget();
        self.outdate(now);
    }

    /// Whether a start under way is to end first. One that the runtime does not answer holds up the rest for a while only.
    fn holds_for_starts(&mut self, actions: &mut Vec<Action>, now: Now) -> bool {
        if !self.jobs.starts_any() {
            return false;
        }
        let until = self.course.starts_until();
        if now.uptime < until {
            self.jobs.wait_until(Awaited::StartsBeforeEnd, Steady::at(until));
            return true;
        }
        actions.extend(self.jobs.cancel_starts().into_iter().map(Action::Cancel));
        self.look_anew(now);
        false
    }

    /// Stops what runs, until the runtime shows that nothing does.
    pub(super) fn terminate(&mut self, now: Now) -> Vec<Action> {
        debug_assert_eq!(self.stage(), Stage::Terminating, "only a pod that is to end is stopped for good");
        let grace = self.course.grace_or_least();
        let mut actions = vec![];
        if self.holds_for_starts(&mut actions, now) {
            return actions;
        }
        if self.jobs.has(&Job::KillPod) {
            self.jobs.wait(Awaited::StopWithin(grace));
            // A shorter grace period takes effect at once, unless the longer one is nearly over.
            if !self.stops.would_be_sooner(now.uptime.saturating_add(grace)) {
                return actions;
            }
            self.jobs.cancel(&Job::KillPod);
            actions.push(Action::Cancel(Job::KillPod));
        }
        let Some(seen) = self.sight.fresh().cloned() else {
            actions.extend(self.ask());
            return actions;
        };
        if self.stops.are_due(&seen) {
            actions.extend(self.kill_pod(&seen, grace, false, now));
            return actions;
        }
        // Before the API hears that the pod has ended: then its devices may be given to another one.
        if self.claims.are_held(self.desired.pod().map(AsRef::as_ref)) {
            let wait = self.jobs.with_problem(Awaited::ClaimsReleased, &Job::ReleaseClaims);
            let may_begin = self.jobs.may_begin(&Job::ReleaseClaims, now.uptime, wait);
            actions.extend(may_begin.then_some(Action::ReleaseClaims));
            return actions;
        }
        self.course.enter(Stage::Terminated);
        self.jobs.forgive_all();
        actions.extend(self.clean_up(now));
        actions
    }

    /// Once nothing runs: releases the volumes and the cgroup, and removes the rest when nobody wants to read it any more.
    pub(super) fn clean_up(&mut self, now: Now) -> Vec<Action> {
        debug_assert_eq!(self.stage(), Stage::Terminated, "volumes go after the containers that use them");
        // A call that was cut off may have taken effect after all.
        if let Some(seen) = self.sight.fresh().filter(|seen| self.stops.are_due(seen)).cloned() {
            self.ending.doubt_release();
            return self.kill_pod(&seen, self.course.grace_or_least(), false, now);
        }
        let mut actions = vec![];
        let release = self.jobs.with_problem(Awaited::Release, &Job::CleanUp);
        if !self.ending.is_released() && self.jobs.may_begin(&Job::CleanUp, now.uptime, release) {
            actions.push(Action::CleanUp);
        }
        if self.course.is_removed() {
            actions.extend(self.remove(now));
        }
        actions
    }

    /// Removes what nobody reads any more.
    fn remove(&mut self, now: Now) -> Vec<Action> {
        self.ending.begin_removal(now.uptime);
        let mut actions = vec![];
        if self.ending.is_to_say_over() {
            actions.push(Action::Over);
        }
        let Some(seen) = self.observed().cloned() else { return actions };
        let (remains, left) = self.ending.remains(&seen, now.moment, now.uptime);
        if let Some(left) = left {
            self.jobs.wait_until(Awaited::AgeOfDeadContainers, now.steady().plus(left));
        } else if self.ending.is_released() && remains.is_nothing() {
            return vec![Action::Finish];
        }
        let removal = self.jobs.with_problem(Awaited::Remains, &Job::Remove);
        if !remains.is_nothing() && self.jobs.may_begin(&Job::Remove, now.uptime, removal) {
            actions.push(Action::Remove(remains));
        }
        actions
    }
}
