//! The device manager: gives containers devices of plugins, and knows which they own.
//!
//! Pure. Upstream: `ManagerImpl`. An admission runs to its end at once. Where a plugin has an opinion, it ends with a
//! [`Question`], and is made again with the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::books::{Books, NO_NODE, Owned, PodBook};
use super::calls::{DeviceUse, Need, Preference};
use super::checkpoint::{self, Checkpoint};
use super::choice::{Choice, Request, healthy};
use super::devices::{DeviceGrant, Health, Inventory, ResourceDevices, Session};
use super::grants::{Conflict, merged};
use super::refusal::DeviceRefusal;
use crate::logic::model::ids::PodUid;
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::resources::topology::hints::NumaMask;
use crate::logic::resources::{container_limits, is_extended};

/// How often a plugin is asked about one choice. Devices that others took meanwhile make its answer old; the last one is
/// used as far as it goes.
const QUESTIONS_MAX: u32 = 3;

/// The opinion of a plugin on one choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The choice that it was asked about.
    pub preference: Preference,
    /// Its answer.
    pub ids: Vec<String>,
    /// How often it was asked.
    pub asked: u32,
}

/// Facts beside the pod when it is admitted.
#[derive(Clone, Debug, Default)]
pub struct Inquiry {
    /// The plugins' opinions so far.
    pub opinions: BTreeMap<Need, Opinion>,
    /// Containers that run already, since before the agent's start: they keep what they have, with a plugin or without (RES-44).
    pub running: BTreeSet<String>,
    /// A plugin that is late may be waited for.
    pub may_wait: bool,
}

/// A plugin is to be asked for its opinion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// For which container.
    pub need: Need,
    /// The choice.
    pub preference: Preference,
}

/// The outcome of the device manager's part in an admission.
#[derive(Debug, Default)]
pub(in crate::logic::resources) struct Decision {
    /// The admission is to be made again with an answer to this.
    pub(in crate::logic::resources) question: Option<Question>,
    /// Why devices are not given.
    pub(in crate::logic::resources) refusal: Option<DeviceRefusal>,
    /// Devices that are taken now, and that their plugins are to give.
    pub(in crate::logic::resources) taken: Vec<(Need, Vec<String>)>,
}

/// The parts of a container that its devices bring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerDevices {
    /// The plugins' answers as one.
    pub grant: DeviceGrant,
    /// Devices whose plugins want to hear of it before the container starts (`PreStartContainer`).
    pub announced: Vec<DeviceUse>,
}

/// See the module. A copy shares the inventory and the books of pods.
#[derive(Clone, Debug, Default)]
pub struct DeviceManager {
    pub(super) inventory: Arc<Inventory>,
    /// Resources of the file whose plugin has not come since.
    remembered: BTreeSet<String>,
    pub(super) books: Books,
    /// The disk has a file: it is kept true, also when nothing is left to say.
    has_file: bool,
    /// The NUMA nodes of the machine.
    pub(super) nodes: NumaMask,
    inquiry: Inquiry,
    decision: Decision,
    /// Devices of init containers that later containers of the pod may have, by resource.
    pub(super) reusable: BTreeMap<String, BTreeSet<String>>,
    marked: Option<Books>,
}

impl Clone for Decision {
    /// A decision belongs to one admission.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl DeviceManager {
    /// A manager that has given nothing, on a machine of these NUMA nodes.
    pub fn new(nodes: NumaMask) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Goes on from the file.
    pub fn restore(&mut self, Checkpoint { books, registered }: Checkpoint) {
        self.books = books;
        self.remembered = registered.into_keys().collect();
        self.has_file = true;
    }

    /// Plugins said this. A resource that is not named any more stays known: its plugin may come back.
    pub fn set_inventory(&mut self, inventory: Arc<Inventory>) {
        let known = self.inventory.iter().filter(|(_, devices)| devices.session != Session::Forgotten);
        self.remembered.extend(known.map(|(resource, _)| resource.clone()));
        self.remembered.retain(|resource| !inventory.contains_key(resource));
        self.inventory = inventory;
    }

    /// The resources that are known.
    pub fn resources(&self) -> BTreeSet<String> {
        self.registered().into_keys().collect()
    }

    /// The file; `None` as long as there is nothing to say.
    pub fn checkpoint(&self) -> Option<Vec<u8>> {
        let is_needed = self.has_file || !self.inventory.is_empty() || !self.books.is_empty();
        is_needed.then(|| checkpoint::print(&self.books, &self.registered()))
    }

    /// Whether the file says the same of both.
    pub fn has_state_of(&self, other: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.inventory, &other.inventory) && self.remembered == other.remembered;
        self.books == other.books && (is_same || self.registered() == other.registered())
    }

    /// The healthy devices of each resource that is known.
    fn registered(&self) -> BTreeMap<String, BTreeSet<String>> {
        let known = self.inventory.iter().filter(|(_, devices)| devices.session != Session::Forgotten);
        let ids = |devices: &ResourceDevices| healthy(devices).into_iter().map(ToOwned::to_owned).collect();
        let remembered = self.remembered.iter().map(|resource| (resource.clone(), BTreeSet::new()));
        remembered.chain(known.map(|(resource, devices)| (resource.clone(), ids(devices)))).collect()
    }

    /// Whether a plugin has the resource, or had it (`isDevicePluginResource`). As upstream, a plugin that is gone for long is
    /// forgotten, unless it may be waited for.
    fn knows(&self, resource: &str) -> bool {
        let is_awaited = self.inquiry.may_wait && self.inventory.contains_key(resource);
        is_awaited || self.is_registered(resource) || self.books.has_resource(resource)
    }

    fn is_registered(&self, resource: &str) -> bool {
        self.remembered.contains(resource) || self.devices_of(resource).is_some()
    }

    pub(super) fn devices_of(&self, resource: &str) -> Option<&ResourceDevices> {
        self.inventory.get(resource).filter(|devices| devices.session != Session::Forgotten)
    }

    /// Whether the pod asks for a resource that a plugin has or had.
    pub fn concerns(&self, pod: &Pod) -> bool {
        super::containers(pod).any(|container| !self.asked(pod, container).is_empty())
    }

    /// The resources of plugins that a container asks for, and how many devices of each.
    pub(super) fn asked(&self, pod: &Pod, container: &Container) -> BTreeMap<String, usize> {
        let limits = container_limits(container);
        let of_plugins = limits
            .into_iter()
            .filter(|(name, _)| is_extended(name) && self.knows(name) && !is_of_claim(pod, &container.name, name));
        of_plugins.map(|(name, amount)| (name, usize::try_from(amount.value()).unwrap_or_default())).collect()
    }

    /// The first resource of a plugin that the container asks for and has no devices of.
    pub fn lacking(&self, pod: &Pod, container: &Container) -> Option<String> {
        let uid = super::uid_of(pod);
        let has = |resource: &String| {
            let need = Need { container: container.name.clone(), resource: resource.clone() };
            self.books.of(&uid, &need).is_some()
        };
        self.asked(pod, container)
            .into_iter()
            .find(|(resource, count)| *count > 0 && !has(resource))
            .map(|(name, _)| name)
    }

    /// An admission begins.
    pub(in crate::logic::resources) fn begin(&mut self, inquiry: Inquiry) {
        self.inquiry = inquiry;
    }

    /// The admission has ended.
    pub(in crate::logic::resources) fn end(&mut self) -> Decision {
        self.inquiry = Inquiry::default();
        self.marked = None;
        std::mem::take(&mut self.decision)
    }

    /// The devices that the admission under way has taken, for people who ask why.
    pub(in crate::logic::resources) fn taken_by_now(&self) -> BTreeMap<Need, Vec<String>> {
        self.decision.taken.iter().cloned().collect()
    }

    pub(super) fn set_mark(&mut self) {
        self.reusable.clear();
        self.decision = Decision::default();
        self.marked = Some(self.books.clone());
    }

    pub(super) fn return_to_mark(&mut self) {
        self.reusable.clear();
        self.decision.taken.clear();
        self.books = self.marked.take().unwrap_or_default();
    }

    /// Takes the devices that a container asks for.
    ///
    /// # Errors
    /// Why they cannot be given, or that a plugin is to be asked first.
    pub(super) fn allocate_container(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Option<NumaMask>,
    ) -> Result<(), String> {
        let uid = super::uid_of(pod);
        for (resource, count) in self.asked(pod, container) {
            let need = Need { container: container.name.clone(), resource };
            if let Err(refusal) = self.allocate_one(&uid, &need, count, affinity) {
                let text = refusal.to_string();
                self.decision.refusal = Some(refusal);
                return Err(text);
            }
            if self.decision.question.is_some() {
                return Err("a device plugin is to be asked first".to_owned());
            }
            self.note_reusable(&uid, pod, container, &need);
        }
        Ok(())
    }

    fn allocate_one(
        &mut self,
        uid: &PodUid,
        need: &Need,
        count: usize,
        affinity: Option<NumaMask>,
    ) -> Result<(), DeviceRefusal> {
        let resource = need.resource.clone();
        let own = self.books.of(uid, need).map(Owned::ids);
        if let Some(own) = own.as_ref().filter(|own| own.len() != count) {
            let (pod, container, had) = (uid.clone(), need.container.clone(), own.len());
            return Err(DeviceRefusal::Changed { pod, container, resource, had, wants: count });
        }
        if self.inquiry.running.contains(&need.container) {
            return Ok(());
        }
        if !self.is_registered(&resource) {
            return Err(DeviceRefusal::Unregistered(resource));
        }
        let devices = self.devices_of(&resource);
        let Some((devices, healthy)) =
            devices.map(|devices| (devices, healthy(devices))).filter(|(_, healthy)| !healthy.is_empty())
        else {
            return Err(DeviceRefusal::NoneHealthy(resource));
        };
        if own.as_ref().is_some_and(|own| !own.is_subset(&healthy)) {
            return Err(DeviceRefusal::NoLongerHealthy(resource));
        }
        if own.is_some() || count == 0 {
            return Ok(());
        }
        let (in_use, none) = (self.books.taken(&resource), BTreeSet::new());
        let reusable = self.reusable.get(&resource).unwrap_or(&none);
        let request = Request { resource: &resource, count, devices, in_use: &in_use, reusable, affinity };
        let opinion = self.inquiry.opinions.get(need);
        let opinion = |preference: &Preference| {
            let is_of_it = |opinion: &&Opinion| opinion.preference == *preference || opinion.asked >= QUESTIONS_MAX;
            opinion.filter(is_of_it).map(|opinion| opinion.ids.as_slice())
        };
        match request.choose(opinion)? {
            Choice::Ask(preference) => self.decision.question = Some(Question { need: need.clone(), preference }),
            Choice::Taken(ids) => {
                let nodes = by_node(devices, &ids);
                self.books.insert(uid, need.clone(), Owned { nodes, grant: None });
                self.decision.taken.push((need.clone(), ids.into_iter().collect()));
            }
        }
        Ok(())
    }

    /// Init containers leave their devices to later containers; whoever runs to the pod's end keeps them.
    fn note_reusable(&mut self, uid: &PodUid, pod: &Pod, container: &Container, need: &Need) {
        let mut inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let leaves = inits.any(|init| init.name == container.name && !is_sidecar(init));
        let Some(own) = self.books.of(uid, need) else { return };
        let own: BTreeSet<String> = own.ids().into_iter().map(ToOwned::to_owned).collect();
        let reusable = self.reusable.entry(need.resource.clone()).or_default();
        match leaves {
            true => reusable.extend(own),
            false => reusable.retain(|id| !own.contains(id)),
        }
    }

    /// A plugin has given the devices of a container. Returns whether the container was to have them.
    pub fn grant(&mut self, uid: &PodUid, need: &Need, grant: DeviceGrant) -> bool {
        self.books.grant(uid, need, grant)
    }

    /// The devices of a pod.
    pub fn book(&self, uid: &PodUid) -> Option<Arc<PodBook>> {
        self.books.pod(uid).cloned()
    }

    /// Returns a pod to the devices that it had.
    pub fn set_book(&mut self, uid: &PodUid, book: Option<Arc<PodBook>>) {
        self.books.set_pod(uid, book);
    }

    /// Takes back the devices of other pods than these. Returns whether any had some.
    pub fn keep_only(&mut self, active: &BTreeSet<PodUid>) -> bool {
        self.books.keep_only(active)
    }

    /// The parts of a container that its devices bring, and where plugins contradict each other about it.
    pub fn devices_of_container(&self, uid: &PodUid, container: &str) -> (ContainerDevices, Vec<Conflict>) {
        let own = self.books.pod(uid).into_iter().flat_map(|book| book.iter());
        let own: Vec<(&Need, &Owned)> = own.filter(|(need, _)| need.container == container).collect();
        let (grant, conflicts) = merged(own.iter().filter_map(|(_, owned)| owned.grant.as_ref()));
        let is_announced = |need: &Need| self.inventory.get(&need.resource).is_some_and(|of| of.options.pre_start);
        let named = |(need, owned): (&Need, &Owned)| DeviceUse {
            resource: need.resource.clone(),
            ids: owned.ids().into_iter().map(ToOwned::to_owned).collect(),
        };
        let announced = own.into_iter().filter(|(need, _)| is_announced(need)).map(named).collect();
        (ContainerDevices { grant, announced }, conflicts)
    }

    /// The health of a device that a container owns. As upstream, one that its plugin does not name is healthy.
    pub(super) fn health_of(&self, resource: &str, id: &str) -> Health {
        let device = self.inventory.get(resource).and_then(|of| of.devices.get(id));
        device.map_or(Health::Healthy, |device| device.health)
    }
}

/// These devices by NUMA node.
fn by_node(devices: &ResourceDevices, ids: &BTreeSet<String>) -> BTreeMap<i64, BTreeSet<String>> {
    let mut nodes: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for id in ids {
        let near: Vec<i64> =
            devices.devices.get(id).into_iter().flat_map(|of| &of.nodes).map(|node| i64::from(*node)).collect();
        for node in if near.is_empty() { vec![NO_NODE] } else { near } {
            nodes.entry(node).or_default().insert(id.clone());
        }
    }
    nodes
}

/// Whether a claim gives the resource, and no plugin (`isDRAExtendedResource`).
fn is_of_claim(pod: &Pod, container: &str, resource: &str) -> bool {
    let claim = pod.status.as_ref().and_then(|status| status.extended_resource_claim_status.as_ref());
    let mut mappings = claim.into_iter().flat_map(|claim| &claim.request_mappings);
    mappings.any(|one| one.container_name == container && one.resource_name == resource)
}
