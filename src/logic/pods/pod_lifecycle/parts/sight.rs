//! Sight of the pod in the runtime: the newest observation, whether it is new enough to decide by, and whether a look was
//! asked for.
//!
//! Each job that changed something in the runtime moves a mark. An observation from before the mark lacks something that the
//! pod's own jobs did, and nothing is decided by it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::absent::Absences;
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::pods::pod_lifecycle::job::{Absent, Found};

/// See the module.
#[derive(Clone, Debug)]
pub struct Sight {
    observed: Option<Arc<RuntimePod>>,
    absences: Absences,
    /// An observation older than this lacks something that this pod's own jobs did.
    fresh_after: Stamp,
    /// A fresh observation is worth asking for once nothing else is to be done.
    unconfirmed: bool,
    asked: bool,
}

/// A look that counts.
pub struct Look {
    /// The look, with what it lacks and was known before.
    pub whole: Arc<RuntimePod>,
    /// Nothing was known of the pod right before.
    pub is_first: bool,
}

impl Sight {
    /// Nothing was seen yet; observations from before `born` do not count.
    pub fn new(born: Stamp) -> Self {
        Self { observed: None, absences: Absences::default(), fresh_after: born, unconfirmed: false, asked: false }
    }

    /// The newest observation, with what the pod's own jobs have done since.
    pub fn observed(&self) -> Option<&Arc<RuntimePod>> {
        self.observed.as_ref()
    }

    /// The newest observation if it has all that this pod's own jobs did.
    pub fn fresh(&self) -> Option<&Arc<RuntimePod>> {
        self.observed.as_ref().filter(|seen| seen.taken >= self.fresh_after)
    }

    /// Takes an observation; `None` when it is older than the mark or than the one at hand. `is_asking` while the runtime is
    /// asked about what looks lacked.
    pub fn take(&mut self, seen: Arc<RuntimePod>, is_asking: bool) -> Option<Look> {
        let is_newest = self.observed.as_ref().is_none_or(|known| seen.taken >= known.taken);
        if seen.taken < self.fresh_after || !is_newest {
            return None;
        }
        let is_first = self.observed.is_none();
        let whole = self.absences.completed(seen, self.observed.clone(), is_asking);
        self.observed = Some(Arc::clone(&whole));
        self.asked = false;
        self.unconfirmed = false;
        Some(Look { whole, is_first })
    }

    /// A job did something that only an observation from now on shows. An answer on its way may be from before.
    pub fn outdate(&mut self, now: Stamp) {
        self.fresh_after = now;
        self.asked = false;
    }

    /// Adds what a job did to the observation. One that lacks what another job did still lacks it.
    pub fn amend(&mut self, now: Stamp, change: impl FnOnce(&mut RuntimePod)) {
        let was_fresh = self.fresh().is_some();
        self.outdate(now);
        let Some(seen) = &self.observed else { return };
        let mut seen = RuntimePod::clone(seen);
        change(&mut seen);
        if was_fresh {
            seen.taken = now;
        }
        self.observed = Some(Arc::new(seen));
    }

    /// Lets nothing be decided before the next look. Known objects that the look lacks are still asked about.
    pub fn forget(&mut self) {
        let known = self.observed.take();
        self.absences.remember(known);
    }

    /// Whether a look is to be asked for now: none is on its way. From now on one is.
    pub fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }

    /// Whether a look was asked for that has not come yet.
    pub fn is_awaited(&self) -> bool {
        self.asked
    }

    /// An answer that has not come by now may never come.
    pub fn ask_again(&mut self) {
        self.asked = false;
    }

    /// The observation holds facts of a job's answer that no look has confirmed yet.
    pub fn note_unconfirmed(&mut self) {
        self.unconfirmed = true;
    }

    /// Whether a look would confirm what is known from a job's answer alone.
    pub fn is_unconfirmed(&self) -> bool {
        self.unconfirmed
    }

    /// The pod's status, as it was before this agent made one, names these.
    pub fn recall(&mut self, told: impl Iterator<Item = ContainerId>) {
        self.absences.recall(told, self.observed.as_deref());
    }

    /// Whether what was seen may lack an instance that the pod's status named. No status may be made of it.
    pub fn is_recalling(&self) -> bool {
        self.absences.is_recalling()
    }

    /// The objects to ask the runtime about, by ID: looks lacked them.
    pub fn doubted(&self) -> Option<&Absent> {
        self.absences.doubted()
    }

    /// The runtime has answered. Nothing was done in it, so looks that are on their way are as good as before.
    pub fn confirm(&mut self, asked: &Absent, found: &Found) {
        self.absences.confirm(self.observed.as_mut().map(Arc::make_mut), asked, found);
    }

    /// A job begins to remove these containers.
    pub fn note_removing<'a>(&mut self, ids: impl Iterator<Item = &'a ContainerId>) {
        self.absences.note_removing(ids);
    }

    /// The containers that were to be removed are gone, as the runtime said; or some of them are not.
    pub fn note_removal_ended(&mut self, well: bool) {
        let removed: BTreeSet<ContainerId> = self.absences.removal_ended();
        if let Some(seen) = self.observed.as_mut().filter(|_| well) {
            Arc::make_mut(seen).containers.retain(|one| !removed.contains(&one.id));
        }
    }

    /// The attempt of the sandbox that would be made next.
    pub fn next_attempt(&self) -> u32 {
        self.observed.as_ref().and_then(|seen| seen.sandbox()).map_or(0, |sandbox| sandbox.attempt.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::FullName;

    fn look(taken: u64) -> Arc<RuntimePod> {
        Arc::new(RuntimePod::empty("u".into(), FullName::new("web", "default"), Stamp(taken)))
    }

    fn taken(sight: &Sight) -> Option<u64> {
        sight.observed().map(|seen| seen.taken.0)
    }

    #[test]
    fn an_old_look_never_takes_the_place_of_a_newer_one() {
        let mut sight = Sight::new(Stamp(5));
        for (stamp, counts, at_hand) in [(4, false, None), (7, true, Some(7)), (6, false, Some(7)), (7, true, Some(7))]
        {
            assert_eq!(sight.take(look(stamp), false).is_some(), counts, "taken at {stamp}");
            assert_eq!(taken(&sight), at_hand, "after {stamp}");
        }
    }

    #[test]
    fn a_job_outdates_the_look_and_the_question() {
        let mut sight = Sight::new(Stamp(1));
        sight.take(look(2), false);
        assert!(sight.fresh().is_some() && sight.ask() && !sight.ask());
        sight.outdate(Stamp(9));
        assert!(sight.fresh().is_none() && sight.ask(), "the answer on its way may be from before");
        assert!(sight.take(look(8), false).is_none());
        assert!(sight.take(look(9), false).is_some_and(|look| !look.is_first) && !sight.is_awaited());
    }

    #[test]
    fn what_a_job_did_is_seen_at_once_and_makes_no_old_look_fresh() {
        let mut sight = Sight::new(Stamp(1));
        sight.take(look(2), false);
        sight.amend(Stamp(5), |_| {});
        assert_eq!((sight.fresh().is_some(), taken(&sight)), (true, Some(5)));
        sight.outdate(Stamp(6));
        sight.amend(Stamp(8), |_| {});
        assert_eq!((sight.fresh().is_some(), taken(&sight)), (false, Some(5)), "it lacks what another job did");
    }

    #[test]
    fn the_look_after_a_forgotten_one_is_a_first_one() {
        let mut sight = Sight::new(Stamp(1));
        assert!(sight.take(look(2), false).is_some_and(|look| look.is_first));
        sight.forget();
        assert!(sight.take(look(3), false).is_some_and(|look| look.is_first));
    }
}
