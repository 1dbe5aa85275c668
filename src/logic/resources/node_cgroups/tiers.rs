//! Settings of the tiers of burstable and best-effort pods, and the memory that they reserve above them.
//!
//! As upstream's `setCPUCgroupConfig` and `setMemoryQoS`.

use std::collections::BTreeMap;

use super::TierSums;
use crate::logic::resources::limits::memory_qos::{LOW, MIN};
use crate::logic::resources::{CPU_SHARES_MIN, CgroupSettings, ResourceOptions, milli_cpu_to_shares};

/// Huge pages of a tier: no limit in practice; upstream's `setHugePagesUnbounded`.
const HUGEPAGES_UNLIMITED: u64 = 1 << 62;

/// The settings of the tier of burstable pods: the share that its active pods ask for together.
pub fn burstable_tier_settings(active: &TierSums) -> CgroupSettings {
    tier_settings(milli_cpu_to_shares(active.burstable_cpu))
}

/// The settings of the tier of best-effort pods: the smallest share, always.
pub fn best_effort_tier_settings() -> CgroupSettings {
    tier_settings(CPU_SHARES_MIN)
}

fn tier_settings(cpu_shares: u64) -> CgroupSettings {
    CgroupSettings {
        cpu_shares: Some(cpu_shares),
        hugepages: Some(BTreeMap::new()),
        hugepages_otherwise: HUGEPAGES_UNLIMITED,
        ..CgroupSettings::default()
    }
}

/// The memory that all guaranteed and all burstable pods reserve together, each a tier of its own: a cgroup's reservation
/// counts only as far as the cgroups above it reserve as much. The first settings are those of the cgroup of all pods.
pub fn reserved_tier_settings(active: &TierSums, options: &ResourceOptions) -> Option<[BTreeMap<String, String>; 2]> {
    let active = if options.memory_qos?.reserves { *active } else { TierSums::default() };
    let (guaranteed, burstable) = (active.guaranteed_memory, active.burstable_memory);
    let one = |key: &str, value: i64| BTreeMap::from([(key.to_owned(), value.to_string())]);
    Some([one(MIN, guaranteed.saturating_add(burstable)), one(LOW, burstable)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::resources::MemoryQos;
    use crate::logic::resources::testing::{container, pod};

    /// RES-05.
    #[test]
    fn the_burstable_tier_weighs_what_its_pods_ask_for() {
        let options = ResourceOptions::default();
        let both = "cpu=3,memory=1Gi";
        let pods = [
            pod(vec![container("a", "cpu=100m", "")], vec![]),
            pod(vec![container("a", "cpu=400m", "")], vec![]),
            pod(vec![container("a", both, both)], vec![]),
            pod(vec![container("a", "", "")], vec![]),
        ];
        assert_eq!(burstable_tier_settings(&TierSums::of(&pods, options.pod_level_resources)).cpu_shares, Some(512));
        assert_eq!(burstable_tier_settings(&TierSums::of(&pods[2..], options.pod_level_resources)).cpu_shares, Some(2));
        assert_eq!(best_effort_tier_settings().cpu_shares, Some(2));
        assert_eq!(best_effort_tier_settings().hugepages_otherwise, 1 << 62);
    }

    /// RES-22.
    #[test]
    fn the_tiers_keep_what_their_pods_keep() {
        let both = "cpu=1,memory=1Gi";
        let guaranteed = pod(vec![container("a", both, both), container("b", both, both)], vec![]);
        let burstable = pod(vec![container("a", "memory=1Gi", "memory=3Gi")], vec![]);
        let idle = pod(vec![container("a", "", "")], vec![]);
        let options = |reserves| {
            let memory_qos = Some(MemoryQos { throttling_factor: 0.9, reserves, allocatable_bytes: 4 << 30 });
            ResourceOptions { memory_qos, ..ResourceOptions::default() }
        };
        let shown = |unified: &BTreeMap<String, String>| {
            unified.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        };
        let tiers = |options: &ResourceOptions| {
            let found = reserved_tier_settings(&TierSums::of([&guaranteed, &burstable, &idle], true), options);
            found.map(|tiers| tiers.map(|one| shown(&one)))
        };
        let texts = |above: &str, burstable: &str| Some([above.to_owned(), burstable.to_owned()]);
        assert_eq!(tiers(&options(true)), texts("memory.min=3221225472", "memory.low=1073741824"));
        assert_eq!(tiers(&options(false)), texts("memory.min=0", "memory.low=0"));
        assert_eq!(tiers(&ResourceOptions::default()), None);
    }
}
