//! What `Pleg` knows of each pod, and whose each container and sandbox is: an event without a pod names only that.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::logic::model::ids::PodUid;
use crate::logic::model::runtime_pod::RuntimePod;

/// See the module.
#[derive(Default)]
pub(super) struct Accounts {
    pods: BTreeMap<PodUid, Arc<RuntimePod>>,
    /// By the ID of a container or sandbox.
    owners: BTreeMap<String, PodUid>,
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

    /// The newest account of a pod. One of nothing is none.
    pub(super) fn take(&mut self, pod: &Arc<RuntimePod>) {
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
    use crate::logic::model::ids::FullName;
    use crate::logic::model::runtime_pod::{RuntimeSandbox, SandboxState};
    use crate::logic::model::time::{Moment, Stamp};

    #[test]
    fn parts_belong_to_their_pod_as_long_as_its_account_has_them() {
        let mut accounts = Accounts::default();
        let uid = PodUid::from("u");
        let empty = RuntimePod::empty(uid.clone(), FullName::new("web", "ns"), Stamp(1));
        let sandbox = |id: &str| RuntimeSandbox {
            id: id.into(),
            attempt: 0,
            state: SandboxState::Ready,
            created_at: Moment(0),
            host_network: false,
            ips: vec![],
            lacks_address: false,
        };
        accounts.take(&Arc::new(RuntimePod { sandboxes: vec![sandbox("a"), sandbox("b")], ..empty.clone() }));
        assert_eq!([accounts.owner_of("a"), accounts.owner_of("b")], [Some(uid.clone()), Some(uid.clone())]);
        accounts.take(&Arc::new(RuntimePod { sandboxes: vec![sandbox("b")], ..empty.clone() }));
        assert_eq!([accounts.owner_of("a"), accounts.owner_of("b")], [None, Some(uid.clone())]);
        accounts.take(&Arc::new(empty));
        assert_eq!((accounts.owner_of("b"), accounts.all().count(), accounts.get(&uid)), (None, 0, None));
    }
}
