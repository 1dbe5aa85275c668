//! Parts of the machine that containers own alone, as the PodResources API prints it (RES-53).
//!
//! Made by `AllocationManager` when somebody asks; nobody keeps it.

use std::collections::BTreeMap;

use crate::logic::model::ids::PodUid;

/// Hardware that one container owns, or that may be given to containers at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// CPUs by the kernel's numbers, ascending. Empty when the container shares the pool.
    pub cpu_ids: Vec<u32>,
    /// Memory and huge pages of NUMA nodes.
    pub memory: Vec<MemoryBlock>,
    /// Devices of device plugins.
    pub devices: Vec<DeviceEntry>,
}

/// Memory of one kind (upstream's `state.Block`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBlock {
    /// `memory`, or `hugepages-` and a size.
    pub memory_type: String,
    /// How much.
    pub bytes: u64,
    /// Of these NUMA nodes together, ascending.
    pub nodes: Vec<u32>,
}

/// A device at one place. A device near two NUMA nodes has two entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEntry {
    /// The extended resource, as `vendor.com/gpu`.
    pub resource: String,
    /// The plugin's name of it.
    pub id: String,
    /// The NUMA node; `None` when the plugin does not say.
    pub node: Option<u32>,
}

/// All that pods own, and what they may be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// By pod and the container's name. A container without an entry owns nothing alone.
    pub containers: BTreeMap<PodUid, BTreeMap<String, Allocation>>,
    /// The parts that pods may be given, free or taken. With the policies `none` upstream's managers name nothing here.
    pub allocatable: Allocation,
}

impl Allocations {
    /// The parts of the machine that a container owns alone.
    pub fn of(&self, uid: &PodUid, container: &str) -> Option<&Allocation> {
        self.containers.get(uid)?.get(container)
    }
}
