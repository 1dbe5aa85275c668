//! The device manager as the topology manager asks it, and as the PodResources API and statuses show it.
//!
//! Pure. Upstream: `GetTopologyHints`, `GetPodTopologyHints`, `GetDevices`, `GetAllocatableDevices`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod};

use super::books::{NO_NODE, Owned};
use super::calls::Need;
use super::choice::{has_topology, healthy};
use super::devices::{Device, Health};
use super::hints::hints;
use super::manager::DeviceManager;
use crate::logic::model::ids::PodUid;
use crate::logic::resources::pod_limits;
use crate::logic::resources::topology::admission::{AllocationFailure, Provider};
use crate::logic::resources::topology::hints::{Hint, Hints};

/// The health of a container's devices: by resource, by device.
pub type DeviceHealth = BTreeMap<String, BTreeMap<String, Health>>;

/// Devices at one place: the resource, its NUMA nodes (none where the plugin names none), the devices.
pub(in crate::logic::resources) type Places = BTreeMap<(String, BTreeSet<u32>), Vec<String>>;

impl Provider for DeviceManager {
    fn hints(&self, pod: &Pod, container: &Container) -> Hints {
        let uid = super::uid_of(pod);
        let of = |(resource, count): (String, usize)| {
            let need = Need { container: container.name.clone(), resource: resource.clone() };
            let own = self.books.of(&uid, &need).map(Owned::ids).unwrap_or_default();
            let reusable = self.reusable.get(&resource).into_iter().flatten().map(String::as_str).collect();
            let hints = self.hints_of(&resource, count, &own, &reusable);
            (resource, hints)
        };
        self.asked(pod, container).into_iter().map(of).collect()
    }

    fn pod_hints(&self, pod: &Pod) -> Hints {
        let uid = super::uid_of(pod);
        let asked: BTreeSet<String> =
            super::containers(pod).flat_map(|container| self.asked(pod, container).into_keys()).collect();
        let limits = pod_limits(pod, false, false);
        let of = |resource: String| {
            let count = limits.get(&resource).map_or(0, |amount| usize::try_from(amount.value()).unwrap_or_default());
            let book = self.books.pod(&uid).into_iter().flat_map(|book| book.iter());
            let own = book.filter(|(need, _)| need.resource == resource).flat_map(|(_, owned)| owned.ids()).collect();
            let hints = self.hints_of(&resource, count, &own, &BTreeSet::new());
            (resource, hints)
        };
        asked.into_iter().map(of).collect()
    }

    fn allocate(&mut self, pod: &Pod, container: &Container, affinity: &Hint) -> Result<(), AllocationFailure> {
        self.allocate_container(pod, container, affinity.nodes).map_err(AllocationFailure::Unexpected)
    }

    /// As upstream, a pod as a whole is given no devices.
    fn allocate_pod(&mut self, _: &Pod, _: &Hint) -> Result<(), AllocationFailure> {
        Ok(())
    }

    fn mark(&mut self) {
        self.set_mark();
    }

    fn revert(&mut self) {
        self.return_to_mark();
    }
}

impl DeviceManager {
    /// Hints of one resource; `None`: any nodes will do.
    fn hints_of(
        &self,
        resource: &str,
        count: usize,
        own: &BTreeSet<&str>,
        reusable: &BTreeSet<&str>,
    ) -> Option<Vec<Hint>> {
        let devices = self.devices_of(resource).filter(|devices| has_topology(devices))?;
        if !own.is_empty() {
            let is_met = own.len() == count;
            return Some(if is_met { hints(devices, own, &BTreeSet::new(), self.nodes, count) } else { vec![] });
        }
        let in_use = self.books.taken(resource);
        let mut available = healthy(devices);
        available.retain(|id| !in_use.contains(id));
        if available.union(reusable).count() < count {
            return Some(vec![]);
        }
        Some(hints(devices, &available, reusable, self.nodes, count))
    }

    /// The devices that a container owns, by place.
    pub(in crate::logic::resources) fn places(&self) -> BTreeMap<(PodUid, String), Places> {
        let mut all: BTreeMap<(PodUid, String), Places> = BTreeMap::new();
        for (uid, book) in self.books.pods() {
            for (need, owned) in book.iter().filter(|(_, owned)| owned.grant.is_some()) {
                let places = all.entry((uid.clone(), need.container.clone())).or_default();
                for id in owned.ids() {
                    let near = owned.nodes.iter().filter(|(node, ids)| **node != NO_NODE && ids.contains(id));
                    let nodes = near.filter_map(|(node, _)| u32::try_from(*node).ok()).collect();
                    places.entry((need.resource.clone(), nodes)).or_default().push(id.to_owned());
                }
            }
        }
        all
    }

    /// The devices that can be given, free or taken, by place.
    pub(in crate::logic::resources) fn allocatable(&self) -> Places {
        let mut places = Places::new();
        for (resource, devices) in self.inventory.iter() {
            let is_healthy = |device: &Device| device.health == Health::Healthy;
            for (id, device) in devices.devices.iter().filter(|(_, device)| is_healthy(device)) {
                places.entry((resource.clone(), device.nodes.clone())).or_default().push(id.clone());
            }
        }
        places
    }

    /// The health of the devices of each container of each pod that owns some.
    pub fn health(&self) -> BTreeMap<PodUid, BTreeMap<String, DeviceHealth>> {
        let mut all: BTreeMap<PodUid, BTreeMap<String, DeviceHealth>> = BTreeMap::new();
        for (uid, book) in self.books.pods() {
            for (need, owned) in book.iter().filter(|(_, owned)| owned.grant.is_some()) {
                let of = all.entry(uid.clone()).or_default().entry(need.container.clone()).or_default();
                let health = |id: &str| (id.to_owned(), self.health_of(&need.resource, id));
                of.insert(need.resource.clone(), owned.ids().into_iter().map(health).collect());
            }
        }
        all
    }

    /// The resources of which the pod was given devices.
    pub fn resources_of(&self, uid: &PodUid) -> BTreeSet<String> {
        let book = self.books.pod(uid).into_iter().flat_map(|book| book.keys());
        book.map(|need| need.resource.clone()).collect()
    }
}
