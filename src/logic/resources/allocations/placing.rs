//! Admission of pods that ask for devices of plugins: it ends in calls of the plugins, and may need several tries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::managers::{ResourceManagers, uid_of};
use super::record::PlacementRecord;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::resources::device_manager::calls::Need;
use crate::logic::resources::device_manager::devices::{DeviceGrant, Inventory};
use crate::logic::resources::device_manager::{Conflict, DeviceHealth, DeviceRefusal, Inquiry, PodBook, Question};
use crate::logic::resources::topology::admission::Refusal;

/// How far the admission of a pod has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It has all that it asks for.
    Given,
    /// It is refused; nothing was given.
    Refused(Refusal),
    /// The plugin of this resource may only be late; nothing was given.
    Late(String),
    /// Nothing was given yet: the admission is to be made again with the answer of a plugin.
    Ask(Question),
    /// All is taken. Plugins are to give devices, or the pod is to be [withdrawn](ResourceManagers::withdraw).
    Call {
        /// The devices.
        taken: Vec<(Need, Vec<String>)>,
        /// Hardware that the pod had before.
        before: Holding,
    },
}

/// The hardware that a pod has before an admission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    cpus: BTreeSet<String>,
    memory: BTreeSet<String>,
    devices: Option<Arc<PodBook>>,
}

impl ResourceManagers {
    /// Plugins said this of their devices.
    pub fn set_inventory(&mut self, inventory: Arc<Inventory>) {
        self.devices.set_inventory(inventory);
    }

    /// Gives a pod its hardware, devices of plugins included. Of devices nothing is given before all is chosen.
    pub fn admit(&mut self, pod: &Pod, inquiry: Inquiry) -> Placement {
        let may_wait = inquiry.may_wait;
        self.devices.begin(inquiry);
        if !self.devices.concerns(pod) {
            let placed = self.place(pod);
            self.devices.end();
            return placed.map_or_else(Placement::Refused, |()| Placement::Given);
        }
        let mut before = self.clone();
        before.devices.end(); // The inquiry is of this admission alone.
        let placed = self.place(pod);
        let decision = self.devices.end();
        let late = decision.refusal.as_ref().and_then(DeviceRefusal::late_resource).filter(|_| may_wait);
        match (decision.question, late, placed) {
            (Some(question), ..) => {
                *self = before;
                Placement::Ask(question)
            }
            (None, Some(resource), Err(_)) => {
                *self = before;
                Placement::Late(resource.to_owned())
            }
            (None, _, Err(refusal)) => Placement::Refused(refusal),
            (None, _, Ok(())) if decision.taken.is_empty() => Placement::Given,
            (None, _, Ok(())) => Placement::Call { taken: decision.taken, before: before.holding(&uid_of(pod)) },
        }
    }

    /// The hardware that a pod has now.
    pub fn holding(&self, uid: &PodUid) -> Holding {
        let cpus = self.cpus.state().containers.get(uid).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        let memory = self.memory.state().assignments.get(uid.as_str()).into_iter();
        Holding { cpus, memory: memory.flat_map(|own| own.keys().cloned()).collect(), devices: self.devices.book(uid) }
    }

    /// A plugin has given devices of a container.
    pub fn grant(&mut self, uid: &PodUid, need: &Need, grant: DeviceGrant) {
        self.devices.grant(uid, need, grant);
    }

    /// Takes back all that an admission gave a pod, down to what it had before; `why`: for people, where it is refused.
    pub fn withdraw(&mut self, uid: &PodUid, before: &Holding, why: Option<Refusal>) {
        let now = self.holding(uid);
        for container in now.cpus.difference(&before.cpus) {
            self.cpus.remove_container(uid, container);
        }
        for container in now.memory.difference(&before.memory) {
            self.memory.remove_container(uid.as_str(), container);
        }
        self.devices.set_book(uid, before.devices.clone());
        if why.is_some() {
            self.keep_record(uid, PlacementRecord { refusal: why, ..PlacementRecord::default() });
        }
    }

    /// The record of a pod for people, with its devices that are unhealthy now; `since`: when each device became so, by
    /// resource and name.
    pub fn explained(&self, uid: &PodUid, since: &BTreeMap<(String, String), Moment>) -> Option<PlacementRecord> {
        let mut record = self.record(uid).cloned().unwrap_or_default();
        for (need, owned) in self.devices.book(uid).iter().flat_map(|book| book.iter()) {
            let ill = |id: &str| Some((id.to_owned(), *since.get(&(need.resource.clone(), id.to_owned()))?));
            let ill: Vec<_> = owned.ids().into_iter().filter_map(ill).collect();
            if !ill.is_empty() {
                record.unhealthy.insert(need.clone(), ill);
            }
        }
        (!record.is_empty()).then_some(record)
    }

    /// The resources of plugins that are known.
    pub fn known_resources(&self) -> BTreeSet<String> {
        self.devices.resources()
    }

    /// The resources of which the pod was given devices.
    pub fn device_resources(&self, pod: &Pod) -> BTreeSet<String> {
        self.devices.resources_of(&uid_of(pod))
    }

    /// Where plugins contradict each other about a pod's containers.
    pub fn device_conflicts(&self, uid: &PodUid) -> Vec<Conflict> {
        let containers: BTreeSet<String> =
            self.devices.book(uid).iter().flat_map(|book| book.keys()).map(|need| need.container.clone()).collect();
        containers.iter().flat_map(|name| self.devices.devices_of_container(uid, name).1).collect()
    }

    /// The health of the devices of each container of each pod that owns some.
    pub fn health_of_devices(&self) -> BTreeMap<PodUid, BTreeMap<String, DeviceHealth>> {
        self.devices.health()
    }
}
