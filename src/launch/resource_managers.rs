//! The managers of CPUs and memory for this machine, and whether they and the claims of pods can go on from their files of
//! state.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::config::Invocation;
use crate::config::validate::cpus::cpu_policy;
use crate::config::validate::managers::{Found, managers};
use crate::logic::formats::cpu_list::CpuList;
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::plugins::claims::checkpoint::{self, Unrestorable};
use crate::logic::resources::CPU;
use crate::logic::resources::allocations::{ResourceManagers, RestoreError, StateFiles};
use crate::logic::resources::cpu_manager::options::StaticOptions;
use crate::logic::resources::cpu_manager::{
    CpuPolicy, CpuSet, MachineTopology, NumaNode, PodLevelGates, StaticPolicy, StaticSettings,
};
use crate::logic::resources::memory_manager::{Machine, NodeMemory};
use crate::logic::resources::topology::machine::NumaNodes;
use crate::platform::files::whole_file::write_whole;

/// The end of the name of a file that was set aside.
const UNFIT: &str = ".unfit";

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

/// Checks that the managers, and the claims of pods, can go on from the files below the root directory. With `repairs`, a
/// manager's file that does not fit is renamed to `<name>.unfit` instead, and the manager begins anew: running pods keep
/// running, and are given hardware as far as they can be (PAIN-19). An older `.unfit` gives way. A manager without a file begins
/// one.
///
/// # Errors
/// In upstream's words, which name the file; also when a file is there and cannot be read, or not be renamed.
pub(super) fn check_state(managers: &ResourceManagers, root_dir: &Path, repairs: bool) -> Result<(), String> {
    let path = |name: &str| root_dir.join(name).display().to_string();
    let read = |name: &str| {
        crate::platform::files::checkpoints::read_now(&root_dir.join(name))
            .map_err(|error| format!("read {}: {error}", path(name)))
    };
    // The file of devices ends no start, and is read later.
    let mut files = StateFiles { cpus: read(StateFiles::CPUS)?, memory: read(StateFiles::MEMORY)?, devices: None };
    while let Err(error) = managers.restored(&files, path) {
        let (name, file) = match &error {
            RestoreError::CpuFile(_) | RestoreError::CpuState(_) => (StateFiles::CPUS, &mut files.cpus),
            RestoreError::Memory(_) => (StateFiles::MEMORY, &mut files.memory),
        };
        // Without its file a manager has nothing that could be wrong.
        if !repairs || file.take().is_none() {
            return Err(error.to_string());
        }
        let aside = path(&format!("{name}{UNFIT}"));
        fs::rename(root_dir.join(name), &aside).map_err(|failed| format!("{error}; set it aside: {failed}"))?;
        tracing::warn!(%error, aside, "state file does not fit; it is set aside and begun anew");
    }
    begin_state(managers, files, root_dir);
    match read(checkpoint::FILE_NAME)? {
        Some(bytes) => checkpoint::parse(&bytes).map(drop).map_err(|error| Unrestorable(error).to_string()),
        None => Ok(()),
    }
}

/// Writes the files of state that are not there, as upstream does before it serves: programs beside the agent read them. A file
/// that cannot be written ends no start; it is written with the next change.
fn begin_state(managers: &ResourceManagers, there: StateFiles, root_dir: &Path) {
    let first = managers.files();
    let missing = [
        (StateFiles::CPUS, first.cpus.filter(|_| there.cpus.is_none())),
        (StateFiles::MEMORY, first.memory.filter(|_| there.memory.is_none())),
    ];
    for (name, bytes) in missing {
        let Some(bytes) = bytes else { continue };
        if let Err(error) = write_whole(&root_dir.join(name), &bytes, 0o600) {
            tracing::warn!(%error, name, "a state file is not there yet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PAIN-19: another policy, or a broken file, ends the start as upstream, or is repaired where asked.
    #[test]
    fn pain_19_a_state_file_that_does_not_fit_is_set_aside_where_asked() {
        let managers = ResourceManagers::default();
        for (name, wrong) in [
            (StateFiles::CPUS, r#"{"policyName":"static","defaultCpuSet":"0-3","checksum":611748604}"#),
            (StateFiles::CPUS, "{"),
            (StateFiles::MEMORY, "{"),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let at = |name: &str| folder.path().join(name);
            fs::write(at(name), wrong).expect("written");
            let refused = check_state(&managers, folder.path(), false).expect_err("it does not fit");
            assert!(refused.contains("please drain this node"), "{refused}");
            assert_eq!(fs::read_to_string(at(name)).expect("kept"), wrong, "nothing is lost");

            fs::write(at(&format!("{name}{UNFIT}")), "older").expect("written");
            check_state(&managers, folder.path(), true).expect("repaired");
            let begun = fs::read_to_string(at(name)).expect("begun anew");
            assert_ne!(begun, wrong);
            check_state(&managers, folder.path(), false).expect("it fits");
            assert_eq!(fs::read_to_string(at(&format!("{name}{UNFIT}"))).expect("kept"), wrong);
        }
    }

    /// RES-29, RES-34: upstream has both before it serves.
    #[test]
    fn res_29_state_files_are_there_before_the_agent_serves() {
        let (managers, folder) = (ResourceManagers::default(), tempfile::tempdir().expect("a folder"));
        let files = managers.files();
        check_state(&managers, folder.path(), false).expect("nothing is wrong");
        for (name, expected) in [(StateFiles::CPUS, files.cpus), (StateFiles::MEMORY, files.memory)] {
            assert_eq!(fs::read(folder.path().join(name)).ok(), expected, "{name}");
        }
    }

    #[test]
    fn a_file_that_fits_stays_and_one_that_cannot_be_read_is_an_error() {
        let managers = ResourceManagers::default();
        let folder = tempfile::tempdir().expect("a folder");
        let files = managers.files();
        fs::write(folder.path().join(StateFiles::CPUS), files.cpus.expect("one")).expect("written");
        fs::create_dir(folder.path().join(StateFiles::MEMORY)).expect("made");
        let refused = check_state(&managers, folder.path(), true).expect_err("a directory is no file");
        assert!(refused.contains(StateFiles::MEMORY), "{refused}");
        fs::remove_dir(folder.path().join(StateFiles::MEMORY)).expect("removed");
        check_state(&managers, folder.path(), true).expect("fits");
        assert!(folder.path().join(StateFiles::CPUS).exists());
    }
}
