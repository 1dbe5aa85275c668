//! Settings of the cgroups of pods.
//!
//! As upstream's `ResourceConfigForPod`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::cpu_burst::burst_unified;
use super::memory_qos::pod_unified;
use crate::logic::resources::pod_sums::limits_by_moment;
use crate::logic::resources::{
    CPU, CPU_SHARES_MIN, MEMORY, QosClass, ResourceOptions, amount, has_pod_level_resources, hugepage_limits,
    milli_cpu_to_quota, milli_cpu_to_shares, pod_limits, pod_qos, pod_requests, resource_list,
};

/// The settings of one cgroup; an absent one is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupSettings {
    /// Relative share of CPU time, 2 to 262144; on v2 written as `cpu.weight`.
    pub cpu_shares: Option<u64>,
    /// Time per period, in microseconds; −1 is unlimited, 0 leaves the quota as it is.
    pub cpu_quota: Option<i64>,
    /// Enforcement period of the quota, in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory limit, in bytes; −1 is unlimited, 0 leaves it as it is.
    pub memory_limit: Option<i64>,
    /// Processes and threads; −1 is unlimited.
    pub pids_max: Option<i64>,
    /// CPUs it may run on, as the kernel lists them: `0-3,8`.
    pub cpuset_cpus: Option<String>,
    /// Huge pages, in bytes by page size in bytes. When present, sizes of the host that are not listed are set to 0
    /// (or to [`CgroupSettings::hugepages_otherwise`]).
    pub hugepages: Option<BTreeMap<u64, u64>>,
    /// The limit of sizes not listed in `hugepages`.
    pub hugepages_otherwise: u64,
    /// Further v2 files and what is written to them.
    pub unified: BTreeMap<String, String>,
}

/// The settings of a pod's cgroup. With `exclusive_cpus` (a container has CPUs of its own, and gate
/// `DisableCPUQuotaWithExclusiveCPUs` is on) the pod's CPU time is not limited.
pub fn pod_cgroup_settings(pod: &Pod, exclusive_cpus: bool, options: &ResourceOptions) -> CgroupSettings {
    let requests = pod_requests(pod, options.pod_level_resources, true);
    let limits = pod_limits(pod, options.pod_level_resources, true);
    let mut settings = CgroupSettings {
        pids_max: (options.pod_pids_limit > 0).then_some(options.pod_pids_limit),
        hugepages: Some(hugepage_limits(&requests)),
        unified: pod_unified(pod, options),
        ..CgroupSettings::default()
    };
    let period = options.cpu_cfs_quota_period_us;
    let quota = if options.cpu_cfs_quota && !exclusive_cpus {
        milli_cpu_to_quota(amount(&limits, CPU).milli_value(), period)
    } else {
        -1
    };
    let (cpu_limited, memory_limited) = match pod_qos(pod, options.pod_level_resources) {
        QosClass::BestEffort => {
            settings.cpu_shares = Some(CPU_SHARES_MIN);
            return settings;
        }
        QosClass::Guaranteed => (true, true),
        QosClass::Burstable => (is_limited(pod, CPU, options), is_limited(pod, MEMORY, options)),
    };
    settings.cpu_shares = Some(milli_cpu_to_shares(amount(&requests, CPU).milli_value()));
    if cpu_limited {
        settings.cpu_quota = Some(quota);
        settings.cpu_period = Some(period);
        // The pod's own quota must not cut the time that its containers saved up.
        settings.unified.extend(burst_unified(pod, quota, options));
    }
    if memory_limited {
        settings.memory_limit = Some(amount(&limits, MEMORY).value());
    }
    settings
}

/// Whether a burstable pod is limited as a whole: it says so itself, or each of its containers does.
fn is_limited(pod: &Pod, name: &str, options: &ResourceOptions) -> bool {
    if options.pod_level_resources && has_pod_level_resources(pod) {
        let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        if !amount(&resource_list(own.and_then(|resources| resources.limits.as_ref())), name).is_zero() {
            return true;
        }
    }
    limits_by_moment(pod).iter().all(|limits| !amount(limits, name).is_zero())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::testing::{container, pod, sidecar, with_overhead, with_pod_level};

    fn settings(pod: &Pod) -> CgroupSettings {
        pod_cgroup_settings(pod, false, &ResourceOptions::default())
    }

    fn knobs(found: &CgroupSettings) -> (Option<u64>, Option<i64>, Option<i64>) {
        assert_eq!(found.cpu_quota.is_some(), found.cpu_period.is_some(), "{found:?}");
        (found.cpu_shares, found.cpu_quota, found.memory_limit)
    }

    /// RES-07.
    #[test]
    fn a_pods_cgroup_follows_its_class() {
        let both = "cpu=500m,memory=128Mi";
        let burstable = || container("a", "cpu=100m,memory=64Mi", both);
        let cases = [
            ("guaranteed", pod(vec![container("a", both, both)], vec![]), (Some(512), Some(50_000), Some(128 << 20))),
            ("best effort", pod(vec![container("a", "", "")], vec![]), (Some(2), None, None)),
            ("all limited", pod(vec![burstable()], vec![]), (Some(102), Some(50_000), Some(128 << 20))),
            (
                "one without limits",
                pod(vec![burstable(), container("b", "cpu=400m", "")], vec![]),
                (Some(512), None, None),
            ),
            (
                "one without a memory limit",
                pod(vec![burstable(), container("b", "", "cpu=500m")], vec![]),
                (Some(102), Some(100_000), None),
            ),
            (
                "a zero limit is none",
                pod(vec![burstable(), container("b", "", "cpu=0")], vec![]),
                (Some(102), None, None),
            ),
            (
                "an init container counts",
                pod(vec![burstable()], vec![container("i", "", "cpu=1")]),
                (Some(102), Some(100_000), None),
            ),
            (
                "an init container beside a limited sidecar is limited by it",
                pod(vec![burstable()], vec![sidecar("s", "", both), container("i", "", "")]),
                (Some(102), Some(100_000), Some(256 << 20)),
            ),
            (
                "the overhead counts",
                with_overhead(pod(vec![burstable()], vec![]), "cpu=400m,memory=64Mi"),
                (Some(512), Some(90_000), Some(192 << 20)),
            ),
            (
                "pod-level limits decide",
                with_pod_level(pod(vec![container("a", "", "")], vec![]), "cpu=250m", "cpu=1,memory=1Gi"),
                (Some(256), Some(100_000), Some(1 << 30)),
            ),
            (
                "a pod-level limit of one resource",
                with_pod_level(pod(vec![container("a", "", "")], vec![]), "", "memory=1Gi"),
                (Some(2), None, Some(1 << 30)),
            ),
        ];
        for (name, pod, expected) in cases {
            assert_eq!(knobs(&settings(&pod)), expected, "{name}");
        }
    }

    /// RES-13.
    #[test]
    fn options_change_a_pods_quota_and_pids() {
        let both = "cpu=500m,memory=128Mi";
        let guaranteed = pod(vec![container("a", both, both)], vec![]);
        let options = ResourceOptions { cpu_cfs_quota: false, pod_pids_limit: 1024, ..ResourceOptions::default() };
        let found = pod_cgroup_settings(&guaranteed, false, &options);
        assert_eq!((found.cpu_quota, found.pids_max), (Some(-1), Some(1024)));
        let found = pod_cgroup_settings(&guaranteed, true, &ResourceOptions::default());
        assert_eq!((found.cpu_quota, found.pids_max), (Some(-1), None));
        let options = ResourceOptions { pod_pids_limit: 0, cpu_cfs_quota_period_us: 5_000, ..options };
        let found = pod_cgroup_settings(&guaranteed, false, &ResourceOptions { cpu_cfs_quota: true, ..options });
        assert_eq!((found.cpu_quota, found.cpu_period, found.pids_max), (Some(2_500), Some(5_000), None));
        let huge = pod(vec![container("a", "cpu=1,hugepages-2Mi=4Mi", "hugepages-2Mi=4Mi")], vec![]);
        assert_eq!(settings(&huge).hugepages, Some(BTreeMap::from([(2 << 20, 4 << 20)])));
    }

    proptest! {
        #[test]
        fn a_pod_is_limited_in_memory_only_if_every_container_is(limits in prop::collection::vec(0_i64..3, 1..5)) {
            let containers = limits.iter().map(|limit| container("a", "cpu=1", &format!("memory={limit}Gi")));
            let found = settings(&pod(containers.collect(), vec![]));
            prop_assert_eq!(found.memory_limit.is_some(), limits.iter().all(|limit| *limit > 0));
            prop_assert_eq!(found.cpu_quota, None);
        }
    }
}
