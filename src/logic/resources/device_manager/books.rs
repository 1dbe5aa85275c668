//! Which containers own which devices. Owned by the device manager; upstream's `podDevices`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::calls::Need;
use super::devices::DeviceGrant;
use crate::logic::model::ids::PodUid;

/// The NUMA node of devices of which their plugin names none.
pub(super) const NO_NODE: i64 = -1;

/// Devices of one resource that a container owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// By NUMA node; a device that is near several is with each of them.
    pub nodes: BTreeMap<i64, BTreeSet<String>>,
    /// Things that the plugin gives along with them. `None` while the plugin is asked: they are taken, and not given yet.
    pub grant: Option<DeviceGrant>,
}

impl Owned {
    /// All of them.
    pub fn ids(&self) -> BTreeSet<&str> {
        self.nodes.values().flatten().map(String::as_str).collect()
    }
}

/// The devices of one pod.
pub type PodBook = BTreeMap<Need, Owned>;

/// See the module. A copy shares the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    pods: BTreeMap<PodUid, Arc<PodBook>>,
}

impl Books {
    /// The pods that own devices.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &PodBook)> {
        self.pods.iter().map(|(uid, book)| (uid, &**book))
    }

    /// The devices of one pod.
    pub fn pod(&self, uid: &PodUid) -> Option<&Arc<PodBook>> {
        self.pods.get(uid)
    }

    /// The devices of a resource that a container owns.
    pub fn of(&self, uid: &PodUid, need: &Need) -> Option<&Owned> {
        self.pods.get(uid)?.get(need)
    }

    /// The devices that containers own, or are about to.
    pub(super) fn taken(&self, resource: &str) -> BTreeSet<&str> {
        let owned = self.pods.values().flat_map(|book| book.iter());
        owned.filter(|(need, _)| need.resource == resource).flat_map(|(_, owned)| owned.ids()).collect()
    }

    /// Whether a container owns a device of this resource.
    pub(super) fn has_resource(&self, resource: &str) -> bool {
        self.pods.values().any(|book| book.keys().any(|need| need.resource == resource))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub(super) fn insert(&mut self, uid: &PodUid, need: Need, owned: Owned) {
        Arc::make_mut(self.pods.entry(uid.clone()).or_default()).insert(need, owned);
    }

    /// The plugin has given the devices. Returns whether the container was to have them.
    pub(super) fn grant(&mut self, uid: &PodUid, need: &Need, grant: DeviceGrant) -> bool {
        let owned = self.pods.get_mut(uid).and_then(|book| Arc::make_mut(book).get_mut(need));
        owned.map(|owned| owned.grant = Some(grant)).is_some()
    }

    /// Sets all devices of a pod.
    pub(super) fn set_pod(&mut self, uid: &PodUid, book: Option<Arc<PodBook>>) {
        match book {
            Some(book) => drop(self.pods.insert(uid.clone(), book)),
            None => drop(self.pods.remove(uid)),
        }
    }

    /// Takes back the devices of other pods than these. Returns whether any had some.
    pub(super) fn keep_only(&mut self, active: &BTreeSet<PodUid>) -> bool {
        let before = self.pods.len();
        self.pods.retain(|uid, _| active.contains(uid));
        self.pods.len() < before
    }
}
