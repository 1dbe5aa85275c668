//! CPUs, NUMA nodes and devices of a pod's containers, as the runtime hears of them.

use std::collections::BTreeMap;

use crate::logic::resources::device_manager::ContainerDevices;

/// The part of the machine that a pod runs on. Without managers, and for pods that were given nothing, it restricts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPinning {
    /// By container.
    pub containers: BTreeMap<String, ContainerPinning>,
    /// The pod's cgroup has no CPU quota (gate `DisableCPUQuotaWithExclusiveCPUs`).
    pub no_quota: bool,
}

/// The part of the machine that a container runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerPinning {
    /// CPUs that it may run on, as `cpuset.cpus` takes them; empty: all.
    pub cpus: String,
    /// NUMA nodes that its memory comes from, as `cpuset.mems` takes them; empty: all.
    pub mems: String,
    /// It has no CPU quota (RES-31).
    pub no_quota: bool,
    /// The parts that its devices bring (RES-41).
    pub devices: ContainerDevices,
    /// A resource of which it is to have devices and has none: it cannot start.
    pub lacks: Option<String>,
}

impl PodPinning {
    /// That of one container.
    pub fn of(&self, container: &str) -> ContainerPinning {
        self.containers.get(container).cloned().unwrap_or_default()
    }
}
