//! The NUMA nodes of the machine and how far they are from each other.
//!
//! Pure. Upstream: `NUMAInfo`.

use std::collections::BTreeMap;

use super::hints::NumaMask;

/// The NUMA nodes of the machine and their distances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNodes {
    nodes: NumaMask,
    distances: BTreeMap<u8, Vec<u64>>,
}

/// Distances are asked for, and the kernel has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error getting NUMA distances from cadvisor")]
pub struct NoDistances;

impl NumaNodes {
    /// The nodes with what `/sys/devices/system/node/node*/distance` says of each; nothing where the file is missing.
    pub fn new(distances: impl IntoIterator<Item = (u8, Vec<u64>)>) -> Self {
        let distances: BTreeMap<u8, Vec<u64>> = distances.into_iter().collect();
        Self { nodes: distances.keys().copied().collect(), distances }
    }

    /// All nodes.
    pub fn all(&self) -> NumaMask {
        self.nodes
    }

    /// Upstream refuses to prefer close nodes on a machine without distances.
    ///
    /// # Errors
    /// [`NoDistances`] when a node has none.
    pub fn check_distances(&self) -> Result<(), NoDistances> {
        if self.distances.values().any(Vec::is_empty) { Err(NoDistances) } else { Ok(()) }
    }

    /// The sum of all distances within a set of nodes. Of sets with as many nodes, the order of the sums is that of
    /// the averages that upstream compares.
    pub fn spread(&self, nodes: NumaMask) -> u64 {
        let distance =
            |from: u8, to: u8| self.distances.get(&from).and_then(|row| row.get(usize::from(to))).copied().unwrap_or(0);
        let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (from, to)));
        pairs.fold(0, |sum: u64, (from, to)| sum.saturating_add(distance(from, to)))
    }
}
