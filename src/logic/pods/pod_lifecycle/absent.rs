//! What a look at the runtime lacks although the pod had it: a list may be old, or lack something.
//!
//! The sandbox or container counts as it was last known until the runtime, asked for it by its ID, says that there is none.
//! A list alone never leads to a second instance beside one that runs, nor to a second run of one that has ended.

use super::*;
use crate::logic::model::runtime_pod::RuntimeContainer;

/// What the pod waits for while the runtime is asked.
pub(super) const ABSENCE: &str = "the runtime to confirm that what its list lacks is gone";

/// Sandboxes and containers that a look lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Sandboxes.
    pub sandboxes: BTreeSet<SandboxId>,
    /// Containers, each with its sandbox, which a container's status does not tell.
    pub containers: BTreeMap<ContainerId, SandboxId>,
}

/// What the runtime has of them after all, as its answers show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sandboxes.
    pub sandboxes: Vec<RuntimeSandbox>,
    /// Containers.
    pub containers: Vec<RuntimeContainer>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Absences {
    /// To be asked about.
    doubted: Absent,
    /// A look has lacked something since the question under way began.
    is_renewed: bool,
    /// What was known when the observation was forgotten.
    before: Option<Arc<RuntimePod>>,
    /// Containers that the pod's own job removes: once that has gone well their absence is no surprise.
    removing: BTreeSet<ContainerId>,
}

impl Absent {
    fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }
}

impl PodLifecycle {
    /// Lets nothing be decided before the next look. What it lacks of what was known is still asked about.
    pub(super) fn forget_observed(&mut self) {
        self.absences.before = self.observed.take().or(self.absences.before.take());
        (self.absences.doubted, self.absences.removing) = (Absent::default(), BTreeSet::new());
    }

    pub(super) fn note_removing<'a>(&mut self, ids: impl Iterator<Item = &'a ContainerId>) {
        self.absences.removing = ids.cloned().collect();
    }

    /// What was to be removed is gone, as the runtime said; or some of it is not.
    pub(super) fn note_removal_ended(&mut self, well: bool) {
        let removed = std::mem::take(&mut self.absences.removing);
        if let Some(seen) = self.observed.as_mut().filter(|_| well) {
            Arc::make_mut(seen).containers.retain(|one| !removed.contains(&one.id));
        }
    }

    /// The look, with all that it lacks as it was last known.
    pub(super) fn with_absent(&mut self, seen: Arc<RuntimePod>) -> Arc<RuntimePod> {
        let before = self.absences.before.take();
        self.absences.doubted = Absent::default();
        self.absences.is_renewed = self.jobs.contains(&Job::Confirm);
        let Some(known) = self.observed.clone().or(before) else { return seen };
        let lacks_sandbox = |known: &&RuntimeSandbox| seen.sandboxes.iter().all(|one| one.id != known.id);
        let lacks_container = |known: &&RuntimeContainer| seen.containers.iter().all(|one| one.id != known.id);
        let sandboxes: Vec<_> = known.sandboxes.iter().filter(lacks_sandbox).cloned().collect();
        let containers: Vec<_> = known.containers.iter().filter(lacks_container).cloned().collect();
        if sandboxes.is_empty() && containers.is_empty() {
            return seen;
        }
        self.absences.doubted = Absent {
            sandboxes: sandboxes.iter().map(|one| one.id.clone()).collect(),
            containers: containers
                .iter()
                .filter(|one| !self.absences.removing.contains(&one.id))
                .map(|one| (one.id.clone(), one.sandbox_id.clone()))
                .collect(),
        };
        let mut whole = RuntimePod::clone(&seen);
        whole.sandboxes.extend(sandboxes);
        whole.containers.extend(containers);
        whole.put_newest_first();
        Arc::new(whole)
    }

    /// Asks about what was absent before anything is decided; `None` when nothing is in doubt, or the runtime does not say:
    /// then all counts as it was known.
    pub(super) fn resolve_absences(&mut self, now: Now) -> Option<Vec<Action>> {
        if self.absences.doubted.is_empty() || self.health.runtime_problem.is_some() {
            return None;
        }
        if self.jobs.contains(&Job::Confirm) {
            self.waits.push((ABSENCE.to_owned(), None));
            return Some(vec![]);
        }
        let wait = self.with_problem(ABSENCE, &Job::Confirm);
        self.may_begin(&Job::Confirm, now, &wait).then(|| vec![Action::Confirm(self.absences.doubted.clone())])
    }

    /// What the runtime denies is no more; the rest is as its answers show it. A look that showed it meanwhile knows better,
    /// and one that lacked it once more may be of a later time than the answer: that is asked about again.
    ///
    /// Nothing was done in the runtime, so looks that are on their way are as good as before.
    pub(super) fn note_confirmed(&mut self, asked: &Absent, found: &Found) {
        let Absences { doubted, is_renewed, .. } = &mut self.absences;
        let (is_renewed, doubts) = (std::mem::take(is_renewed), doubted.clone());
        let Some(seen) = &mut self.observed else { return };
        let seen = Arc::make_mut(seen);
        for id in asked.sandboxes.intersection(&doubts.sandboxes) {
            let found = found.sandboxes.iter().find(|one| one.id == *id);
            seen.sandboxes.retain(|one| one.id != *id);
            seen.sandboxes.extend(found.cloned());
            if !is_renewed || found.is_none() {
                doubted.sandboxes.remove(id);
            }
        }
        for id in asked.containers.keys().filter(|id| doubts.containers.contains_key(*id)) {
            let found = found.containers.iter().find(|one| one.id == *id);
            seen.containers.retain(|one| one.id != *id);
            seen.containers.extend(found.cloned());
            if !is_renewed || found.is_none() {
                doubted.containers.remove(id);
            }
        }
        seen.put_newest_first();
    }
}
