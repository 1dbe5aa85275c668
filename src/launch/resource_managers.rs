//! The managers of CPUs and memory for this machine, and whether they can go on from their files of state.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::config::Invocation;
use crate::config::validate::cpus::cpu_policy;
use crate::config::validate::managers::{Found, managers};
use crate::logic::formats::cpu_list::CpuList;
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::CPU;
use crate::logic::resources::allocations::{ResourceManagers, StateFiles};
use crate::logic::resources::cpu_manager::options::StaticOptions;
use crate::logic::resources::cpu_manager::{
    CpuPolicy, CpuSet, MachineTopology, NumaNode, PodLevelGates, StaticPolicy, StaticSettings,
};
use crate::logic::resources::memory_manager::{Machine, NodeMemory};
use crate::logic::resources::topology::machine::NumaNodes;

/// The managers of the configuration, as they are before any pod.
///
/// # Errors
/// All that does not fit the machine, in upstream's texts.
pub(super) fn resource_managers(
    invocation: &Invocation,
    memory_bytes: i64,
    machine: &MachineTopology,
) -> Result<ResourceManagers, String> {
    let (config, gates) = (&invocation.config, &invocation.gates);
    let reserved = super::node::reservations(config)?;
    let cpus = cpu_reservation(&reserved);
    let nodes = &machine.nodes;
    let memory_of = |node: &NumaNode| NodeMemory { total: node.memory_bytes, huge_pages: node.huge_pages.clone() };
    let found = Found {
        numa: NumaNodes::new(nodes.iter().map(|(number, node)| (*number, node.distances.clone()))),
        memory: Machine { nodes: nodes.iter().map(|(number, node)| (*number, memory_of(node))).collect() },
        memory_bytes,
        reserved,
    };
    let pod_level = PodLevelGates {
        resources: gates.enabled("PodLevelResources"),
        managers: gates.enabled("PodLevelResourceManagers"),
    };
    let mut errors = vec![];
    let made = managers(config, gates, &found);
    let made = made.map_err(|wrong| errors.extend(wrong.iter().map(ToString::to_string))).ok();
    let options = cpu_policy(config, gates);
    let policy = match options.map_err(|wrong| errors.extend(wrong.iter().map(ToString::to_string))) {
        Ok(None) => Some(CpuPolicy::None { gates: pod_level }),
        Ok(Some(options)) => static_policy(invocation, machine, options, pod_level, cpus)
            .map_err(|wrong| errors.push(wrong))
            .ok()
            .map(CpuPolicy::Static),
        Err(()) => None,
    };
    let lifts_quota = gates.enabled("DisableCPUQuotaWithExclusiveCPUs");
    match (made, policy) {
        (Some(made), Some(policy)) => ResourceManagers::new(made.topology, policy, made.memory, lifts_quota)
            .map_err(|error| format!("start cpu manager error: {error}")),
        _ => Err(errors.join("; ")),
    }
}

fn cpu_reservation(reserved: &[crate::logic::resources::ResourceList; 2]) -> Quantity {
    let amounts = reserved.iter().filter_map(|list| list.get(CPU));
    amounts.fold(Quantity::from_units(0, Format::DecimalSi), |sum, amount| sum.plus(*amount))
}

fn static_policy(
    invocation: &Invocation,
    machine: &MachineTopology,
    options: StaticOptions,
    gates: PodLevelGates,
    reserved: Quantity,
) -> Result<StaticPolicy, String> {
    let config = &invocation.config;
    let topology = machine.cpu_topology().map_err(|error| error.to_string())?;
    let named = CpuList::parse(&config.reserved_system_cpus).map(|list| list.to_string()).unwrap_or_default();
    let settings = StaticSettings {
        options,
        reserved,
        reserved_cpus: CpuSet::parse(&named).map_err(|error| format!("reservedSystemCPUs: {error}"))?,
        single_numa_node: config.topology_manager_policy == "single-numa-node",
        gates,
    };
    StaticPolicy::new(Arc::new(topology), &settings).map_err(|error| error.to_string())
}

/// Checks that the managers can go on from the files below the root directory.
///
/// # Errors
/// In upstream's words, which name the file; also when a file is there and cannot be read.
pub(super) fn check_state(managers: &ResourceManagers, root_dir: &Path) -> Result<(), String> {
    let read = |name: &str| match fs::read(root_dir.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("read {}: {error}", root_dir.join(name).display())),
    };
    // The file of devices ends no start, and is read later.
    let files = StateFiles { cpus: read(StateFiles::CPUS)?, memory: read(StateFiles::MEMORY)?, devices: None };
    let path = |name: &str| root_dir.join(name).display().to_string();
    managers.restored(&files, path).map(drop).map_err(|error| error.to_string())
}
