//! The topology and memory managers: their options, and whether they fit the machine (RES-33, RES-38).
//!
//! The texts are upstream's, which tells one of them at a time and while it starts to run.

use super::Review;
use super::eviction::thresholds;
use crate::config::gates::FeatureGates;
use crate::config::types::{Config, MemoryReservation};
use crate::logic::eviction::signal::Signal;
use crate::logic::model::quantity::{Format, Quantity, QuantityError};
use crate::logic::resources::memory_manager::{
    Gates, Machine, MemoryManager, MemoryPolicy, Reservation, ReservationError, Reserved, UnknownPolicy, reserved,
};
use crate::logic::resources::topology::admission::TopologyManager;
use crate::logic::resources::topology::machine::NumaNodes;
use crate::logic::resources::topology::policy::{Options, Policy, PolicyKind, Scope, TopologyError};
use crate::logic::resources::{MEMORY, ResourceList};

/// The machine and its reservations, as these managers must know them.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The NUMA nodes and their distances.
    pub numa: NumaNodes,
    /// The memory of each.
    pub memory: Machine,
    /// All memory of the machine, in bytes.
    pub memory_bytes: i64,
    /// `kubeReserved` and `systemReserved`.
    pub reserved: [ResourceList; 2],
}

/// The managers as they are before any pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managers {
    /// Aligns.
    pub topology: TopologyManager,
    /// Gives memory.
    pub memory: MemoryManager,
}

/// Why the managers cannot start; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// Of the topology manager.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// No such policy of the memory manager.
    #[error(transparent)]
    MemoryPolicy(#[from] UnknownPolicy),
    /// Of `reservedMemory`.
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    /// An amount of `reservedMemory` that is none.
    #[error("reservedMemory of NUMA node {node}, {kind}: {error}")]
    NoQuantity {
        /// The NUMA node.
        node: i32,
        /// The kind of memory.
        kind: String,
        /// The fault.
        error: QuantityError,
    },
}

impl Review<'_> {
    /// Options that no machine makes right. The policy `none` has upstream look at none of them.
    pub(super) fn topology_options(&mut self) {
        if self.config.topology_manager_policy != "none"
            && let Err(errors) = Options::parse(&self.config.topology_manager_policy_options)
        {
            self.errors.extend(errors.iter().map(ToString::to_string));
        }
    }
}

/// The managers for this machine.
///
/// # Errors
/// All that is wrong, in upstream's order.
pub fn managers(config: &Config, gates: &FeatureGates, found: &Found) -> Result<Managers, Vec<ManagerError>> {
    let mut errors = Vec::new();
    let topology = topology(config, gates, found).map_err(|wrong| errors.extend(wrong)).ok();
    let memory = memory(config, gates, found).map_err(|wrong| errors.extend(wrong)).ok();
    match (topology, memory) {
        (Some(topology), Some(memory)) => Ok(Managers { topology, memory }),
        _ => Err(errors),
    }
}

fn topology(config: &Config, gates: &FeatureGates, found: &Found) -> Result<TopologyManager, Vec<ManagerError>> {
    let one = |error: TopologyError| vec![ManagerError::from(error)];
    let kind: PolicyKind = config.topology_manager_policy.parse().map_err(one)?;
    let options = match kind {
        PolicyKind::None => Options::default(),
        _ => Options::parse(&config.topology_manager_policy_options)
            .map_err(|errors| errors.into_iter().map(ManagerError::from).collect::<Vec<_>>())?,
    };
    let policy = Policy::new(kind, options, found.numa.clone()).map_err(one)?;
    let scope: Scope = config.topology_manager_scope.parse().map_err(one)?;
    let pod_level = gates.enabled("PodLevelResources") && gates.enabled("PodLevelResourceManagers");
    Ok(TopologyManager { policy, scope, pod_level })
}

fn memory(config: &Config, gates: &FeatureGates, found: &Found) -> Result<MemoryManager, Vec<ManagerError>> {
    let policy: MemoryPolicy = config.memory_manager_policy.parse().map_err(|error| vec![ManagerError::from(error)])?;
    let reserved = match policy {
        MemoryPolicy::None => Reserved::new(),
        MemoryPolicy::Static => {
            let reservations = reservations(&config.reserved_memory)?;
            reserved(&found.memory, &node_reservation(config, found), &reservations)
                .map_err(|errors| errors.into_iter().map(ManagerError::from).collect::<Vec<_>>())?
        }
    };
    let gates = Gates {
        pod_level_resources: gates.enabled("PodLevelResources"),
        pod_level_managers: gates.enabled("PodLevelResourceManagers"),
    };
    Ok(MemoryManager::new(policy, gates, &found.memory, &reserved))
}

/// The node's reservation of each resource: upstream's `GetNodeAllocatableReservation`.
fn node_reservation(config: &Config, found: &Found) -> ResourceList {
    let mut sum = ResourceList::new();
    for (name, amount) in found.reserved.iter().flatten() {
        let total = sum.entry(name.clone()).or_default();
        *total = total.plus(*amount);
    }
    // Thresholds that cannot be read are refused before.
    let thresholds = thresholds(config).unwrap_or_default();
    let hard = thresholds.iter().find(|one| one.signal == Signal::MemoryAvailable && one.is_hard());
    if let Some(threshold) = hard {
        let total = sum.entry(MEMORY.to_owned()).or_default();
        *total = total.plus(threshold.value.of(Quantity::from_units(found.memory_bytes, Format::BinarySi)));
    }
    sum
}

fn reservations(written: &[MemoryReservation]) -> Result<Vec<Reservation>, Vec<ManagerError>> {
    let mut errors = Vec::new();
    let mut reservations = Vec::new();
    for MemoryReservation { numa_node, limits } in written {
        let mut amounts = ResourceList::new();
        for (kind, text) in limits {
            match Quantity::parse(text) {
                Ok(amount) => drop(amounts.insert(kind.clone(), amount)),
                Err(error) => errors.push(ManagerError::NoQuantity { node: *numa_node, kind: kind.clone(), error }),
            }
        }
        reservations.push(Reservation { node: *numa_node, limits: amounts });
    }
    if errors.is_empty() { Ok(reservations) } else { Err(errors) }
}
