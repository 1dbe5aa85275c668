//! Objects that a look at the runtime lacks although the pod had them: a list may be old, or incomplete.
//!
//! The sandbox or container counts as it was last known until the runtime, asked for it by its ID, says that there is none.
//! A list alone never leads to a second instance beside one that runs, nor to a second run of one that has ended. A new agent
//! knows from the pod's status which instances there were. It makes no new status before the runtime has answered about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::{RuntimeContainer, RuntimePod, RuntimeSandbox};
use crate::logic::pods::pod_lifecycle::job::{Absent, Found};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Absences {
    /// To be asked about.
    doubted: Absent,
    /// A look has lacked something since the question under way began.
    is_renewed: bool,
    /// The knowledge when the observation was forgotten.
    before: Option<Arc<RuntimePod>>,
    /// Containers that the pod's own job removes: once that has gone well their absence is no surprise.
    removing: BTreeSet<ContainerId>,
    /// Instances that the pod's status named before this agent saw any, and that neither a look nor an answer has settled.
    recalled: BTreeSet<ContainerId>,
}

impl Absences {
    /// The pod had these when somebody last told of it. A look from before, `seen`, may lack some of them.
    pub fn recall(&mut self, told: impl Iterator<Item = ContainerId>, seen: Option<&RuntimePod>) {
        self.recalled = told.collect();
        if let Some(seen) = seen {
            self.doubt_recalled(seen);
        }
    }

    /// Whether the runtime is still to be asked about an instance that the status named.
    pub fn is_recalling(&self) -> bool {
        !self.recalled.is_empty()
    }

    /// The observation was forgotten. Of the next look it is still asked about what that lacks.
    pub fn remember(&mut self, known: Option<Arc<RuntimePod>>) {
        self.before = known.or(self.before.take());
        (self.doubted, self.removing) = (Absent::default(), BTreeSet::new());
    }

    /// A job of the pod's own begins to remove these.
    pub fn note_removing<'a>(&mut self, ids: impl Iterator<Item = &'a ContainerId>) {
        self.removing = ids.cloned().collect();
    }

    /// That job has ended; gives what it was to remove.
    pub fn removal_ended(&mut self) -> BTreeSet<ContainerId> {
        std::mem::take(&mut self.removing)
    }

    /// The objects to ask about; `None` when nothing is in doubt.
    pub fn doubted(&self) -> Option<&Absent> {
        Some(&self.doubted).filter(|doubted| !doubted.is_empty())
    }

    /// The look, with all that it lacks of what was `known`, as it was last known. `is_asking` while a question is under way.
    pub fn completed(
        &mut self,
        seen: Arc<RuntimePod>,
        known: Option<Arc<RuntimePod>>,
        is_asking: bool,
    ) -> Arc<RuntimePod> {
        let before = self.before.take();
        self.doubted = Absent::default();
        self.is_renewed = is_asking;
        self.doubt_recalled(&seen);
        let Some(known) = known.or(before) else { return seen };
        let lacks_sandbox = |known: &&RuntimeSandbox| seen.sandboxes.iter().all(|one| one.id != known.id);
        let lacks_container = |known: &&RuntimeContainer| seen.containers.iter().all(|one| one.id != known.id);
        let sandboxes: Vec<_> = known.sandboxes.iter().filter(lacks_sandbox).cloned().collect();
        let containers: Vec<_> = known.containers.iter().filter(lacks_container).cloned().collect();
        if sandboxes.is_empty() && containers.is_empty() {
            return seen;
        }
        self.doubted.sandboxes = sandboxes.iter().map(|one| one.id.clone()).collect();
        let unexpected = containers.iter().filter(|one| !self.removing.contains(&one.id));
        self.doubted.containers.extend(unexpected.map(|one| (one.id.clone(), one.sandbox_id.clone())));
        let mut whole = RuntimePod::clone(&seen);
        whole.sandboxes.extend(sandboxes);
        whole.containers.extend(containers);
        whole.put_newest_first();
        Arc::new(whole)
    }

    /// Doubts the recalled instances that the look lacks. Nobody says in which sandbox they are: the newest is the likely one.
    fn doubt_recalled(&mut self, seen: &RuntimePod) {
        self.recalled.retain(|id| seen.containers.iter().all(|one| one.id != *id));
        let sandbox = seen.sandbox().map_or_else(|| SandboxId::from(""), |sandbox| sandbox.id.clone());
        self.doubted.containers.extend(self.recalled.iter().map(|id| (id.clone(), sandbox.clone())));
    }

    /// The runtime has answered: what it denies goes from `seen`, the rest is as its answers show it. A look that showed it
    /// meanwhile knows better, and one that lacked it once more may be of a later time than the answer: that is asked about
    /// again.
    pub fn confirm(&mut self, seen: Option<&mut RuntimePod>, asked: &Absent, found: &Found) {
        let Some(seen) = seen else {
            self.is_renewed = false;
            return;
        };
        self.recalled.retain(|id| !asked.containers.contains_key(id));
        let Self { doubted, is_renewed, .. } = self;
        let (is_renewed, doubts) = (std::mem::take(is_renewed), doubted.clone());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::FullName;
    use crate::logic::model::runtime_pod::ContainerState;
    use crate::logic::model::time::Stamp;

    fn look(containers: &[&str]) -> Arc<RuntimePod> {
        let mut seen = RuntimePod::empty("u".into(), FullName::new("web", "default"), Stamp(1));
        seen.containers =
            containers.iter().map(|id| RuntimeContainer::sample(id, id, ContainerState::Running)).collect();
        Arc::new(seen)
    }

    fn ids(seen: &RuntimePod) -> Vec<&str> {
        seen.containers.iter().map(|one| one.id.as_str()).collect()
    }

    #[test]
    fn what_a_look_lacks_counts_until_the_runtime_denies_it() {
        let mut absences = Absences::default();
        let mut whole = absences.completed(look(&["a"]), Some(look(&["a", "b", "c"])), false);
        assert_eq!(ids(&whole).len(), 3);
        let doubted = absences.doubted().cloned().expect("b and c are in doubt");
        assert_eq!(doubted.containers.keys().map(ContainerId::as_str).collect::<Vec<_>>(), ["b", "c"]);
        let found = Found { containers: look(&["c"]).containers.clone(), ..Found::default() };
        absences.confirm(Some(Arc::make_mut(&mut whole)), &doubted, &found);
        assert!(!ids(&whole).contains(&"b") && ids(&whole).contains(&"c"), "{:?}", ids(&whole));
        assert_eq!(absences.doubted(), None);
    }

    #[test]
    fn what_was_lacking_once_more_meanwhile_is_asked_about_again() {
        let mut absences = Absences::default();
        let whole = absences.completed(look(&[]), Some(look(&["a"])), false);
        let asked = absences.doubted().cloned().expect("a is in doubt");
        let mut whole = absences.completed(look(&[]), Some(whole), true);
        let found = Found { containers: look(&["a"]).containers.clone(), ..Found::default() };
        absences.confirm(Some(Arc::make_mut(&mut whole)), &asked, &found);
        assert_eq!(absences.doubted(), Some(&asked));
    }

    #[test]
    fn instances_that_the_status_named_are_asked_about_before_anything_is_told() {
        let mut absences = Absences::default();
        absences.recall(["a", "b"].map(ContainerId::from).into_iter(), None);
        let mut whole = absences.completed(look(&["a"]), None, false);
        let asked = absences.doubted().cloned().expect("b is in doubt");
        assert_eq!(asked.containers.keys().map(ContainerId::as_str).collect::<Vec<_>>(), ["b"]);
        assert!(absences.is_recalling());
        let found = Found { containers: look(&["b"]).containers.clone(), ..Found::default() };
        absences.confirm(Some(Arc::make_mut(&mut whole)), &asked, &found);
        assert!(ids(&whole).contains(&"b") && !absences.is_recalling());
        assert_eq!(absences.doubted(), None);
    }

    /// The worker of a pod that only the runtime knew hears of the pod after a look, and no further look need come.
    #[test]
    fn instances_that_the_status_names_after_a_look_are_in_doubt_at_once() {
        let mut absences = Absences::default();
        let seen = absences.completed(look(&["a"]), None, false);
        absences.recall([ContainerId::from("a")].into_iter(), Some(&*seen));
        assert_eq!((absences.is_recalling(), absences.doubted()), (false, None));
        absences.recall([ContainerId::from("b")].into_iter(), Some(&*seen));
        assert!(absences.doubted().is_some());
    }

    #[test]
    fn an_instance_that_the_status_named_and_the_runtime_denies_is_settled() {
        let mut absences = Absences::default();
        absences.recall([ContainerId::from("a")].into_iter(), None);
        let mut whole = absences.completed(look(&[]), None, false);
        let asked = absences.doubted().cloned().expect("a is in doubt");
        absences.confirm(Some(Arc::make_mut(&mut whole)), &asked, &Found::default());
        assert_eq!((absences.is_recalling(), absences.doubted()), (false, None));
        absences.completed(look(&[]), Some(whole), false);
        assert_eq!(absences.doubted(), None, "it is not asked about again");
    }

    #[test]
    fn what_the_pod_removes_itself_is_no_surprise() {
        let mut absences = Absences::default();
        absences.note_removing([ContainerId::from("a")].iter());
        absences.completed(look(&[]), Some(look(&["a"])), false);
        assert_eq!(absences.doubted(), None);
        assert_eq!(absences.removal_ended(), [ContainerId::from("a")].into());
    }

    #[test]
    fn what_was_known_before_the_observation_was_forgotten_is_in_doubt_too() {
        let mut absences = Absences::default();
        absences.remember(Some(look(&["a"])));
        absences.remember(None);
        absences.completed(look(&[]), None, false);
        assert!(absences.doubted().is_some());
    }
}
