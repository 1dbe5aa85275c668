//! The cgroups above the pods' own: the one of all pods, the tiers, and the ones that are reserved for the host.
//!
//! Pure. Owned by `ResourceManager`, which writes the settings, and by `PodManager`, which keeps the sums.

use crate::logic::resources::{CgroupSettings, MEMORY, PIDS, ResourceList};

mod limits;
mod machine_size;
pub mod process_placement;
mod reserved;
mod tier_shares;
mod tiers;

pub use limits::TooMuchReserved;
pub use machine_size::{MachineNow, MachineSize};
pub use reserved::{NotConfigured, ReservedCgroup, ReservedFor};
pub use tier_shares::{TierShares, TierSums};
pub use tiers::{best_effort_tier_settings, burstable_tier_settings, reserved_tier_settings};

/// The figures that make the settings of the cgroups above the pods' own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCgroups {
    /// The machine's CPU, memory, huge pages and `pid`. An empty list limits nothing.
    pub capacity: ResourceList,
    /// The CPUs of the machine, as the kernel lists them. The cgroup of all pods and the reserved ones may use every one,
    /// so that systemd keeps their `cpuset` controller. `None` under the static CPU manager, which shares CPUs out itself.
    pub cpus: Option<String>,
    /// `kubeReserved` and `systemReserved`.
    pub reservations: [ResourceList; 2],
    /// `enforceNodeAllocatable` has `pods`: pods may use the capacity less the reservations.
    pub enforce_pods: bool,
    /// `qosReserved` (gate `QOSReserved`): the percentage of better classes' memory requests that worse classes may not use.
    pub qos_reserved: Option<i64>,
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

    /// The same on a machine of another size. The bound of process numbers stays.
    #[must_use]
    pub fn resized(&self, size: &MachineSize) -> Self {
        let mut capacity = size.capacity();
        capacity.extend(self.capacity.get(PIDS).map(|pids| (PIDS.to_owned(), *pids)));
        Self { capacity, cpus: self.cpus.as_ref().map(|_| size.cpu_list.clone()), ..self.clone() }
    }

    /// The memory limits of the burstable and of the best-effort tier, in bytes: what requests of better classes leave, by
    /// the percentage of `qosReserved`. `None` without it, and on a machine whose memory is not known. As upstream's
    /// `setMemoryReserve`.
    pub fn tier_memory(&self, active: &TierSums) -> Option<[i64; 2]> {
        let percent = self.qos_reserved?;
        let reservations: Vec<_> = self.reservations.iter().collect();
        let all = limits::kubepods_resources(&self.capacity, &reservations, true).get(MEMORY)?.value();
        let part = |bytes: i64| bytes.saturating_mul(percent) / 100;
        let burstable = all.saturating_sub(part(active.guaranteed_memory));
        (all != 0).then(|| [burstable, burstable.saturating_sub(part(active.burstable_memory))])
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
            ..NodeCgroups::default()
        };
        let settings = node.of_pods();
        assert_eq!(settings.cpuset_cpus.as_deref(), Some("0-3"));
        assert_eq!((settings.cpu_shares, settings.memory_limit), (Some(3072), Some(7 << 30)));
        assert_eq!(settings.pids_max, Some(900));
        let all = NodeCgroups { enforce_pods: false, cpus: None, ..node }.of_pods();
        assert_eq!((all.cpuset_cpus, all.cpu_shares, all.memory_limit), (None, Some(4096), Some(8 << 30)));
    }

    /// Section 3.2 of upstream's rules: gate `QOSReserved`.
    #[test]
    fn better_classes_keep_a_part_of_their_memory_from_worse_ones() {
        let active = TierSums { burstable_cpu: 0, burstable_memory: 1 << 30, guaranteed_memory: 2 << 30 };
        let node = NodeCgroups {
            capacity: read("memory=8Gi"),
            reservations: [read("memory=1Gi"), ResourceList::new()],
            qos_reserved: Some(50),
            ..NodeCgroups::default()
        };
        assert_eq!(node.tier_memory(&active), Some([6 << 30, (6 << 30) - (1 << 29)]));
        assert_eq!(
            NodeCgroups { qos_reserved: Some(100), ..node.clone() }.tier_memory(&active),
            Some([5 << 30, 4 << 30])
        );
        assert_eq!(NodeCgroups { qos_reserved: None, ..node.clone() }.tier_memory(&active), None);
        assert_eq!(NodeCgroups { capacity: ResourceList::new(), ..node }.tier_memory(&active), None);
    }

    /// KEP-3953.
    #[test]
    fn pods_follow_the_size_of_the_machine() {
        let node = NodeCgroups {
            capacity: read("cpu=2,memory=8Gi,pid=1000,hugepages-2Mi=4Mi"),
            cpus: Some("0-1".to_owned()),
            reservations: [read("cpu=1,memory=1Gi"), ResourceList::new()],
            enforce_pods: true,
            ..NodeCgroups::default()
        };
        let size =
            MachineSize { cpus: 4, cpu_list: "0-3".to_owned(), memory_bytes: 16 << 30, ..MachineSize::default() };
        let settings = node.resized(&size).of_pods();
        assert_eq!((settings.cpu_shares, settings.memory_limit), (Some(3072), Some(15 << 30)));
        assert_eq!((settings.cpuset_cpus.as_deref(), settings.pids_max), (Some("0-3"), Some(1000)));
        assert_eq!(settings.hugepages, Some(std::collections::BTreeMap::new()), "pages that are gone are none");
        let pinned = NodeCgroups { cpus: None, ..node }.resized(&size);
        assert_eq!(pinned.cpus, None, "the static CPU manager shares CPUs out itself");
    }
}
