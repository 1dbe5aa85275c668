//! The pods that the runtime holds, as the relist and the looks at single pods showed them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;

/// See the module. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct HeldPods {
    /// Looks at single pods.
    looks: BTreeMap<PodUid, Arc<RuntimePod>>,
    /// All pods that the runtime holds. Of those without a look nothing more is known yet.
    listed: BTreeMap<PodUid, FullName>,
    /// When the newest relist was asked for.
    relisted: Option<Stamp>,
}

/// The result of a relist.
#[derive(Debug, PartialEq, Eq)]
pub struct Relist {
    /// It is the first one.
    pub is_first: bool,
    /// Pods of which there is a look and that the runtime holds no more.
    pub vanished: Vec<PodUid>,
}

impl HeldPods {
    /// When the newest relist was asked for; `None` before the first.
    pub fn relisted(&self) -> Option<Stamp> {
        self.relisted
    }

    /// All pods that the runtime holds, with their names.
    pub fn listed(&self) -> &BTreeMap<PodUid, FullName> {
        &self.listed
    }

    /// Whether the runtime holds the pod.
    pub fn holds(&self, uid: &PodUid) -> bool {
        self.listed.contains_key(uid)
    }

    /// Whether anything of the pod runs, by the newest look at it.
    pub fn is_alive(&self, uid: &PodUid) -> bool {
        self.looks.get(uid).is_some_and(|seen| seen.is_alive())
    }

    /// A pod was looked at.
    pub fn take_look(&mut self, pod: &Arc<RuntimePod>) {
        if pod.is_empty() {
            self.forget(&pod.uid);
        } else {
            self.listed.insert(pod.uid.clone(), pod.full_name.clone());
            self.looks.insert(pod.uid.clone(), Arc::clone(pod));
        }
    }

    /// The runtime was listed.
    pub fn take_relist(&mut self, taken: Stamp, pods: BTreeMap<PodUid, FullName>) -> Relist {
        let vanished = self.looks.keys().filter(|uid| !pods.contains_key(uid)).cloned().collect();
        self.listed = pods;
        Relist { is_first: self.relisted.replace(taken).is_none(), vanished }
    }

    /// The knowledge of a pod whose worker begins; `None` when only a look that is still to come can say.
    pub fn look_for_worker(&self, uid: &PodUid, full_name: &FullName) -> Option<Arc<RuntimePod>> {
        match (self.looks.get(uid), self.relisted) {
            (Some(seen), _) => Some(Arc::clone(seen)),
            (None, Some(taken)) if !self.holds(uid) => {
                Some(Arc::new(RuntimePod::empty(uid.clone(), full_name.clone(), taken)))
            }
            _ => None,
        }
    }

    /// The runtime holds nothing of the pod any more.
    pub fn forget(&mut self, uid: &PodUid) {
        self.looks.remove(uid);
        self.listed.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::runtime_pod::SandboxState;
    use crate::logic::model::runtime_pod::testing::sandbox;

    fn name() -> FullName {
        FullName::new("web", "default")
    }

    fn look(uid: &str, sandboxes: usize) -> Arc<RuntimePod> {
        let mut seen = RuntimePod::empty(uid.into(), name(), Stamp(3));
        seen.sandboxes = vec![sandbox("s", SandboxState::Ready); sandboxes];
        Arc::new(seen)
    }

    #[test]
    fn a_worker_is_told_only_what_is_certain() {
        let (mut held, uid) = (HeldPods::default(), PodUid::from("u"));
        assert_eq!(held.look_for_worker(&uid, &name()), None, "the runtime was not listed");
        held.take_relist(Stamp(2), [(uid.clone(), name())].into());
        assert_eq!(held.look_for_worker(&uid, &name()), None, "the runtime holds it, and nobody has looked");
        held.take_look(&look("u", 1));
        assert_eq!(held.look_for_worker(&uid, &name()), Some(look("u", 1)));
        held.take_look(&look("u", 0));
        let empty = held.look_for_worker(&uid, &name()).expect("the runtime was listed without it");
        assert!(empty.is_empty() && empty.taken == Stamp(2));
    }

    #[test]
    fn a_relist_names_what_vanished() {
        let mut held = HeldPods::default();
        assert!(held.take_relist(Stamp(1), BTreeMap::new()).is_first);
        held.take_look(&look("a", 1));
        held.take_look(&look("b", 1));
        let relist = held.take_relist(Stamp(2), [("a".into(), name())].into());
        assert_eq!(relist, Relist { is_first: false, vanished: vec!["b".into()] });
        assert!(held.holds(&"a".into()) && !held.holds(&"b".into()) && held.is_alive(&"b".into()), "a look is to come");
    }
}
