//! `status.capacity` and `status.allocatable`: what the machine has, and what of it pods may use (NODE-15, NODE-16).
//!
//! Pure; keeps nothing. Resources that the agent does not know stay as somebody else has set them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::NodeStatus;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::node::node_object::same_amount;
use crate::logic::resources::EPHEMERAL_STORAGE;
use crate::logic::resources::device_manager::devices::{Health, Inventory, Session};
use crate::logic::resources::node_cgroups::MachineSize;
use crate::logic::resources::portion::Portion;
use crate::logic::resources::{
    CPU, HUGEPAGES_PREFIX, MEMORY, ResourceList, hugepage_capacity, is_extended, resource_list,
};

/// The resource name of the number of pods.
pub const PODS: &str = "pods";

/// The resources of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Machine {
    /// Processors that are online.
    pub cpus: i64,
    /// The same by their numbers, as the kernel lists them.
    pub cpu_list: String,
    /// All memory, in bytes.
    pub memory_bytes: i64,
    /// How many huge pages there are, by their size in bytes.
    pub hugepages: BTreeMap<u64, u64>,
    /// All swap, in bytes.
    pub swap_bytes: i64,
    /// The machine's identity, as systemd keeps it.
    pub machine_id: String,
    /// The hardware's identity.
    pub system_uuid: String,
    /// The identity of this boot.
    pub boot_id: String,
}

impl Machine {
    /// How large it is.
    pub fn size(&self) -> MachineSize {
        MachineSize {
            cpus: self.cpus,
            cpu_list: self.cpu_list.clone(),
            memory_bytes: self.memory_bytes,
            swap_bytes: self.swap_bytes,
            hugepages: self.hugepages.clone(),
        }
    }

    /// It is to be of this size.
    pub fn set_size(&mut self, size: MachineSize) {
        (self.cpus, self.cpu_list) = (size.cpus, size.cpu_list);
        (self.memory_bytes, self.swap_bytes, self.hugepages) = (size.memory_bytes, size.swap_bytes, size.hugepages);
    }
}

/// The configuration of resources.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CapacitySettings {
    /// `maxPods`.
    pub max_pods: i64,
    /// `podsPerCore`; 0 for no such limit.
    pub pods_per_core: i64,
    /// `localStorageCapacityIsolation`.
    pub local_storage: bool,
    /// `kubeReserved` and `systemReserved` together.
    pub reserved: ResourceList,
    /// `evictionHard`'s `memory.available`.
    pub eviction_memory: Option<Portion>,
    /// `evictionHard`'s `nodefs.available`.
    pub eviction_storage: Option<Portion>,
}

/// The resources that device plugins offer.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceResources {
    /// All devices known.
    pub capacity: ResourceList,
    /// Those that work.
    pub allocatable: ResourceList,
    /// Resources whose plugin is gone.
    pub removed: BTreeSet<String>,
}

impl DeviceResources {
    /// The resources of these plugins (RES-40): each device counts, and may be given while it is healthy.
    pub fn of(inventory: &Inventory) -> Self {
        let mut resources = Self::default();
        let amount = |count: usize| Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
        for (name, known) in inventory {
            if known.session == Session::Forgotten {
                resources.removed.insert(name.clone());
                continue;
            }
            let healthy = known.devices.values().filter(|device| device.health == Health::Healthy).count();
            resources.capacity.insert(name.clone(), amount(known.devices.len()));
            resources.allocatable.insert(name.clone(), amount(healthy));
        }
        resources
    }
}

/// Sets capacity and allocatable. Without a machine (it could not be read) the node has no CPU and no memory.
pub fn set(
    status: &mut NodeStatus,
    settings: &CapacitySettings,
    machine: Option<&Machine>,
    storage_bytes: Option<i64>,
    devices: &DeviceResources,
) {
    let mut capacity = read(status.capacity.take());
    match machine {
        Some(machine) => fill(&mut capacity, settings, machine, storage_bytes, devices),
        None => {
            capacity.insert(CPU.to_owned(), Quantity::ZERO.into());
            capacity.insert(MEMORY.to_owned(), Quantity::ZERO.into());
            capacity.insert(PODS.to_owned(), Quantity::from_units(settings.max_pods, Format::DecimalSi).into());
        }
    }
    let mut allocatable = read(status.allocatable.take());
    allocatable.retain(|name, _| capacity.contains_key(name) || !is_extended(name));
    for (name, all) in &capacity {
        let left = all.amount.map(|amount| floor(amount.minus(settings.reservation(name, &capacity))));
        allocatable.insert(name.clone(), left.map_or_else(|| all.clone(), |left| all.or_new(left)));
    }
    for (name, amount) in devices.allocatable.iter().filter(|_| machine.is_some()) {
        allocatable.insert(name.clone(), (*amount).into());
    }
    take_hugepages_from_memory(&capacity, &mut allocatable);
    status.capacity = Some(write(capacity));
    status.allocatable = Some(write(allocatable));
}

fn fill(
    capacity: &mut BTreeMap<String, Amount>,
    settings: &CapacitySettings,
    machine: &Machine,
    storage_bytes: Option<i64>,
    devices: &DeviceResources,
) {
    let mut set = |name: &str, amount: Quantity| {
        let known = capacity.get(name).cloned();
        capacity.insert(name.to_owned(), known.map_or_else(|| amount.into(), |known| known.or_new(amount)));
    };
    set(CPU, Quantity::from_milli(machine.cpus.saturating_mul(1000)));
    set(MEMORY, Quantity::from_units(machine.memory_bytes, Format::BinarySi));
    for (size, count) in &machine.hugepages {
        let (name, amount) = hugepage_capacity(*size, *count);
        set(&name, amount);
    }
    let per_core = machine.cpus.saturating_mul(settings.pods_per_core);
    let pods = if settings.pods_per_core > 0 { per_core.min(settings.max_pods) } else { settings.max_pods };
    set(PODS, Quantity::from_units(pods, Format::DecimalSi));
    if let Some(bytes) = storage_bytes.filter(|_| settings.local_storage) {
        set(EPHEMERAL_STORAGE, Quantity::from_units(bytes, Format::BinarySi));
    }
    for (name, amount) in &devices.capacity {
        set(name, *amount);
    }
    // Zero rather than absent: so devices differ from the resources that the cluster itself offers.
    for name in &devices.removed {
        set(name, Quantity::ZERO);
    }
}

/// The amounts that pods may use, as the status of a Node without other resources says it.
pub fn allocatable(settings: &CapacitySettings, machine: &Machine, storage_bytes: Option<i64>) -> ResourceList {
    let mut status = NodeStatus::default();
    set(&mut status, settings, Some(machine), storage_bytes, &DeviceResources::default());
    resource_list(status.allocatable.as_ref())
}

/// The parts of pods' capacity that a status lacks before the node can be ready.
pub fn missing(status: &NodeStatus, local_storage: bool) -> Vec<String> {
    let wanted = [CPU, MEMORY, PODS].into_iter().chain(local_storage.then_some(EPHEMERAL_STORAGE));
    let known = |name: &&str| status.capacity.as_ref().is_some_and(|capacity| capacity.contains_key(*name));
    wanted.filter(|name| !known(name)).map(str::to_owned).collect()
}

impl CapacitySettings {
    fn reservation(&self, name: &str, capacity: &BTreeMap<String, Amount>) -> Quantity {
        // A resource that somebody else patched in is nothing that the host needs a part of.
        let own = [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name) || name.starts_with(HUGEPAGES_PREFIX);
        if !own {
            return Quantity::ZERO;
        }
        let reserved = self.reserved.get(name).copied().unwrap_or_default();
        let threshold = match name {
            MEMORY => self.eviction_memory,
            EPHEMERAL_STORAGE => self.eviction_storage,
            _ => None,
        };
        let total = capacity.get(name).and_then(|all| all.amount).unwrap_or_default();
        threshold.map_or(reserved, |threshold| reserved.plus(threshold.of(total)))
    }
}

fn take_hugepages_from_memory(capacity: &BTreeMap<String, Amount>, allocatable: &mut BTreeMap<String, Amount>) {
    let sizes = capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX));
    let pages = sizes.filter_map(|(_, all)| all.amount).fold(Quantity::ZERO, Quantity::plus);
    if let Some(memory) = allocatable.get_mut(MEMORY)
        && let Some(amount) = memory.amount
        && !pages.is_zero()
    {
        *memory = floor(amount.minus(pages)).into();
    }
}

fn floor(amount: Quantity) -> Quantity {
    if amount.is_negative() { Quantity::from_units(0, amount.format()) } else { amount }
}

/// An amount as the status tells it; a text that is no quantity is kept as it is.
#[derive(Clone, Debug)]
struct Amount {
    text: ApiQuantity,
    amount: Option<Quantity>,
}

impl Amount {
    /// Written as it was where that means the same, so that nothing is patched for its notation. Values computed from
    /// it have the notation of `amount` either way.
    fn or_new(&self, amount: Quantity) -> Self {
        let new = Self::from(amount);
        if same_amount(&self.text, &new.text) { Self { text: self.text.clone(), ..new } } else { new }
    }
}

impl From<Quantity> for Amount {
    fn from(amount: Quantity) -> Self {
        Self { text: ApiQuantity(amount.to_string()), amount: Some(amount) }
    }
}

fn read(list: Option<BTreeMap<String, ApiQuantity>>) -> BTreeMap<String, Amount> {
    let parse = |text: ApiQuantity| Amount { amount: Quantity::parse(&text.0).ok(), text };
    list.unwrap_or_default().into_iter().map(|(name, text)| (name, parse(text))).collect()
}

fn write(list: BTreeMap<String, Amount>) -> BTreeMap<String, ApiQuantity> {
    list.into_iter().map(|(name, amount)| (name, amount.text)).collect()
}

#[cfg(test)]
mod tests;
