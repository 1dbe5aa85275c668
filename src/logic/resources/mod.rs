//! Limits of a pod and its containers: from the API's requests and limits to the numbers the kernel takes.
//!
//! Pure. The limits themselves keep nothing: callers hand in pods with their *allocated* resources in the spec (upstream's
//! allocation manager), the node's figures and the options of the configuration. The managers of CPUs, memory, devices and
//! user namespaces keep what they gave; `AllocationManager` and `UserNamespaces` own them.
//!
//! May import `formats` and `model`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::logic::model::quantity::{Quantity, QuantityError};

pub mod allocations;
pub mod cgroup_name;
pub mod cpu_manager;
pub mod device_manager;
mod limits;
pub mod memory_manager;
pub mod node_cgroups;
mod pod_sums;
pub mod portion;
mod qos;
pub mod topology;
pub mod user_namespaces;

pub use limits::{
    AGENT_OOM_SCORE_ADJ, CPU_BURST_ANNOTATION, CPU_PERIOD_DEFAULT_US, CPU_SHARES_MAX, CPU_SHARES_MIN, CgroupSettings,
    CpuBurst, CpuBurstNotice, InvalidCpuBurst, LinuxResources, MemoryQos, SYSTEM_CRITICAL_PRIORITY, asked_cpu_burst,
    container_hugepage_limits, container_oom_score_adj, container_resources, cpu_burst_notice, hugepage_capacity,
    hugepage_limits, hugepage_unit_name, is_critical, is_node_critical, milli_cpu_to_quota, milli_cpu_to_shares,
    overhead_resources, pod_cgroup_settings, quota_to_milli_cpu, sandbox_resources, shares_to_milli_cpu,
    shares_to_weight, weight_to_shares,
};
pub use node_cgroups::{
    TierShares, TierSums, best_effort_tier_settings, burstable_tier_settings, reserved_tier_settings,
};
pub use pod_sums::{
    aggregate_container_limits, aggregate_container_requests, has_pod_level_resources, is_pod_level_resource,
    pod_limits, pod_requests,
};
pub use qos::{QosClass, pod_qos};

/// Amounts by resource name; upstream's `ResourceList`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The resource name of processor time, in CPUs.
pub const CPU: &str = "cpu";
/// The resource name of memory, in bytes.
pub const MEMORY: &str = "memory";
/// The resource name of the space for pods' files, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The resource name of process ids in reservations; upstream's `pidlimit.PIDs`.
pub const PIDS: &str = "pid";
/// The beginning of huge page resources' names; the page size follows, as a quantity.
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

/// The figures of the node that resources are computed against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// All memory of the machine, in bytes.
    pub capacity_bytes: i64,
}

/// Which generation of control groups the host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CgroupVersion {
    /// One hierarchy per controller (also hybrid hosts, whose v2 tree has no controllers).
    V1,
    /// The unified hierarchy.
    V2,
}

impl CgroupVersion {
    /// The value of upstream's metric `kubelet_cgroup_version`.
    pub fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// Settings of resources from the configuration and the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceOptions {
    /// `cpuCFSQuota`: whether CPU limits are enforced at all.
    pub cpu_cfs_quota: bool,
    /// `cpuCFSQuotaPeriod`, in microseconds.
    pub cpu_cfs_quota_period_us: u64,
    /// Gate `PodLevelResources`.
    pub pod_level_resources: bool,
    /// `singleProcessOOMKill`; matters on v2 only.
    pub single_process_oom_kill: bool,
    /// `podPidsLimit`; zero or less is no limit.
    pub pod_pids_limit: i64,
    /// The host's generation of control groups.
    pub cgroup_version: CgroupVersion,
    /// Whether the host can account swap: `memory.swap.max` on v2, `memory.memsw.limit_in_bytes` on v1.
    pub swap_controller: bool,
    /// The host's swap, in bytes, where pods may use it (`memorySwap.swapBehavior: LimitedSwap`, v2 only).
    pub limited_swap: Option<i64>,
    /// Gate `MemoryQoS`, on a v2 host.
    pub memory_qos: Option<MemoryQos>,
    /// `--cpu-burst-max-percent`, as far as the host can do it.
    pub cpu_burst: CpuBurst,
}

impl Default for ResourceOptions {
    /// Upstream's defaults on a v2 host without swap accounting.
    fn default() -> Self {
        Self {
            cpu_cfs_quota: true,
            cpu_cfs_quota_period_us: CPU_PERIOD_DEFAULT_US,
            pod_level_resources: true,
            single_process_oom_kill: false,
            pod_pids_limit: -1,
            cgroup_version: CgroupVersion::V2,
            swap_controller: false,
            limited_swap: None,
            memory_qos: None,
            cpu_burst: CpuBurst::Off,
        }
    }
}

/// A quantity of a pod that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {source}")]
pub struct InvalidQuantity {
    /// Where it stands, as an API field path.
    pub place: String,
    /// Why it cannot be read.
    pub source: QuantityError,
}

/// Checks that every quantity of a pod's resources can be read, so that the computations here miss none.
/// Sources call it before they take a pod; the API server has done so for its own.
///
/// # Errors
/// The first quantity that is none, with its place.
pub fn check_quantities(pod: &Pod) -> Result<(), InvalidQuantity> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let check = |place: &str, list: Option<&BTreeMap<String, ApiQuantity>>| {
        for (name, quantity) in list.into_iter().flatten() {
            Quantity::parse(quantity.0.trim())
                .map_err(|source| InvalidQuantity { place: format!("{place}[{name}]"), source })?;
        }
        Ok(())
    };
    check("spec.overhead", spec.overhead.as_ref())?;
    if let Some(resources) = &spec.resources {
        check("spec.resources.requests", resources.requests.as_ref())?;
        check("spec.resources.limits", resources.limits.as_ref())?;
    }
    let containers = spec.containers.iter().map(|container| ("containers", container));
    let init_containers = spec.init_containers.iter().flatten().map(|container| ("initContainers", container));
    for (field, container) in containers.chain(init_containers) {
        let place = format!("spec.{field}[{}].resources", container.name);
        if let Some(resources) = &container.resources {
            check(&format!("{place}.requests"), resources.requests.as_ref())?;
            check(&format!("{place}.limits"), resources.limits.as_ref())?;
        }
    }
    Ok(())
}

/// Reads a list of the API. A quantity that cannot be read counts as absent: [`check_quantities`] refuses such pods.
pub fn resource_list(list: Option<&BTreeMap<String, ApiQuantity>>) -> ResourceList {
    list.into_iter()
        .flatten()
        .filter_map(|(name, quantity)| Some((name.clone(), Quantity::parse(quantity.0.trim()).ok()?)))
        .collect()
}

/// A container's own requests.
pub fn container_requests(container: &Container) -> ResourceList {
    resource_list(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

/// A container's own limits.
pub fn container_limits(container: &Container) -> ResourceList {
    resource_list(container.resources.as_ref().and_then(|resources| resources.limits.as_ref()))
}

/// Whether a resource is none of Kubernetes' own: a device, or what somebody patched in (`IsExtendedResourceName`).
pub fn is_extended(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else { return false };
    let foreign = !name.contains("kubernetes.io/") && !name.starts_with("requests.");
    foreign && !domain.is_empty() && (1..=63).contains(&rest.len()) && !rest.contains('/')
}

/// Whether a container of the pod asks for a resource that a device plugin may have.
pub fn asks_extended(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let mut limits =
        containers.flat_map(|container| container.resources.iter().flat_map(|own| own.limits.iter().flatten()));
    limits.any(|(name, _)| is_extended(name))
}

/// The amount of one resource, nothing when absent.
fn amount(list: &ResourceList, name: &str) -> Quantity {
    list.get(name).copied().unwrap_or(Quantity::ZERO)
}

/// Builders of pods for the tests of this folder.
#[cfg(test)]
pub(crate) mod testing {
    use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};

    use super::*;

    /// A list from `cpu=1,memory=2Gi`; the empty text is an absent list.
    pub fn list(text: &str) -> Option<BTreeMap<String, ApiQuantity>> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        let list: BTreeMap<_, _> =
            pairs.map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned()))).collect();
        (!list.is_empty()).then_some(list)
    }

    /// Requests and limits.
    pub fn requirements(requests: &str, limits: &str) -> ResourceRequirements {
        ResourceRequirements { requests: list(requests), limits: list(limits), claims: None }
    }

    /// A container of the given name.
    pub fn container(name: &str, requests: &str, limits: &str) -> Container {
        let resources = Some(requirements(requests, limits));
        Container { name: name.to_owned(), resources, ..Container::default() }
    }

    /// An init container that keeps running.
    pub fn sidecar(name: &str, requests: &str, limits: &str) -> Container {
        Container { restart_policy: Some("Always".to_owned()), ..container(name, requests, limits) }
    }

    /// A pod of these containers.
    pub fn pod(containers: Vec<Container>, init_containers: Vec<Container>) -> Pod {
        let spec = PodSpec { containers, init_containers: Some(init_containers), ..PodSpec::default() };
        Pod { spec: Some(spec), ..Pod::default() }
    }

    /// The same pod with resources of its own.
    pub fn with_pod_level(mut pod: Pod, requests: &str, limits: &str) -> Pod {
        pod.spec.as_mut().expect("a spec").resources = Some(requirements(requests, limits));
        pod
    }

    /// The same pod with an overhead.
    pub fn with_overhead(mut pod: Pod, overhead: &str) -> Pod {
        pod.spec.as_mut().expect("a spec").overhead = list(overhead);
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{container, pod, with_overhead};
    use super::*;

    #[test]
    fn a_quantity_that_cannot_be_read_is_named_with_its_place() {
        assert_eq!(check_quantities(&pod(vec![container("a", "cpu=1", "memory=1Gi")], vec![])), Ok(()));
        let bad_limit = pod(vec![container("a", "cpu=1", "")], vec![container("b", "", "memory=1GiB")]);
        let error = check_quantities(&bad_limit).expect_err("no quantity");
        assert!(error.to_string().starts_with("spec.initContainers[b].resources.limits[memory]: "), "{error}");
        let error = check_quantities(&with_overhead(pod(vec![], vec![]), "cpu=lots")).expect_err("no quantity");
        assert_eq!(error.place, "spec.overhead[cpu]");
    }
}
