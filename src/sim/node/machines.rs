//! Machines that a simulated node can be: CPUs and NUMA nodes as data.
//!
//! `FixedNodeFacts::with_topology` makes a host of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::MEMORY;
use crate::logic::resources::allocations::ResourceManagers;
use crate::logic::resources::cpu_manager::options::StaticOptions;
use crate::logic::resources::cpu_manager::{
    CpuInfo, CpuPolicy, CpuSet, MachineTopology, NumaNode, PodLevelGates, StaticPolicy, StaticSettings,
};
use crate::logic::resources::memory_manager::{self, Gates, MemoryManager, MemoryPolicy, NodeMemory, Reserved};
use crate::logic::resources::topology::admission::TopologyManager;
use crate::logic::resources::topology::machine::NumaNodes;
use crate::logic::resources::topology::policy::{Options, Policy, PolicyKind, Scope};

const GIBIBYTE: u64 = 1 << 30;
/// Distances of a node to itself, to another node of its socket, and of a node of another socket.
const DISTANCES: [u64; 3] = [10, 12, 32];

/// A machine whose sockets, NUMA nodes, caches and cores are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Sockets.
    pub sockets: u8,
    /// NUMA nodes of a socket.
    pub nodes: u8,
    /// Caches of a NUMA node that some of its cores share.
    pub caches: u8,
    /// Cores at a cache.
    pub cores: u8,
    /// Threads of a core. Second threads have numbers after all first ones, as on most machines.
    pub threads: u8,
    /// Memory of a NUMA node, in GiB.
    pub gibibytes: u64,
}

/// Two sockets of 64 cores with two threads; four NUMA nodes a socket, eight cores to a cache.
pub const EPYC: Machine = Machine { sockets: 2, nodes: 4, caches: 2, cores: 8, threads: 2, gibibytes: 64 };
/// Four sockets of ten cores with two threads.
pub const XEON: Machine = Machine { sockets: 4, nodes: 1, caches: 1, cores: 10, threads: 2, gibibytes: 96 };
/// Four cores with two threads.
pub const LAPTOP: Machine = Machine { sockets: 1, nodes: 1, caches: 1, cores: 4, threads: 2, gibibytes: 16 };
/// Sixteen cores without threads, four to a cache.
pub const ARM64: Machine = Machine { sockets: 1, nodes: 1, caches: 4, cores: 4, threads: 1, gibibytes: 32 };

impl Machine {
    /// Its CPUs and NUMA nodes.
    pub fn topology(self) -> MachineTopology {
        let [caches, cores] = [self.caches, self.cores].map(u32::from);
        let nodes = u32::from(self.sockets) * u32::from(self.nodes);
        let all = nodes * caches * cores;
        let mut cpus: Vec<CpuInfo> = Vec::new();
        for thread in 0..u32::from(self.threads) {
            for core in 0..all {
                let cache = core / cores;
                let node = cache / caches;
                let socket = node / u32::from(self.nodes);
                let node = u8::try_from(node).expect("invariant: a machine of few NUMA nodes");
                // A cache that the whole node shares is none of its own.
                let uncore = if self.caches > 1 { cache } else { socket };
                cpus.push(CpuInfo { cpu: thread * all + core, core, socket, node, uncore });
            }
        }
        let numbers = 0..self.sockets * self.nodes;
        let distance = |one: u8, other: u8| match (one == other, one / self.nodes == other / self.nodes) {
            (true, _) => DISTANCES[0],
            (false, true) => DISTANCES[1],
            (false, false) => DISTANCES[2],
        };
        let node = |number: u8| NumaNode {
            memory_bytes: self.gibibytes * GIBIBYTE,
            huge_pages: BTreeMap::from([(2048, 0), (1024 * 1024, 0)]),
            distances: numbers.clone().map(|other| distance(number, other)).collect(),
        };
        MachineTopology { cpus, nodes: numbers.clone().map(|number| (number, node(number))).collect() }
    }

    /// Managers that give Guaranteed pods CPUs and memory of their own, close together where that can be; the first core is
    /// kept for the host, and 1 GiB of the first NUMA node.
    pub fn managers(self) -> ResourceManagers {
        let topology = self.topology();
        let cpus = topology.cpu_topology().expect("invariant: a machine has CPUs");
        let gates = PodLevelGates { resources: true, managers: false };
        let settings = StaticSettings {
            options: StaticOptions::default(),
            reserved: Quantity::from_units(i64::from(self.threads), Format::DecimalSi),
            reserved_cpus: CpuSet::default(),
            single_numa_node: false,
            gates,
        };
        let policy = StaticPolicy::new(Arc::new(cpus), &settings).expect("invariant: a core is kept");
        let distances = topology.nodes.iter().map(|(number, node)| (*number, node.distances.clone()));
        let aligning = Policy::new(PolicyKind::BestEffort, Options::default(), NumaNodes::new(distances));
        let aligning = TopologyManager {
            policy: aligning.expect("invariant: no machine has more than eight NUMA nodes"),
            scope: Scope::Container,
            pod_level: false,
        };
        let memory_of = |node: &NumaNode| NodeMemory { total: node.memory_bytes, huge_pages: node.huge_pages.clone() };
        let nodes = topology.nodes.iter().map(|(number, node)| (*number, memory_of(node))).collect();
        let kept = Reserved::from([(0, BTreeMap::from([(MEMORY.to_owned(), GIBIBYTE)]))]);
        let gates = Gates { pod_level_resources: true, pod_level_managers: false };
        let memory = MemoryManager::new(MemoryPolicy::Static, gates, &memory_manager::Machine { nodes }, &kept);
        let managers = ResourceManagers::new(aligning, CpuPolicy::Static(policy), memory, true);
        managers.expect("invariant: CPUs are shared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::host::node_facts::FixedNodeFacts;

    #[test]
    fn machines_have_what_they_say() {
        for (machine, cpus, nodes, caches) in
            [(EPYC, 256, 8, 16), (XEON, 80, 4, 4), (LAPTOP, 8, 1, 1), (ARM64, 16, 1, 4)]
        {
            let topology = machine.topology();
            let of_cpus = topology.cpu_topology().expect("CPUs");
            assert_eq!((of_cpus.all().len(), of_cpus.nodes().len(), of_cpus.uncores().len()), (cpus, nodes, caches));
            assert_eq!(of_cpus.cpus_per_core(), usize::from(machine.threads));
            let host = FixedNodeFacts::of_a_small_node().with_topology(topology.clone());
            let of_host = host.facts.machine.expect("known");
            assert_eq!(usize::try_from(of_host.cpus), Ok(cpus));
            let bytes = u64::try_from(nodes).expect("few") * machine.gibibytes * GIBIBYTE;
            assert_eq!(u64::try_from(of_host.memory_bytes), Ok(bytes));
            assert_eq!(host.topology, topology);
        }
        assert_eq!(EPYC.topology().nodes[&1].distances, [12, 10, 12, 12, 32, 32, 32, 32]);
    }
}
