//! The limits of all pods together, and whether the reservations fit into the machine.
//!
//! As upstream's `enforceNodeAllocatableCgroups` and `validateNodeAllocatable`.

use std::fmt;

use crate::logic::model::quantity::Quantity;
use crate::logic::resources::{
    CPU, CgroupSettings, HUGEPAGES_PREFIX, MEMORY, PIDS, ResourceList, amount, hugepage_limits, milli_cpu_to_shares,
};

/// The limits of `kubepods`: the capacity (CPU, memory, huge pages, `pid`), less the reservations when
/// `enforce_pods` (`pods` in `enforceNodeAllocatable`), never below nothing. The eviction threshold is not taken off
/// here, so that there is room to act before the kernel does.
pub(super) fn kubepods_resources(
    capacity: &ResourceList,
    reservations: &[&ResourceList],
    enforce_pods: bool,
) -> ResourceList {
    let counts = |name: &str| matches!(name, CPU | MEMORY | PIDS) || name.starts_with(HUGEPAGES_PREFIX);
    let left = |name: &String, whole: &Quantity| {
        let reserved = reservations.iter().filter(|_| enforce_pods).map(|reservation| amount(reservation, name));
        reserved.fold(*whole, Quantity::minus).max(Quantity::ZERO)
    };
    capacity.iter().filter(|(name, _)| counts(name)).map(|(name, whole)| (name.clone(), left(name, whole))).collect()
}

/// The settings of `kubepods`, or of a cgroup reserved for the system, that may use `resources`. With
/// `compressible_only` (`…-compressible` in `enforceNodeAllocatable`) only CPU shares are set.
pub(super) fn reserved_cgroup_settings(resources: &ResourceList, compressible_only: bool) -> CgroupSettings {
    let cpu_shares = resources.get(CPU).map(|cpu| milli_cpu_to_shares(cpu.milli_value()));
    if compressible_only {
        return CgroupSettings { cpu_shares, ..CgroupSettings::default() };
    }
    CgroupSettings {
        cpu_shares,
        memory_limit: resources.get(MEMORY).map(Quantity::value),
        pids_max: resources.get(PIDS).map(Quantity::value),
        hugepages: Some(hugepage_limits(resources)),
        ..CgroupSettings::default()
    }
}

/// More is reserved than there is (RES-17). The text is upstream's; it names every such resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMuchReserved(Vec<(String, Quantity, Quantity)>);

impl TooMuchReserved {
    /// Compares what is reserved of each resource with what there is. The reservation includes the hard thresholds of
    /// eviction. Resources that the machine does not have are not compared.
    ///
    /// # Errors
    /// The resources of which more is reserved than there is.
    pub fn check(capacity: &ResourceList, reservation: &ResourceList) -> Result<(), Self> {
        let too_much = |(name, all): (&String, &Quantity)| {
            let reserved = reservation.get(name).filter(|reserved| *reserved > all)?;
            Some((name.clone(), *reserved, *all))
        };
        let found: Vec<_> = capacity.iter().filter_map(too_much).collect();
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }
}

impl fmt::Display for TooMuchReserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid Node Allocatable configuration.")?;
        for (name, reserved, all) in &self.0 {
            write!(f, " Resource {name:?} has a reservation of {reserved} but capacity of {all}.")?;
            f.write_str(" Expected capacity >= reservation.")?;
        }
        Ok(())
    }
}

impl std::error::Error for TooMuchReserved {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::resource_list;
    use crate::logic::resources::testing::list;

    fn read(text: &str) -> ResourceList {
        resource_list(list(text).as_ref())
    }

    /// RES-17.
    #[test]
    fn res_17_every_resource_of_which_too_much_is_reserved_is_named() {
        let capacity = read("cpu=4,memory=8Gi,hugepages-2Mi=4Mi,ephemeral-storage=10Gi");
        assert_eq!(TooMuchReserved::check(&capacity, &read("cpu=4,memory=8Gi,pid=999999,hugepages-1Gi=1Gi")), Ok(()));
        let problem = TooMuchReserved::check(&capacity, &read("cpu=4001m,memory=8Gi,ephemeral-storage=11Gi"));
        let expected = "invalid Node Allocatable configuration. Resource \"cpu\" has a reservation of 4001m but capacity \
                        of 4. Expected capacity >= reservation. Resource \"ephemeral-storage\" has a reservation of 11Gi \
                        but capacity of 10Gi. Expected capacity >= reservation.";
        assert_eq!(problem.expect_err("too much").to_string(), expected);
    }

    /// RES-04.
    #[test]
    fn kubepods_gets_what_is_not_reserved() {
        let capacity = read("cpu=4,memory=8Gi,pid=32768,hugepages-2Mi=64Mi,ephemeral-storage=100Gi,pods=110");
        let kube = read("cpu=100m,memory=1Gi,pid=1000");
        let system = read("cpu=400m,memory=512Mi,hugepages-2Mi=128Mi");
        let free = kubepods_resources(&capacity, &[&kube, &system], true);
        assert_eq!(free, read("cpu=3500m,memory=6656Mi,pid=31768,hugepages-2Mi=0"));
        let found = reserved_cgroup_settings(&free, false);
        let expected = CgroupSettings {
            cpu_shares: Some(3_584),
            memory_limit: Some(6656 << 20),
            pids_max: Some(31_768),
            hugepages: Some(BTreeMap::from([(2 << 20, 0)])),
            ..CgroupSettings::default()
        };
        assert_eq!(found, expected);
        let all = kubepods_resources(&capacity, &[&kube, &system], false);
        assert_eq!(all, read("cpu=4,memory=8Gi,pid=32768,hugepages-2Mi=64Mi"));
        let compressible = reserved_cgroup_settings(&kube, true);
        assert_eq!(compressible, CgroupSettings { cpu_shares: Some(102), ..CgroupSettings::default() });
        assert_eq!(reserved_cgroup_settings(&read("memory=1Gi"), true), CgroupSettings::default());
    }

    proptest! {
        #[test]
        fn kubepods_never_gets_less_than_nothing_nor_more_than_there_is(
            whole in 0_i64..1 << 50, one in 0_i64..1 << 50, two in 0_i64..1 << 50,
        ) {
            let of = |bytes: i64| resource_list(list(&format!("memory={bytes}")).as_ref());
            let left = kubepods_resources(&of(whole), &[&of(one), &of(two)], true)[MEMORY].value();
            prop_assert_eq!(left, (whole - one - two).max(0));
        }
    }
}
