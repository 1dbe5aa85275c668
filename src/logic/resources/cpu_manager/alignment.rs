//! From which NUMA nodes a request for CPUs could be met: hints for the topology manager.
//!
//! Pure. Every set of NUMA nodes with enough free CPUs is a hint; sets as small as the machine allows are preferred.

use std::collections::BTreeMap;

use super::combinations::each_combination;
use super::cpu_set::CpuSet;
use super::policy::StaticPolicy;
use super::state::CpuState;
use super::topology::CpuTopology;
use crate::logic::resources::CPU;
use crate::logic::resources::topology::hints::{Hint, Hints, NumaMask};

/// No preference; also of containers that run on shared CPUs.
pub(super) fn none() -> Hints {
    Hints::new()
}

/// Cannot be met from anywhere.
pub(super) fn impossible() -> Hints {
    of(vec![])
}

fn of(hints: Vec<Hint>) -> Hints {
    BTreeMap::from([(CPU.to_owned(), Some(hints))])
}

impl StaticPolicy {
    /// Hints of a request that is not met yet; `reusable` belong to the pod already.
    pub(super) fn hints_for(&self, state: &CpuState, reusable: &CpuSet, requested: usize) -> Hints {
        self.hints_among(&self.available(state), reusable, requested)
    }

    /// Hints of a request that can be met by these CPUs. All of the `reusable` ones are in each hint's nodes.
    pub(super) fn hints_among(&self, available: &CpuSet, reusable: &CpuSet, requested: usize) -> Hints {
        let topology = self.topology();
        let nodes: Vec<Node> =
            topology.nodes().iter().map(|(id, all)| Node::new(*id, all, available, reusable)).collect();
        let must_have = topology.nodes_of(reusable);
        let mut fewest = topology.nodes().len();
        let mut fitting = Vec::new();
        let mut consider = |chosen: &[usize]| {
            let sum = |of: fn(&Node) -> usize| chosen.iter().map(|at| of(&nodes[*at])).sum::<usize>();
            if sum(|node| node.all) >= requested {
                fewest = fewest.min(chosen.len());
            }
            let mask: NumaMask = chosen.iter().map(|at| nodes[*at].id).collect();
            if must_have.is_within(mask) && sum(|node| node.free) >= requested {
                fitting.push((mask, chosen.len()));
            }
            true
        };
        // The smallest sets first, as upstream's `IterateBitMasks`.
        (1..=nodes.len()).for_each(|size| each_combination(nodes.len(), size, &mut consider));
        let by_socket = self.options().align_by_socket.then(|| sockets_needed(topology, fewest)).flatten();
        let hint = |(mask, count): (NumaMask, usize)| {
            let is_aligned = by_socket.is_some_and(|sockets| topology.sockets_of_nodes(mask).len() == sockets);
            Hint { nodes: Some(mask), preferred: is_aligned || count == fewest }
        };
        of(fitting.into_iter().map(hint).collect())
    }
}

/// How many sockets a request needs that needs this many NUMA nodes; `None` where a node has several sockets.
fn sockets_needed(topology: &CpuTopology, nodes: usize) -> Option<usize> {
    let nodes_per_socket = topology.nodes().len() / topology.sockets().len();
    (nodes_per_socket > 0).then(|| nodes.div_ceil(nodes_per_socket))
}

/// CPUs of a NUMA node, counted.
struct Node {
    id: u8,
    all: usize,
    free: usize,
}

impl Node {
    fn new(id: u8, all: &CpuSet, available: &CpuSet, reusable: &CpuSet) -> Self {
        Self { id, all: all.len(), free: all.common(available) + all.common(reusable) }
    }
}
