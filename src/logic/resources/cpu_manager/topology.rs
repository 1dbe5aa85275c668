//! The machine's CPUs: which of them are threads of one core, share a cache, a NUMA node, a socket.
//!
//! Pure. `platform::host::topology` reads a [`MachineTopology`] from the kernel, as upstream's cAdvisor does; a
//! [`CpuTopology`] is made of it, as upstream's `topology.Discover` does.

use std::collections::BTreeMap;

use super::cpu_set::{CPU_NUMBERS_MAX, CpuSet};
use crate::logic::resources::topology::hints::NumaMask;

/// Where one logical CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuInfo {
    /// The CPU's number.
    pub cpu: u32,
    /// Its core: the lowest number among the core's CPUs, since the kernel's core ids repeat in each socket.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its NUMA node, below 64.
    pub node: u8,
    /// The cache that its core shares with others of the socket (L3); the socket's number where there is none.
    pub uncore: u32,
}

/// Why a machine's CPUs are no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There is none; upstream's text.
    #[error("could not detect number of cpus")]
    NoCpus,
    /// Listed twice; upstream's text.
    #[error("cpus provided are not unique")]
    Twice,
    /// Beyond every machine.
    #[error("CPU {0} is not below {CPU_NUMBERS_MAX}")]
    NoCpu(u32),
    /// Beyond what hints can say; upstream's `bitmask` has the same bound.
    #[error("NUMA node {0} is not below 64")]
    NoNode(u8),
}

/// The CPUs of a machine. Never changes while the agent runs, as upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTopology {
    infos: BTreeMap<u32, CpuInfo>,
    all: CpuSet,
    cores: BTreeMap<u32, CpuSet>,
    sockets: BTreeMap<u32, CpuSet>,
    nodes: BTreeMap<u8, CpuSet>,
    uncores: BTreeMap<u32, CpuSet>,
}

impl CpuTopology {
    /// The topology of these CPUs.
    ///
    /// # Errors
    /// When there is none, one twice, or one with a number that no machine has.
    pub fn new(cpus: impl IntoIterator<Item = CpuInfo>) -> Result<Self, TopologyError> {
        let mut topology = Self {
            infos: BTreeMap::new(),
            all: CpuSet::default(),
            cores: BTreeMap::new(),
            sockets: BTreeMap::new(),
            nodes: BTreeMap::new(),
            uncores: BTreeMap::new(),
        };
        for info in cpus {
            if info.cpu >= CPU_NUMBERS_MAX {
                return Err(TopologyError::NoCpu(info.cpu));
            }
            if info.node >= 64 {
                return Err(TopologyError::NoNode(info.node));
            }
            if topology.infos.insert(info.cpu, info).is_some() {
                return Err(TopologyError::Twice);
            }
            topology.all.insert(info.cpu);
            topology.cores.entry(info.core).or_default().insert(info.cpu);
            topology.sockets.entry(info.socket).or_default().insert(info.cpu);
            topology.nodes.entry(info.node).or_default().insert(info.cpu);
            topology.uncores.entry(info.uncore).or_default().insert(info.cpu);
        }
        if topology.infos.is_empty() { Err(TopologyError::NoCpus) } else { Ok(topology) }
    }

    /// Where a CPU is; `None` for one that the machine does not have.
    pub fn info(&self, cpu: u32) -> Option<&CpuInfo> {
        self.infos.get(&cpu)
    }

    /// All CPUs.
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// CPUs by core.
    pub fn cores(&self) -> &BTreeMap<u32, CpuSet> {
        &self.cores
    }

    /// CPUs by socket.
    pub fn sockets(&self) -> &BTreeMap<u32, CpuSet> {
        &self.sockets
    }

    /// CPUs by NUMA node.
    pub fn nodes(&self) -> &BTreeMap<u8, CpuSet> {
        &self.nodes
    }

    /// CPUs by the cache that their cores share.
    pub fn uncores(&self) -> &BTreeMap<u32, CpuSet> {
        &self.uncores
    }

    /// Logical CPUs of a core, rounded down where cores differ; upstream's `CPUsPerCore`. At least one.
    pub fn cpus_per_core(&self) -> usize {
        self.all.len() / self.cores.len()
    }

    /// Logical CPUs of a socket, rounded down; upstream's `CPUsPerSocket`.
    pub fn cpus_per_socket(&self) -> usize {
        self.all.len() / self.sockets.len()
    }

    /// Logical CPUs of a shared cache, rounded down; upstream's `CPUsPerUncore`.
    pub fn cpus_per_uncore(&self) -> usize {
        self.all.len() / self.uncores.len()
    }

    /// Whether a NUMA node contains at least one whole socket, so that nodes are taken before sockets.
    pub(super) fn nodes_contain_sockets(&self) -> bool {
        self.sockets.len() >= self.nodes.len()
    }

    /// All CPUs of these NUMA nodes.
    pub fn cpus_of_nodes(&self, nodes: NumaMask) -> CpuSet {
        let of_nodes = nodes.iter().filter_map(|node| self.nodes.get(&node));
        of_nodes.fold(CpuSet::default(), |cpus, more| cpus.union(more))
    }

    /// The sockets that these NUMA nodes have CPUs in.
    pub fn sockets_of_nodes(&self, nodes: NumaMask) -> Vec<u32> {
        let cpus = self.cpus_of_nodes(nodes);
        self.sockets.iter().filter(|(_, own)| !own.is_disjoint(&cpus)).map(|(socket, _)| *socket).collect()
    }

    /// The NUMA nodes of these CPUs. CPUs that the machine does not have are on none.
    pub fn nodes_of(&self, cpus: &CpuSet) -> NumaMask {
        self.nodes.iter().filter(|(_, own)| !own.is_disjoint(cpus)).map(|(node, _)| *node).collect()
    }

    /// These CPUs and every other thread of their cores.
    pub fn whole_cores_of(&self, cpus: &CpuSet) -> CpuSet {
        let touched = self.cores.values().filter(|own| !own.is_disjoint(cpus));
        touched.fold(CpuSet::default(), |all, core| all.union(core))
    }

    /// Whether all these CPUs share one cache; upstream's `CheckAlignment`.
    pub fn share_uncore(&self, cpus: &CpuSet) -> bool {
        cpus.len() <= 1 || self.uncores.values().any(|own| cpus.is_subset(own))
    }
}

/// CPUs that are online, and NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineTopology {
    /// In the order of their numbers.
    pub cpus: Vec<CpuInfo>,
    /// By number; also nodes without CPUs. A kernel without NUMA has a node for each socket, without memory.
    pub nodes: BTreeMap<u8, NumaNode>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNode {
    /// All its memory in bytes, huge pages too; 0 where the kernel does not say.
    pub memory_bytes: u64,
    /// How many huge pages there are, by size in KiB.
    pub huge_pages: BTreeMap<u64, u64>,
    /// How far each node is from this one, in the order of the nodes; empty where the kernel does not say.
    pub distances: Vec<u64>,
}

impl MachineTopology {
    /// The CPUs, to compute with.
    ///
    /// # Errors
    /// When there is none.
    pub fn cpu_topology(&self) -> Result<CpuTopology, TopologyError> {
        CpuTopology::new(self.cpus.iter().copied())
    }
}
