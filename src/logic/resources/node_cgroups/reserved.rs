//! The cgroups of the host's daemons, which `enforceNodeAllocatable` limits to what is reserved for them (RES-16).
//!
//! As upstream's `enforceExistingCgroup`: the cgroups must exist; the agent writes limits into them and nothing else.

use std::fmt;

use super::limits::reserved_cgroup_settings;
use crate::logic::resources::cgroup_name::CgroupName;
use crate::logic::resources::{CgroupSettings, MEMORY, Quantity, ResourceList, ResourceOptions};

/// The daemons that a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservedFor {
    /// `systemReserved`: the operating system.
    System,
    /// `kubeReserved`: the agent and the runtime.
    Kube,
}

/// One cgroup that is limited to a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedCgroup {
    /// The daemons in it.
    pub owner: ReservedFor,
    /// Its name as the configuration spells it: a path under `cgroupfs`, a slice under `systemd`.
    pub cgroup: String,
    /// The reservation.
    pub amounts: ResourceList,
    /// Only what can be taken back at any time is limited: CPU.
    pub compressible_only: bool,
}

/// A reservation without amounts has nothing to enforce; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cgroup is not configured properly", .0.quoted())]
pub struct NotConfigured(pub CgroupName);

impl ReservedCgroup {
    /// The cgroups that `enforceNodeAllocatable` names, in the order in which upstream sets them. `cgroups` and `amounts` are
    /// the system's, then the agent's.
    pub fn from_config(enforced: &[String], cgroups: [&str; 2], amounts: [&ResourceList; 2]) -> Vec<Self> {
        let options = [
            ("system-reserved", ReservedFor::System, false),
            ("kube-reserved", ReservedFor::Kube, false),
            ("system-reserved-compressible", ReservedFor::System, true),
            ("kube-reserved-compressible", ReservedFor::Kube, true),
        ];
        let of = |(option, owner, compressible_only): (&str, ReservedFor, bool)| {
            let place = usize::from(owner == ReservedFor::Kube);
            enforced.iter().any(|one| one == option).then(|| Self {
                owner,
                cgroup: cgroups[place].to_owned(),
                amounts: amounts[place].clone(),
                compressible_only,
            })
        };
        options.into_iter().filter_map(of).collect()
    }

    /// The settings of the cgroup, whose name is `name`; `cpus` as [`super::NodeCgroups::cpus`].
    ///
    /// # Errors
    /// Nothing is reserved at all.
    pub fn settings(
        &self,
        name: &CgroupName,
        cpus: Option<&str>,
        options: &ResourceOptions,
    ) -> Result<CgroupSettings, NotConfigured> {
        if self.amounts.is_empty() {
            return Err(NotConfigured(name.clone()));
        }
        let mut settings = reserved_cgroup_settings(&self.amounts, self.compressible_only);
        settings.cpuset_cpus = cpus.map(str::to_owned);
        let memory = self.amounts.get(MEMORY).map(Quantity::value);
        if let Some(memory) = memory.filter(|_| options.memory_qos.is_some() && !self.compressible_only) {
            settings.unified.insert("memory.min".to_owned(), memory.to_string());
        }
        Ok(settings)
    }

    /// Upstream's text of the Event that the limits are in force.
    pub fn enforced(&self) -> String {
        let owner = if self.owner == ReservedFor::System { "system" } else { "kube" };
        format!("Updated limits on {owner} reserved cgroup {}", self.cgroup)
    }

    /// Upstream's text of the Event, and of the agent's end, that they cannot be set.
    pub fn failed(&self, problem: &dyn fmt::Display) -> String {
        let owner = if self.owner == ReservedFor::System { "System" } else { "Kube" };
        let part = if self.compressible_only { "Compressible " } else { "" };
        format!("Failed to enforce {owner} Reserved {part}Cgroup Limits on {:?}: {problem}", self.cgroup)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::logic::resources::testing::list;
    use crate::logic::resources::{MemoryQos, resource_list};

    fn read(text: &str) -> ResourceList {
        resource_list(list(text).as_ref())
    }

    fn of(enforced: &[&str], system: &str, kube: &str) -> Vec<ReservedCgroup> {
        let enforced: Vec<String> = enforced.iter().map(|&one| one.to_owned()).collect();
        ReservedCgroup::from_config(&enforced, ["/system.slice", "/kube.slice"], [&read(system), &read(kube)])
    }

    fn settings(reserved: &ReservedCgroup, options: &ResourceOptions) -> CgroupSettings {
        let name = CgroupName::root().child("kube").expect("a name");
        reserved.settings(&name, Some("0-1"), options).expect("configured")
    }

    /// RES-16.
    #[test]
    fn res_16_cgroups_are_limited_in_upstreams_order_with_its_texts() {
        assert_eq!(of(&["pods"], "cpu=1", "cpu=1"), []);
        assert_eq!(of(&["none"], "cpu=1", "cpu=1"), []);
        let both = of(&["pods", "kube-reserved", "system-reserved"], "cpu=1", "cpu=2");
        let texts: Vec<_> = both.iter().map(ReservedCgroup::enforced).collect();
        assert_eq!(
            texts,
            [
                "Updated limits on system reserved cgroup /system.slice",
                "Updated limits on kube reserved cgroup /kube.slice"
            ]
        );
        assert_eq!(both[1].amounts, read("cpu=2"));
        let parts = of(&["kube-reserved-compressible", "system-reserved-compressible"], "cpu=1", "cpu=2");
        let texts: Vec<_> = parts.iter().map(|one| one.failed(&"E")).collect();
        assert_eq!(
            texts,
            [
                "Failed to enforce System Reserved Compressible Cgroup Limits on \"/system.slice\": E",
                "Failed to enforce Kube Reserved Compressible Cgroup Limits on \"/kube.slice\": E"
            ]
        );
        assert_eq!(both[0].failed(&"E"), "Failed to enforce System Reserved Cgroup Limits on \"/system.slice\": E");
    }

    /// RES-16.
    #[test]
    fn res_16_a_reservation_is_written_whole_or_as_far_as_it_can_be_taken_back() {
        let amounts = "cpu=500m,memory=1Gi,pid=1000,ephemeral-storage=1Gi";
        let [whole, part] =
            ["kube-reserved", "kube-reserved-compressible"].map(|one| of(&[one], "", amounts).remove(0));
        let expected = CgroupSettings {
            cpu_shares: Some(512),
            memory_limit: Some(1 << 30),
            pids_max: Some(1000),
            cpuset_cpus: Some("0-1".to_owned()),
            hugepages: Some(BTreeMap::new()),
            ..CgroupSettings::default()
        };
        let options = ResourceOptions::default();
        assert_eq!(settings(&whole, &options), expected);
        let cpu =
            CgroupSettings { cpu_shares: Some(512), cpuset_cpus: Some("0-1".to_owned()), ..CgroupSettings::default() };
        assert_eq!(settings(&part, &options), cpu);
        let name = CgroupName::root().child("kube").expect("a name");
        let empty = of(&["kube-reserved"], amounts, "").remove(0).settings(&name, None, &options);
        assert_eq!(empty.expect_err("nothing").to_string(), "[\"kube\"] cgroup is not configured properly");
    }

    /// RES-22: with the gate `MemoryQoS` the kernel keeps the reservation for the daemons, whatever the policy.
    #[test]
    fn res_22_memory_that_is_reserved_is_kept() {
        let qos = MemoryQos { throttling_factor: 0.9, reserves: false, allocatable_bytes: 1 << 30 };
        let options = ResourceOptions { memory_qos: Some(qos), ..ResourceOptions::default() };
        let of = |option: &str, amounts: &str| settings(&of(&[option], amounts, "").remove(0), &options).unified;
        let kept = BTreeMap::from([("memory.min".to_owned(), "1024".to_owned())]);
        assert_eq!(of("system-reserved", "memory=1Ki"), kept);
        assert_eq!(of("system-reserved", "cpu=1"), BTreeMap::new());
        assert_eq!(of("system-reserved-compressible", "cpu=1,memory=1Ki"), BTreeMap::new());
    }
}
