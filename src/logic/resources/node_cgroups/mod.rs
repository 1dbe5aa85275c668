//! The cgroups above the pods' own: the one of all pods, the tiers, and the ones that are reserved for the host.
//!
//! Pure. Owned by `ResourceManager`, which writes the settings, and by `PodManager`, which keeps the sums.

use crate::logic::resources::{CgroupSettings, ResourceList};

mod limits;
mod machine_size;
pub mod process_placement;
mod reserved;
mod tier_shares;
mod tiers;

pub use limits::TooMuchReserved;
pub use machine_size::MachineSize;
pub use reserved::{NotConfigured, ReservedCgroup, ReservedFor};
pub use tier_shares::{TierShares, TierSums};
pub use tiers::{best_effort_tier_settings, burstable_tier_settings, reserved_tier_settings};

/// What the settings of the cgroups above the pods' own are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCgroups {
    /// What the machine has: CPU, memory, huge pages and `pid`. An empty list limits nothing.
    pub capacity: ResourceList,
    /// The CPUs of the machine, as the kernel lists them. The cgroup of all pods and the reserved ones may use every one,
    /// so that systemd keeps their `cpuset` controller. `None` under the static CPU manager, which shares CPUs out itself.
    pub cpus: Option<String>,
    /// `kubeReserved` and `systemReserved`.
    pub reservations: [ResourceList; 2],
    /// `enforceNodeAllocatable` has `pods`: pods may use the capacity less the reservations.
    pub enforce_pods: bool,
    /// The cgroups of the host's daemons that are limited, in upstream's order.
    pub reserved: Vec<ReservedCgroup>,
}

impl NodeCgroups {
    /// The settings of the cgroup of all pods.
    pub fn of_pods(&self) -> CgroupSettings {
        let reservations: Vec<_> = self.reservations.iter().collect();
        let resources = limits::kubepods_resources(&self.capacity, &reservations, self.enforce_pods);
        CgroupSettings { cpuset_cpus: self.cpus.clone(), ..limits::reserved_cgroup_settings(&resources, false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::resources::resource_list;
    use crate::logic::resources::testing::list;

    fn read(text: &str) -> ResourceList {
        resource_list(list(text).as_ref())
    }

    /// RES-04.
    #[test]
    fn pods_get_every_cpu_and_what_is_not_reserved() {
        let node = NodeCgroups {
            capacity: read("cpu=4,memory=8Gi,pid=1000"),
            cpus: Some("0-3".to_owned()),
            reservations: [read("cpu=1,pid=100"), read("memory=1Gi")],
            enforce_pods: true,
            reserved: vec![],
        };
        let settings = node.of_pods();
        assert_eq!(settings.cpuset_cpus.as_deref(), Some("0-3"));
        assert_eq!((settings.cpu_shares, settings.memory_limit), (Some(3072), Some(7 << 30)));
        assert_eq!(settings.pids_max, Some(900));
        let all = NodeCgroups { enforce_pods: false, cpus: None, ..node }.of_pods();
        assert_eq!((all.cpuset_cpus, all.cpu_shares, all.memory_limit), (None, Some(4096), Some(8 << 30)));
    }
}
