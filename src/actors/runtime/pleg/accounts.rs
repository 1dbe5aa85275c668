//! The knowledge of `Pleg` about each pod, and the pod of each container and sandbox: an event without a pod names only
//! that.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;

/// See the module.
#[derive(Default)]
pub(super) struct Accounts {
    pods: BTreeMap<PodUid, Arc<RuntimePod>>,
    /// By the ID of a container or sandbox.
    owners: BTreeMap<String, PodUid>,
    /// Names of pods that a relist showed, and no look yet.
    unseen: BTreeMap<PodUid, FullName>,
}

fn parts(pod: &RuntimePod) -> impl Iterator<Item = &str> {
    let containers = pod.containers.iter().map(|container| container.id.as_str());
    containers.chain(pod.sandboxes.iter().map(|sandbox| sandbox.id.as_str()))
}

impl Accounts {
    pub(super) fn get(&self, uid: &PodUid) -> Option<&Arc<RuntimePod>> {
        self.pods.get(uid)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<RuntimePod>> {
        self.pods.values()
    }

    /// The name of a pod that was looked at, or that the last relist showed.
    pub(super) fn name_of(&self, uid: &PodUid) -> Option<&FullName> {
        self.pods.get(uid).map(|pod| &pod.full_name).or_else(|| self.unseen.get(uid))
    }

    /// The pods of a relist.
    pub(super) fn take_names(&mut self, names: &BTreeMap<PodUid, FullName>) {
        let unseen = names.iter().filter(|(uid, _)| !self.pods.contains_key(uid));
        self.unseen = unseen.map(|(uid, name)| (uid.clone(), name.clone())).collect();
    }

    /// The newest account of a pod. One of nothing is none.
    pub(super) fn take(&mut self, pod: &Arc<RuntimePod>) {
        debug_assert!(pod.is_newest_first(), "decisions take the first instance of a container for its newest");
        let before = if pod.is_empty() {
            self.pods.remove(&pod.uid)
        } else {
            self.pods.insert(pod.uid.clone(), Arc::clone(pod))
        };
        for id in before.iter().flat_map(|before| parts(before)) {
            self.owners.remove(id);
        }
        self.owners.extend(parts(pod).map(|id| (id.to_owned(), pod.uid.clone())));
    }

    pub(super) fn owner_of(&self, id: &str) -> Option<PodUid> {
        self.owners.get(id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::runtime_pod::{SandboxState, testing};
    use crate::logic::model::time::Stamp;

    #[test]
    fn parts_belong_to_their_pod_as_long_as_its_account_has_them() {
        let mut accounts = Accounts::default();
        let uid = PodUid::from("u");
        let empty = RuntimePod::empty(uid.clone(), FullName::new("web", "ns"), Stamp(1));
        let sandbox = |id: &str| testing::sandbox(id, SandboxState::Ready);
        accounts.take(&Arc::new(RuntimePod { sandboxes: vec![sandbox("a"), sandbox("b")], ..empty.clone() }));
        assert_eq!([accounts.owner_of("a"), accounts.owner_of("b")], [Some(uid.clone()), Some(uid.clone())]);
        accounts.take(&Arc::new(RuntimePod { sandboxes: vec![sandbox("b")], ..empty.clone() }));
        assert_eq!([accounts.owner_of("a"), accounts.owner_of("b")], [None, Some(uid.clone())]);
        accounts.take(&Arc::new(empty));
        assert_eq!((accounts.owner_of("b"), accounts.all().count(), accounts.get(&uid)), (None, 0, None));
    }

    #[test]
    fn a_pod_has_a_name_as_soon_as_a_relist_shows_it() {
        let (mut accounts, uid) = (Accounts::default(), PodUid::from("u"));
        let name = |name: &str| FullName::new(name, "ns");
        assert_eq!(accounts.name_of(&uid), None);
        accounts.take_names(&[(uid.clone(), name("listed"))].into());
        assert_eq!(accounts.name_of(&uid), Some(&name("listed")));
        let sandboxes = vec![testing::sandbox("a", SandboxState::Ready)];
        let seen = RuntimePod { sandboxes, ..RuntimePod::empty(uid.clone(), name("seen"), Stamp(1)) };
        accounts.take(&Arc::new(seen));
        accounts.take_names(&[(uid.clone(), name("listed"))].into());
        assert_eq!(accounts.name_of(&uid), Some(&name("seen")), "a look says more");
    }
}
