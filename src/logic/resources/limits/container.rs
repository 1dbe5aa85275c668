//! The Linux resources of a container and of a sandbox, as the runtime is to set them.
//!
//! As upstream's `generateLinuxContainerResources` and `calculateSandboxResources`; the CRI adapter copies the result
//! into its message field by field.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::cpu_burst::burst_unified;
use super::memory_qos::container_unified;
use crate::logic::resources::{
    CPU, CgroupVersion, MEMORY, NodeMemory, QosClass, Quantity, ResourceList, ResourceOptions, amount,
    container_limits, container_oom_score_adj, container_requests, has_pod_level_resources, hugepage_limits,
    hugepage_unit_name, is_critical, milli_cpu_to_quota, milli_cpu_to_shares, pod_limits, pod_qos, pod_requests,
    resource_list,
};

/// The runtime interface's `LinuxContainerResources`, with its conventions: zero is "not set".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxResources {
    /// Enforcement period of the quota, in microseconds.
    pub cpu_period: i64,
    /// Time per period, in microseconds; −1 is unlimited, as is 0.
    pub cpu_quota: i64,
    /// Relative share of CPU time, 2 to 262144.
    pub cpu_shares: i64,
    /// Memory limit, in bytes.
    pub memory_limit_in_bytes: i64,
    /// Limit of memory and swap together, in bytes; v1 only.
    pub memory_swap_limit_in_bytes: i64,
    /// How soon the kernel kills it when memory runs out, −1000 to 1000.
    pub oom_score_adj: i64,
    /// Further v2 files and what is written to them.
    pub unified: BTreeMap<String, String>,
    /// Limits of huge pages, in bytes, by the page size's name.
    pub hugepage_limits: Vec<(String, u64)>,
}

/// The resources of one container. With `exclusive_cpus` (it has CPUs of its own, and gate
/// `DisableCPUQuotaWithExclusiveCPUs` is on) its CPU time is not limited.
pub fn container_resources(
    pod: &Pod,
    container: &Container,
    node: &NodeMemory,
    exclusive_cpus: bool,
    options: &ResourceOptions,
) -> LinuxResources {
    let requests = container_requests(container);
    let limits = effective_limits(pod, container, options);
    let request = requests.get(CPU).copied();
    let mut resources = basic(request, amount(&limits, CPU), amount(&limits, MEMORY), exclusive_cpus, options);
    resources.oom_score_adj = container_oom_score_adj(pod, container, node, options);
    limit_swap(&mut resources, pod, container, node, options);
    resources.unified.extend(container_unified(pod, container, options));
    resources.unified.extend(burst_unified(pod, resources.cpu_quota, options));
    resources
}

/// The container's limits of each size of huge pages that the host has: none unless it says so itself, or its pod does
/// (KEP-2837).
pub fn container_hugepage_limits(
    pod: &Pod,
    container: &Container,
    host_sizes: &[u64],
    options: &ResourceOptions,
) -> Vec<(String, u64)> {
    let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let own = own.filter(|_| options.pod_level_resources && has_pod_level_resources(pod));
    let mut wanted = hugepage_limits(&resource_list(own.and_then(|resources| resources.limits.as_ref())));
    wanted.extend(hugepage_limits(&container_limits(container)));
    let limit = |size: &u64| Some((hugepage_unit_name(*size)?, wanted.get(size).copied().unwrap_or(0)));
    host_sizes.iter().filter_map(limit).collect()
}

/// The resources of a pod's sandbox, without its overhead: `LinuxPodSandboxConfig.resources`.
pub fn sandbox_resources(pod: &Pod, exclusive_cpus: bool, options: &ResourceOptions) -> LinuxResources {
    let requests = pod_requests(pod, options.pod_level_resources, false);
    let limits = pod_limits(pod, options.pod_level_resources, false);
    basic(requests.get(CPU).copied(), amount(&limits, CPU), amount(&limits, MEMORY), exclusive_cpus, options)
}

/// The overhead of a pod's sandbox, requested and limited alike: `LinuxPodSandboxConfig.overhead`. A pod without
/// overhead has empty ones.
pub fn overhead_resources(pod: &Pod, options: &ResourceOptions) -> LinuxResources {
    let Some(overhead) = pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref()) else {
        return LinuxResources::default();
    };
    let overhead = resource_list(Some(overhead));
    let cpu = amount(&overhead, CPU);
    basic(Some(cpu), cpu, amount(&overhead, MEMORY), false, options)
}

/// A container's limits of CPU and memory; where it has none, the pod's own.
fn effective_limits(pod: &Pod, container: &Container, options: &ResourceOptions) -> ResourceList {
    let mut limits = container_limits(container);
    if !options.pod_level_resources || !has_pod_level_resources(pod) {
        return limits;
    }
    let own =
        pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()).and_then(|resources| resources.limits.as_ref());
    let own = resource_list(own);
    for name in [CPU, MEMORY] {
        if amount(&limits, name).is_zero() {
            limits.insert(name.to_owned(), amount(&own, name));
        }
    }
    limits
}

fn basic(
    cpu_request: Option<Quantity>,
    cpu_limit: Quantity,
    memory_limit: Quantity,
    exclusive_cpus: bool,
    options: &ResourceOptions,
) -> LinuxResources {
    // As the API server's defaulting: who states a limit alone asks for as much.
    let shares = milli_cpu_to_shares(cpu_request.unwrap_or(cpu_limit).milli_value());
    let mut resources = LinuxResources {
        cpu_shares: i64::try_from(shares).expect("shares are at most 262144"),
        memory_limit_in_bytes: memory_limit.value(),
        ..LinuxResources::default()
    };
    if options.cpu_cfs_quota {
        let period = options.cpu_cfs_quota_period_us;
        resources.cpu_period = i64::try_from(period).unwrap_or(i64::MAX);
        resources.cpu_quota = if exclusive_cpus { -1 } else { milli_cpu_to_quota(cpu_limit.milli_value(), period) };
    }
    if options.cgroup_version == CgroupVersion::V2 && !options.single_process_oom_kill {
        // One process out of memory ends them all, so that no container lives on in part (upstream 1.28 and later).
        resources.unified.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    resources
}

/// No swap, or as much as [`allowed_swap`] says, where the host can account it.
fn limit_swap(
    resources: &mut LinuxResources,
    pod: &Pod,
    container: &Container,
    node: &NodeMemory,
    options: &ResourceOptions,
) {
    match options.cgroup_version {
        _ if !options.swap_controller => {}
        // The sum of memory and swap equal to memory leaves none for swap.
        CgroupVersion::V1 => resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes,
        CgroupVersion::V2 => {
            let allowed = allowed_swap(pod, container, node, options);
            resources.unified.insert("memory.swap.max".to_owned(), allowed.to_string());
        }
    }
}

/// Swap of a container under `LimitedSwap` (KEP-2400), in bytes: of the host's swap the part that its memory request is
/// of the host's memory. Only burstable containers that ask for less memory than they may use get any.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream's formula to the digit")]
fn allowed_swap(pod: &Pod, container: &Container, node: &NodeMemory, options: &ResourceOptions) -> i64 {
    let Some(swap) = options.limited_swap else { return 0 };
    let request = amount(&container_requests(container), MEMORY);
    let limit = amount(&container_limits(container), MEMORY);
    let burstable = pod_qos(pod, options.pod_level_resources) == QosClass::Burstable;
    // Equal ones, both absent too, get none.
    if !burstable || is_critical(pod) || request == limit || request.value() > node.capacity_bytes {
        return 0;
    }
    let part = request.value() as f64 / node.capacity_bytes as f64;
    (part * swap as f64) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::testing::{container, pod, sidecar, with_overhead, with_pod_level};

    const NODE: NodeMemory = NodeMemory { capacity_bytes: 4_000_000_000 };

    fn of(container: &Container, options: &ResourceOptions) -> LinuxResources {
        container_resources(&pod(vec![container.clone()], vec![]), container, &NODE, false, options)
    }

    fn on_v1() -> ResourceOptions {
        ResourceOptions { cgroup_version: CgroupVersion::V1, ..ResourceOptions::default() }
    }

    /// RES-11.
    #[test]
    fn requests_and_limits_become_the_runtimes_numbers() {
        // requests, limits, shares, quota, memory, oom score
        let cases = [
            ("", "", 2, 0, 0, 1000),
            ("cpu=100m", "", 102, 0, 0, 999),
            ("cpu=250m,memory=64Mi", "cpu=500m,memory=128Mi", 256, 50_000, 128 << 20, 984),
            ("cpu=1,memory=1Gi", "cpu=1,memory=1Gi", 1_024, 100_000, 1 << 30, -997),
            ("", "cpu=2", 2_048, 200_000, 0, 999),
            ("cpu=0", "cpu=2", 2, 200_000, 0, 999),
            ("", "cpu=1m,memory=1", 2, 1_000, 1, 999),
        ];
        for (requests, limits, shares, quota, memory, oom_score_adj) in cases {
            let found = of(&container("a", requests, limits), &on_v1());
            let expected = LinuxResources {
                cpu_period: 100_000,
                cpu_quota: quota,
                cpu_shares: shares,
                memory_limit_in_bytes: memory,
                oom_score_adj,
                ..LinuxResources::default()
            };
            assert_eq!(found, expected, "requests {requests}, limits {limits}");
        }
    }

    /// RES-10.
    #[test]
    fn options_change_quota_and_period() {
        let limited = container("a", "", "cpu=500m");
        let off = of(&limited, &ResourceOptions { cpu_cfs_quota: false, ..ResourceOptions::default() });
        assert_eq!((off.cpu_period, off.cpu_quota, off.cpu_shares), (0, 0, 512));
        let short = of(&limited, &ResourceOptions { cpu_cfs_quota_period_us: 5_000, ..ResourceOptions::default() });
        assert_eq!((short.cpu_period, short.cpu_quota), (5_000, 2_500));
        let pod = pod(vec![limited.clone()], vec![]);
        let pinned = container_resources(&pod, &limited, &NODE, true, &ResourceOptions::default());
        assert_eq!((pinned.cpu_period, pinned.cpu_quota), (100_000, -1));
    }

    #[test]
    fn a_container_without_a_limit_takes_the_pods_own() {
        let bare = container("a", "cpu=1", "");
        let limited = container("b", "", "cpu=250m,memory=1Mi");
        let own = with_pod_level(pod(vec![bare.clone(), limited.clone()], vec![]), "", "cpu=2,memory=1Gi");
        let options = ResourceOptions::default();
        let found = container_resources(&own, &bare, &NODE, false, &options);
        assert_eq!((found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes), (1_024, 200_000, 1 << 30));
        let found = container_resources(&own, &limited, &NODE, false, &options);
        assert_eq!((found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes), (256, 25_000, 1 << 20));
        let off = ResourceOptions { pod_level_resources: false, ..options };
        assert_eq!(container_resources(&own, &bare, &NODE, false, &off).memory_limit_in_bytes, 0);
    }

    /// CRI-10, RES-12.
    #[test]
    fn every_size_of_huge_pages_has_a_limit() {
        let sizes = [2 << 20, 1 << 30];
        let limits = |container: &Container, own: &str| {
            let pod = with_pod_level(pod(vec![container.clone()], vec![]), "", own);
            container_hugepage_limits(&pod, container, &sizes, &ResourceOptions::default())
        };
        let named = |small: u64, big: u64| vec![("2MB".to_owned(), small << 20), ("1GB".to_owned(), big << 30)];
        assert_eq!(limits(&container("a", "", "cpu=1"), ""), named(0, 0));
        assert_eq!(limits(&container("a", "", "hugepages-2Mi=4Mi"), ""), named(4, 0));
        assert_eq!(
            limits(&container("a", "", "hugepages-2Mi=4Mi"), "hugepages-2Mi=8Mi,hugepages-1Gi=2Gi"),
            named(4, 2)
        );
        assert_eq!(limits(&container("a", "", "hugepages-64Ki=64Ki"), ""), named(0, 0), "pages that the host lacks");
    }

    /// RES-15.
    #[test]
    fn unified_keys_and_swap_follow_the_host() {
        let limited = container("a", "", "memory=1Gi");
        let unified = |single_process_oom_kill, swap_controller, cgroup_version| {
            let options =
                ResourceOptions { single_process_oom_kill, swap_controller, cgroup_version, ..Default::default() };
            let found = of(&limited, &options);
            let unified: Vec<_> = found.unified.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (unified.join(","), found.memory_swap_limit_in_bytes)
        };
        assert_eq!(unified(false, false, CgroupVersion::V2), ("memory.oom.group=1".to_owned(), 0));
        assert_eq!(unified(true, false, CgroupVersion::V2), (String::new(), 0));
        assert_eq!(unified(false, true, CgroupVersion::V2), ("memory.oom.group=1,memory.swap.max=0".to_owned(), 0));
        assert_eq!(unified(false, false, CgroupVersion::V1), (String::new(), 0));
        assert_eq!(unified(false, true, CgroupVersion::V1), (String::new(), 1 << 30));
    }

    /// RES-20.
    #[test]
    fn swap_is_shared_out_among_those_that_may_need_it() {
        let options =
            ResourceOptions { swap_controller: true, limited_swap: Some(1_000_000_000), ..Default::default() };
        let swap = |container: &Container| of(container, &options).unified["memory.swap.max"].clone();
        // A quarter of the node's memory is a quarter of its swap.
        assert_eq!(swap(&container("a", "memory=1G", "memory=2G")), "250000000");
        assert_eq!(swap(&container("a", "memory=1G", "")), "250000000");
        for (requests, limits) in [
            ("", ""),
            ("cpu=1", ""),
            ("memory=1G", "memory=1G"),
            ("cpu=1,memory=1G", "cpu=1,memory=1G"),
            ("memory=5G", ""),
        ] {
            assert_eq!(swap(&container("a", requests, limits)), "0", "{requests} {limits}");
        }
    }

    #[test]
    fn a_sandbox_carries_the_pods_sums_and_its_overhead_apart() {
        let containers = vec![container("a", "cpu=100m", "cpu=200m,memory=64Mi"), container("b", "cpu=150m", "")];
        let plain = pod(containers, vec![sidecar("s", "cpu=250m", "cpu=300m")]);
        let heavy = with_overhead(plain.clone(), "cpu=250m,memory=120Mi");
        let options = on_v1();
        let expected = LinuxResources {
            cpu_period: 100_000,
            cpu_quota: 50_000,
            cpu_shares: 512,
            memory_limit_in_bytes: 64 << 20,
            ..LinuxResources::default()
        };
        assert_eq!(sandbox_resources(&heavy, false, &options), expected);
        assert_eq!(sandbox_resources(&heavy, true, &options).cpu_quota, -1);
        let overhead = LinuxResources {
            cpu_period: 100_000,
            cpu_quota: 25_000,
            cpu_shares: 256,
            memory_limit_in_bytes: 120 << 20,
            ..LinuxResources::default()
        };
        assert_eq!(overhead_resources(&heavy, &options), overhead);
        assert_eq!(overhead_resources(&plain, &options), LinuxResources::default());
    }

    proptest! {
        #[test]
        fn what_the_runtime_gets_is_within_the_kernels_bounds(
            request in prop::option::of(any::<i32>()),
            limit in prop::option::of(0_i64..i64::MAX),
            pinned in any::<bool>(),
        ) {
            let text = |amount: Option<String>| amount.map(|amount| format!("cpu={amount}")).unwrap_or_default();
            let one = container("a", &text(request.map(|m| format!("{m}m"))), &text(limit.map(|m| format!("{m}m"))));
            let pod = pod(vec![one.clone()], vec![]);
            let found = container_resources(&pod, &one, &NODE, pinned, &ResourceOptions::default());
            prop_assert!((2..=262_144).contains(&found.cpu_shares));
            prop_assert!(found.cpu_quota == -1 || found.cpu_quota == 0 || found.cpu_quota >= 1_000);
        }
    }
}
