//! In which order parts of the machine are considered: the fullest first, then the lowest number.
//!
//! Within an order, parts of one larger part stay together: cores go socket by socket, for example. A part without free
//! CPUs is in no order.

use std::collections::{BTreeMap, BTreeSet};

use crate::logic::resources::cpu_manager::cpu_set::CpuSet;
use crate::logic::resources::cpu_manager::topology::{CpuInfo, CpuTopology};

/// The free CPUs of a machine.
pub(super) struct Free<'a> {
    pub(super) topology: &'a CpuTopology,
    pub(super) cpus: CpuSet,
}

impl Free<'_> {
    /// NUMA nodes.
    pub(super) fn nodes(&self) -> Vec<u8> {
        if self.topology.nodes_contain_sockets() {
            return self.sorted(self.topology.nodes().keys().copied(), self.topology.nodes());
        }
        let of_socket = |socket: u32| self.within(&self.topology.sockets()[&socket], |info| info.node);
        let nodes = self.sockets().into_iter().flat_map(|socket| self.sorted(of_socket(socket), self.topology.nodes()));
        once(nodes)
    }

    /// Sockets.
    pub(super) fn sockets(&self) -> Vec<u32> {
        if !self.topology.nodes_contain_sockets() {
            return self.sorted(self.topology.sockets().keys().copied(), self.topology.sockets());
        }
        let of_node = |node: u8| self.within(&self.topology.nodes()[&node], |info| info.socket);
        let sockets = self.nodes().into_iter().flat_map(|node| self.sorted(of_node(node), self.topology.sockets()));
        once(sockets)
    }

    /// Shared caches.
    pub(super) fn uncores(&self) -> Vec<u32> {
        let of_node = |node: u8| self.within(&self.topology.nodes()[&node], |info| info.uncore);
        once(self.nodes().into_iter().flat_map(|node| self.sorted(of_node(node), self.topology.uncores())))
    }

    /// Cores.
    pub(super) fn cores(&self) -> Vec<u32> {
        let cores_of = |part: &CpuSet| self.sorted(self.within(part, |info| info.core), self.topology.cores());
        if self.topology.nodes_contain_sockets() {
            once(self.sockets().into_iter().flat_map(|socket| cores_of(&self.topology.sockets()[&socket])))
        } else {
            once(self.nodes().into_iter().flat_map(|node| cores_of(&self.topology.nodes()[&node])))
        }
    }

    /// Single CPUs, so that cores are used up one after the other.
    pub(super) fn cpus_packed(&self) -> Vec<u32> {
        let of_core = |core: u32| self.cpus.intersection(&self.topology.cores()[&core]);
        self.cores().into_iter().flat_map(|core| of_core(core).iter().collect::<Vec<_>>()).collect()
    }

    /// Single CPUs by their numbers within each socket, so that they are of different cores on most machines.
    pub(super) fn cpus_spread(&self) -> Vec<u32> {
        let of_socket = |socket: u32| self.cpus.intersection(&self.topology.sockets()[&socket]);
        self.sockets().into_iter().flat_map(|socket| of_socket(socket).iter().collect::<Vec<_>>()).collect()
    }

    /// The free CPUs of a NUMA node.
    pub(super) fn of_node(&self, node: u8) -> CpuSet {
        self.topology.nodes().get(&node).map(|cpus| cpus.intersection(&self.cpus)).unwrap_or_default()
    }

    /// Which parts have free CPUs within another part.
    pub(super) fn within<Id: Ord>(&self, part: &CpuSet, id: impl Fn(&CpuInfo) -> Id) -> BTreeSet<Id> {
        self.cpus.intersection(part).iter().filter_map(|cpu| self.topology.info(cpu)).map(id).collect()
    }

    fn sorted<Id: Ord + Copy>(&self, ids: impl IntoIterator<Item = Id>, parts: &BTreeMap<Id, CpuSet>) -> Vec<Id> {
        let free = |id: Id| parts.get(&id).map_or(0, |part| part.common(&self.cpus));
        let mut sorted: Vec<_> = ids.into_iter().map(|id| (free(id), id)).filter(|(free, _)| *free > 0).collect();
        sorted.sort_unstable();
        sorted.into_iter().map(|(_, id)| id).collect()
    }
}

/// Each id where it comes first: a part that lies in two larger ones is considered once.
fn once<Id: Ord + Copy>(ids: impl Iterator<Item = Id>) -> Vec<Id> {
    let mut seen = BTreeSet::new();
    ids.filter(|id| seen.insert(*id)).collect()
}
