//! Allocations of memory, and the rest of it; the form that the state file has (RES-34).
//!
//! Pure. Upstream: `memorymanager/state`. Numbers of nodes stay as wide as Go's, because a file may come from another
//! machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::logic::resources::topology::hints::NumaMask;

/// The memory of one kind on one NUMA node, in bytes; upstream's `MemoryTable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryTable {
    /// All that there is.
    pub total: u64,
    /// Kept for the system and the agents.
    pub system_reserved: u64,
    /// The bytes that containers may hold.
    pub allocatable: u64,
    /// The bytes that they hold.
    pub reserved: u64,
    /// The bytes that they may still get.
    pub free: u64,
}

/// One NUMA node; upstream's `NUMANodeState`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeState {
    /// How many blocks lie on the node. A container with memory and huge pages has two.
    pub number_of_assignments: i64,
    /// The memory by kind.
    pub memory_map: BTreeMap<String, MemoryTable>,
    /// The node, and the nodes with which it gives memory together.
    pub cells: Vec<i64>,
}

/// Memory that somebody holds; upstream's `Block`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Block {
    /// On these nodes together.
    pub numa_affinity: Vec<i64>,
    /// `memory` or a size of huge pages.
    #[serde(rename = "type")]
    pub kind: String,
    /// In bytes.
    pub size: u64,
}

/// The allocation of a pod as a whole (`PodLevelResourceManagers`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodEntry {
    /// The blocks that its containers share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_blocks: Vec<Block>,
}

/// The nodes by their numbers.
pub type MachineState = BTreeMap<i64, NodeState>;
/// Blocks by UID of the pod and name of the container.
pub type Assignments = BTreeMap<String, BTreeMap<String, Vec<Block>>>;

/// Allocations of memory, and the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The rest.
    pub machine: MachineState,
    /// Allocations of containers.
    pub assignments: Assignments,
    /// Allocations of pods as a whole, by UID.
    pub pods: BTreeMap<String, PodEntry>,
}

/// The numbers of nodes as the state has them.
pub(super) fn cells(nodes: NumaMask) -> Vec<i64> {
    nodes.iter().map(i64::from).collect()
}

/// The nodes that a mask can hold; a machine has no others.
pub(super) fn mask(cells: &[i64]) -> NumaMask {
    cells.iter().filter_map(|cell| u8::try_from(*cell).ok()).collect()
}

impl Block {
    /// Of these nodes.
    pub(super) fn new(nodes: NumaMask, kind: &str, size: u64) -> Self {
        Self { numa_affinity: cells(nodes), kind: kind.to_owned(), size }
    }

    /// Its nodes.
    pub fn nodes(&self) -> NumaMask {
        mask(&self.numa_affinity)
    }
}

impl State {
    /// The allocation of a container; `None`: it was given nothing yet.
    pub fn blocks(&self, uid: &str, container: &str) -> Option<&[Block]> {
        self.assignments.get(uid)?.get(container).map(Vec::as_slice)
    }

    pub(super) fn set_blocks(&mut self, uid: &str, container: &str, blocks: Vec<Block>) {
        self.assignments.entry(uid.to_owned()).or_default().insert(container.to_owned(), blocks);
    }

    /// Takes a container out. Its blocks are still counted as held.
    pub(super) fn delete(&mut self, uid: &str, container: &str) -> Option<Vec<Block>> {
        let containers = self.assignments.get_mut(uid)?;
        let blocks = containers.remove(container);
        if containers.is_empty() {
            self.assignments.remove(uid);
        }
        blocks
    }

    /// The containers that the state knows, by UID of the pod.
    pub(super) fn known(&self) -> BTreeSet<(String, String)> {
        let of_pod = |(uid, containers): (&String, &BTreeMap<String, Vec<Block>>)| {
            containers.keys().map(|name| (uid.clone(), name.clone())).collect::<Vec<_>>()
        };
        self.assignments.iter().flat_map(of_pod).collect()
    }
}

/// Counts memory of these nodes as held: from the first node as much as it has, the rest from the next.
pub(super) fn occupy(machine: &mut MachineState, affinity: &[i64], kind: &str, size: u64) {
    let mut left = size;
    for cell in affinity {
        let Some(node) = machine.get_mut(cell) else { continue };
        node.number_of_assignments += 1;
        node.cells = affinity.to_vec();
        if let Some(table) = node.memory_map.get_mut(kind) {
            let taken = table.free.min(left);
            table.reserved += taken;
            table.free -= taken;
            left -= taken;
        }
    }
}

/// The reverse of [`occupy`].
pub(super) fn release(machine: &mut MachineState, blocks: &[Block]) {
    for block in blocks {
        let mut left = block.size;
        for cell in &block.numa_affinity {
            let Some(node) = machine.get_mut(cell) else { continue };
            node.number_of_assignments -= 1;
            if node.number_of_assignments == 0 {
                node.cells = vec![*cell];
            }
            if let Some(table) = node.memory_map.get_mut(&block.kind) {
                let returned = table.reserved.min(left);
                table.free += returned;
                table.reserved -= returned;
                left -= returned;
            }
        }
    }
}
