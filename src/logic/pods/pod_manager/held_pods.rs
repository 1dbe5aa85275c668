//! The pods that the runtime holds, as the relist and the looks at single pods showed them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod};
use crate::logic::model::time::Stamp;

/// See the module. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct HeldPods {
    /// Looks at single pods.
    looks: BTreeMap<PodUid, Arc<RuntimePod>>,
    /// All pods that the runtime holds. Of those without a look nothing more is known yet.
    listed: BTreeMap<PodUid, FullName>,
    /// Of those that have containers, the names of the containers that run.
    running: BTreeMap<PodUid, BTreeSet<String>>,
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

    /// The pod's containers that run, by name; `None` for a pod that has no container. A sandbox alone is no pod that runs.
    pub fn running(&self, uid: &PodUid) -> Option<&BTreeSet<String>> {
        self.running.get(uid)
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
            self.take_containers(pod);
            self.looks.insert(pod.uid.clone(), Arc::clone(pod));
        }
    }

    fn take_containers(&mut self, pod: &RuntimePod) {
        if pod.containers.is_empty() {
            self.running.remove(&pod.uid);
            return;
        }
        let running = pod.containers.iter().filter(|one| one.state == ContainerState::Running);
        self.running.insert(pod.uid.clone(), running.map(|one| one.name.clone()).collect());
    }

    /// The runtime was listed: these pods, and of those that have containers the names of the containers that run.
    pub fn take_relist(
        &mut self,
        taken: Stamp,
        pods: BTreeMap<PodUid, FullName>,
        running: BTreeMap<PodUid, BTreeSet<String>>,
    ) -> Relist {
        let vanished = self.looks.keys().filter(|uid| !pods.contains_key(uid)).cloned().collect();
        (self.listed, self.running) = (pods, running);
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
        self.running.remove(uid);
    }
}

#[cfg(test)]
mod tests;
