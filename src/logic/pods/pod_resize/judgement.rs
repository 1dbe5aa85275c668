//! Whether the node takes a resize on: what it never does, in which order it looks at the others, and what counts as a
//! resize (upstream's `pkg/kubelet/allocation`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::{PodResources, ResizeGates, is_resizable, same_requirements};
use crate::logic::model::ids::PodUid;
use crate::logic::model::quantity::Quantity;
use crate::logic::model::time::Moment;
use crate::logic::pods::pod_containers::all_containers;
use crate::logic::resources::{
    CPU, CgroupVersion, MEMORY, QosClass, ResourceList, ResourceOptions, container_limits, container_requests,
    is_critical, pod_qos, pod_requests, resource_list,
};

/// Why a resize is pending; the API's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum PendingReason {
    /// It waits for room.
    Deferred,
    /// This node never makes it.
    Infeasible,
}

/// A resize that is asked for and that the node has not taken on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingResize {
    /// Why, in one word.
    pub reason: PendingReason,
    /// Why.
    pub message: String,
    /// Of which generation of the pod.
    pub generation: Option<i64>,
    /// Since when for this reason.
    pub since: Moment,
}

/// A resize that this node never makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infeasible {
    /// The label of `kubelet_pod_infeasible_resizes_total`.
    pub detail: &'static str,
    /// Upstream's sentence.
    pub message: String,
}

/// Why this node never makes this resize of a pod; `None` where only room decides. `desired` and `allocated` are one pod.
pub fn infeasible(
    desired: &Pod,
    allocated: &Pod,
    gates: &ResizeGates,
    options: &ResourceOptions,
) -> Option<Infeasible> {
    if changes_swap(desired, allocated, options) {
        let message = "In-place resize of containers with swap is not supported.".to_owned();
        return Some(Infeasible { detail: "swap_limitation", message });
    }
    let of_pod = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.resources.clone());
    if !gates.by_pod && !same_requirements(of_pod(desired).as_ref(), of_pod(allocated).as_ref()) {
        let message = "InPlacePodLevelResourcesVerticalScaling is disabled".to_owned();
        return Some(Infeasible { detail: "plr_feature_gate_off", message });
    }
    if pod_qos(desired, options.pod_level_resources) != QosClass::Guaranteed {
        return None;
    }
    let changes = |name: &str| {
        let requests = |pod: &Pod| -> Vec<Quantity> {
            let resizable = all_containers(pod).filter(|(kind, container)| is_resizable(*kind, container, gates));
            resizable.map(|(_, one)| container_requests(&one).get(name).copied().unwrap_or_default()).collect()
        };
        requests(desired) != requests(allocated)
    };
    let message = |manager: &str, policy: &str| {
        format!("Resize is infeasible for Guaranteed Pods alongside {manager} policy \"{policy}\"")
    };
    if gates.cpus_pinned && changes(CPU) {
        let message = message("CPU Manager", "static");
        return Some(Infeasible { detail: "guaranteed_pod_cpu_manager_static_policy", message });
    }
    if gates.memory_pinned && changes(MEMORY) {
        let message = message("Memory Manager", "Static");
        return Some(Infeasible { detail: "guaranteed_pod_memory_manager_static_policy", message });
    }
    None
}

/// Whether a container's share of swap, which follows from its memory request, would have to change while it runs.
fn changes_swap(desired: &Pod, allocated: &Pod, options: &ResourceOptions) -> bool {
    let before: Vec<_> = all_containers(allocated).collect();
    all_containers(desired).any(|(_, after)| {
        let Some((_, before)) = before.iter().find(|(_, before)| before.name == after.name) else { return false };
        let memory = |container: &Container| container_requests(container).get(MEMORY).copied().unwrap_or_default();
        let policies = before.resize_policy.iter().flatten();
        let policy = policies.into_iter().find(|policy| policy.resource_name == MEMORY);
        let restarts = policy.is_some_and(|policy| policy.restart_policy == "RestartContainer");
        memory(&after) != memory(before)
            && !restarts
            && (swaps(desired, &after, options) || swaps(allocated, before, options))
    })
}

/// Whether the container may swap (upstream's `GetContainerSwapBehavior`).
fn swaps(pod: &Pod, container: &Container, options: &ResourceOptions) -> bool {
    let (request, limit) = (container_requests(container), container_limits(container));
    let amount = |list: &ResourceList| list.get(MEMORY).copied().unwrap_or_default();
    let (request, limit) = (amount(&request), amount(&limit));
    options.limited_swap.is_some()
        && options.swap_controller
        && options.cgroup_version == CgroupVersion::V2
        && !is_critical(pod)
        && pod_qos(pod, options.pod_level_resources) == QosClass::Burstable
        && request != limit
}

/// Whether the pod asks for more CPU or memory than it was given.
pub fn is_increase(desired: &Pod, allocated: &Pod, options: &ResourceOptions) -> bool {
    let (new, old) = (asked(desired, options), asked(allocated, options));
    let amount = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or_default();
    [CPU, MEMORY].into_iter().any(|name| amount(&new, name) > amount(&old, name))
}

fn asked(pod: &Pod, options: &ResourceOptions) -> ResourceList {
    pod_requests(pod, options.pod_level_resources, true)
}

/// A pod whose resize may be taken on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The pod's UID.
    pub uid: PodUid,
    /// Whether it asks for more than it has.
    pub increase: bool,
    /// `spec.priority`.
    pub priority: i32,
    /// Whether it is of class `Guaranteed`.
    pub guaranteed: bool,
    /// Since when it waits; `None` for one that was not looked at yet.
    pub since: Option<Moment>,
}

/// Candidates in the order in which they get what there is: what takes nothing first, then by priority, by class, and by
/// how long they have waited.
pub fn in_order(mut candidates: Vec<Candidate>) -> Vec<PodUid> {
    candidates.sort_by_key(|one| {
        let (new, since) = (one.since.is_none(), one.since);
        (one.increase, std::cmp::Reverse(one.priority), !one.guaranteed, new, since, one.uid.clone())
    });
    candidates.into_iter().map(|one| one.uid).collect()
}

/// One change that an update asks for: the labels of `kubelet_container_requested_resizes_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// `cpu` or `memory`.
    pub resource: &'static str,
    /// `requests` or `limits`.
    pub requirement: &'static str,
    /// `add`, `remove`, `increase` or `decrease`.
    pub operation: &'static str,
}

/// The request of a pod's update, container by container.
pub fn operations(before: &Pod, after: &Pod, gates: &ResizeGates) -> Vec<Operation> {
    let old: Vec<_> = all_containers(before).collect();
    let mut found = Vec::new();
    for (kind, new) in all_containers(after).filter(|(kind, container)| is_resizable(*kind, container, gates)) {
        let Some((_, old)) = old.iter().find(|(other, old)| *other == kind && old.name == new.name) else { continue };
        let lists = |container: &Container| [container_requests(container), container_limits(container)];
        let (old, new) = (lists(old), lists(&new));
        for (resource, requirement, at) in
            [(MEMORY, "requests", 0), (MEMORY, "limits", 1), (CPU, "requests", 0), (CPU, "limits", 1)]
        {
            let amount = |list: &ResourceList| list.get(resource).copied().unwrap_or_default();
            if let Some(operation) = operation(amount(&old[at]), amount(&new[at])) {
                found.push(Operation { resource, requirement, operation });
            }
        }
    }
    found
}

fn operation(old: Quantity, new: Quantity) -> Option<&'static str> {
    match (old.is_zero(), new.is_zero()) {
        (false, true) => Some("remove"),
        (true, false) => Some("add"),
        _ if new < old => Some("decrease"),
        _ if new > old => Some("increase"),
        _ => None,
    }
}

/// The pod with as much CPU and memory as it may still use: what it was given, or what its status says is in force where
/// that is more. A pod that is being made smaller takes its room until it is. `by_pod` as in [`ResizeGates`].
pub fn counted_with_actual(pod: &Arc<Pod>, by_pod: bool) -> Arc<Pod> {
    let Some(status) = &pod.status else { return Arc::clone(pod) };
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let all: Vec<&ContainerStatus> = lists.into_iter().flatten().flatten().collect();
    let in_force = |name: &str| -> Option<ResourceList> {
        let status = all.iter().find(|status| status.name == name)?;
        Some(resource_list(status.resources.as_ref()?.requests.as_ref()))
    };
    let more = |container: &Container| -> Vec<&'static str> {
        let (own, told) = (container_requests(container), in_force(&container.name).unwrap_or_default());
        let amount = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or_default();
        [CPU, MEMORY].into_iter().filter(|name| amount(&told, name) > amount(&own, name)).collect()
    };
    let Some(spec) = &pod.spec else { return Arc::clone(pod) };
    let own = own_cpu_in_force(spec, status).filter(|_| by_pod);
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    if own.is_none() && containers.all(|container| more(container).is_empty()) {
        return Arc::clone(pod);
    }
    let mut counted = Pod::clone(pod);
    let spec = counted.spec.as_mut().expect("checked above");
    if let Some(cpu) = own {
        let resources = spec.resources.get_or_insert_default();
        resources.requests.get_or_insert_default().insert(CPU.to_owned(), ApiQuantity(cpu.to_string()));
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        for name in more(container) {
            let told = all.iter().find(|status| status.name == container.name);
            let told = told.and_then(|status| status.resources.as_ref()?.requests.as_ref()?.get(name).cloned());
            if let Some(told) = told {
                let resources = container.resources.get_or_insert_with(ResourceRequirements::default);
                resources.requests.get_or_insert_default().insert(name.to_owned(), told);
            }
        }
    }
    Arc::new(counted)
}

/// The CPU that the pod as a whole has, where that is more than its own request; the kernel's figure has the overhead in
/// it. Of memory the kernel knows no request that could be in force for longer.
fn own_cpu_in_force(spec: &PodSpec, status: &PodStatus) -> Option<Quantity> {
    let cpu = |list| resource_list(list).get(CPU).map(|amount| amount.milli_value());
    let own = cpu(spec.resources.as_ref()?.requests.as_ref())?;
    let overhead = cpu(spec.overhead.as_ref()).unwrap_or(0);
    let told = cpu(status.resources.as_ref()?.requests.as_ref())?.saturating_sub(overhead);
    (told > own).then(|| Quantity::from_milli(told))
}

impl PodResources {
    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.pod.is_none()
    }
}
