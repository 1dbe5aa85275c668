//! Whether a state from the disk fits this machine and configuration (RES-34).
//!
//! Pure. Upstream: `validateState` of `policy_static.go`.

use super::manager::MemoryManager;
use super::state::{Block, MachineState, MemoryTable, NodeState, occupy};

/// Why a state cannot be used; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Containers hold memory of no machine.
    #[error("[memorymanager] machine state can not be empty when it has memory assignments")]
    NoMachine,
    /// A container holds memory of a node that is not there.
    #[error(
        "[memorymanager] (pod: {pod}, container: {container}) the memory assignment uses the NUMA that does not exist"
    )]
    NoNode {
        /// The UID of the pod.
        pod: String,
        /// The container; empty for the pod as a whole.
        container: String,
    },
    /// A container holds a kind of memory that is not there.
    #[error(
        "[memorymanager] (pod: {pod}, container: {container}) the memory assignment uses memory resource that does \
         not exist"
    )]
    NoKind {
        /// The UID of the pod.
        pod: String,
        /// The container; empty for the pod as a whole.
        container: String,
    },
    /// The machine or the reservations changed, or the sums are wrong.
    #[error("[memorymanager] the expected machine state is different from the real one")]
    OtherMachine,
}

impl MemoryManager {
    /// Compares the state with what this machine would have with the same containers; an empty one is begun anew.
    pub(super) fn validate(&mut self) -> Result<(), StateError> {
        if self.state.machine.is_empty() {
            if !self.state.assignments.is_empty() {
                return Err(StateError::NoMachine);
            }
            self.state.machine.clone_from(&self.unused);
            return Ok(());
        }
        let mut expected = self.unused.clone();
        for (uid, containers) in &self.state.assignments {
            let whole = self.state.pods.get(uid).filter(|_| self.gates.pod_level_managers);
            match whole.filter(|entry| !entry.memory_blocks.is_empty()) {
                Some(entry) => expect(&mut expected, &entry.memory_blocks, uid, "")?,
                None => containers.iter().try_for_each(|(name, blocks)| expect(&mut expected, blocks, uid, name))?,
            }
        }
        let fits = self.state.machine.len() == expected.len()
            && self.state.machine.iter().all(|(cell, found)| {
                expected.get(cell).is_some_and(|node| equal_nodes(&self.state.machine, found, &expected, node))
            });
        if fits { Ok(()) } else { Err(StateError::OtherMachine) }
    }
}

fn expect(machine: &mut MachineState, blocks: &[Block], uid: &str, container: &str) -> Result<(), StateError> {
    let (pod, container) = (uid.to_owned(), container.to_owned());
    for block in blocks {
        let nodes = block.numa_affinity.iter().map(|cell| machine.get(cell));
        for node in nodes {
            let Some(node) = node else { return Err(StateError::NoNode { pod, container }) };
            if !node.memory_map.contains_key(&block.kind) {
                return Err(StateError::NoKind { pod, container });
            }
        }
        occupy(machine, &block.numa_affinity, &block.kind, block.size);
    }
    Ok(())
}

/// As upstream: how much of a group's memory is held counts, not on which of its nodes, because this depends on the
/// order in which containers came.
fn equal_nodes(found: &MachineState, one: &NodeState, expected: &MachineState, other: &NodeState) -> bool {
    let sorted = |node: &NodeState| {
        let mut cells = node.cells.clone();
        cells.sort_unstable();
        cells
    };
    let sum = |machine: &MachineState, kind: &str, of: fn(&MemoryTable) -> u64| {
        let tables = one.cells.iter().filter_map(|cell| machine.get(cell)?.memory_map.get(kind));
        tables.fold(0_u64, |sum, table| sum.saturating_add(of(table)))
    };
    let equal_kind = |(kind, table): (&String, &MemoryTable)| {
        let fixed = |table: &MemoryTable| (table.total, table.system_reserved, table.allocatable);
        other.memory_map.get(kind).map(fixed) == Some(fixed(table))
            && sum(found, kind, |table| table.free) == sum(expected, kind, |table| table.free)
            && sum(found, kind, |table| table.reserved) == sum(expected, kind, |table| table.reserved)
    };
    one.number_of_assignments == other.number_of_assignments
        && sorted(one) == sorted(other)
        && one.memory_map.len() == other.memory_map.len()
        && one.memory_map.iter().all(equal_kind)
}
