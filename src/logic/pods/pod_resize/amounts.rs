//! CPU and memory of a container as numbers: what resizes compare.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::model::runtime_pod::RuntimeResources;
use crate::logic::resources::{
    CPU, MEMORY, ResourceOptions, milli_cpu_to_quota, milli_cpu_to_shares, quota_to_milli_cpu, resource_list,
    shares_to_milli_cpu,
};

/// Requests and limits of CPU, in thousandths, and of memory, in bytes; what is not set is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Amounts {
    /// CPU asked for.
    pub cpu_request: i64,
    /// CPU at most.
    pub cpu_limit: i64,
    /// Memory asked for.
    pub memory_request: i64,
    /// Memory at most.
    pub memory_limit: i64,
}

/// The amounts that a container asks for. Where it sets no limit, the pod's own holds, `by_pod` given.
pub fn container_amounts(
    own: Option<&ResourceRequirements>,
    pod: Option<&ResourceRequirements>,
    by_pod: bool,
) -> Amounts {
    let requests = resource_list(own.and_then(|own| own.requests.as_ref()));
    let limits = resource_list(own.and_then(|own| own.limits.as_ref()));
    let of_pod = resource_list(pod.filter(|_| by_pod).and_then(|pod| pod.limits.as_ref()));
    let amount = |name: &str| requests.get(name).copied().unwrap_or_default();
    let limit = |name: &str| {
        let own = limits.get(name).filter(|limit| !limit.is_zero());
        own.or_else(|| of_pod.get(name)).copied().unwrap_or_default()
    };
    Amounts {
        cpu_request: amount(CPU).milli_value(),
        cpu_limit: limit(CPU).milli_value(),
        memory_request: amount(MEMORY).value(),
        memory_limit: limit(MEMORY).value(),
    }
}

/// The resources with which a container of this pod is made: its own, with the pod's limits where it has none of its
/// own, `by_pod` given (upstream's `GetLimits`).
pub fn effective_requirements(pod: &Pod, container: &Container, by_pod: bool) -> ResourceRequirements {
    let mut own = container.resources.clone().unwrap_or_default();
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()).filter(|_| by_pod);
    for name in [CPU, MEMORY] {
        let Some(limit) = of_pod.and_then(|of_pod| of_pod.limits.as_ref()?.get(name)) else { continue };
        let is_zero = |text: &ApiQuantity| Quantity::parse(text.0.trim()).is_ok_and(|amount| amount.is_zero());
        let has_own = own.limits.as_ref().and_then(|limits| limits.get(name)).is_some_and(|own| !is_zero(own));
        if !has_own && !is_zero(limit) {
            own.limits.get_or_insert_default().insert(name.to_owned(), limit.clone());
        }
    }
    own
}

/// Resources with these amounts of CPU and memory; whatever else they name stays.
pub fn with_amounts(own: &ResourceRequirements, amounts: Amounts) -> ResourceRequirements {
    let set = |list: Option<&BTreeMap<String, ApiQuantity>>, cpu: i64, memory: i64| {
        let mut list = list.cloned().unwrap_or_default();
        let (cpu, memory) = (Quantity::from_milli(cpu), Quantity::from_units(memory, Format::BinarySi));
        for (name, amount) in [(CPU, cpu), (MEMORY, memory)] {
            if amount.is_zero() {
                list.remove(name);
            } else {
                list.insert(name.to_owned(), ApiQuantity(amount.to_string()));
            }
        }
        (!list.is_empty()).then_some(list)
    };
    ResourceRequirements {
        requests: set(own.requests.as_ref(), amounts.cpu_request, amounts.memory_request),
        limits: set(own.limits.as_ref(), amounts.cpu_limit, amounts.memory_limit),
        claims: own.claims.clone(),
    }
}

/// Whether the runtime's own figures of a container are those of `wanted`: where nobody noted what it was given, that
/// tells that there is nothing to be done.
pub fn matches_runtime(wanted: Amounts, told: &RuntimeResources, options: &ResourceOptions) -> bool {
    let cpu = if wanted.cpu_request == 0 { wanted.cpu_limit } else { wanted.cpu_request };
    let shares = i64::try_from(milli_cpu_to_shares(cpu)).unwrap_or(i64::MAX);
    let period = options.cpu_cfs_quota_period_us;
    let quota = if options.cpu_cfs_quota { milli_cpu_to_quota(wanted.cpu_limit, period) } else { 0 };
    let period = i64::try_from(period).unwrap_or(i64::MAX);
    let some = |value: i64| (value > 0).then_some(value);
    told.cpu_request == some(shares_to_milli_cpu(shares))
        && told.cpu_limit == some(if quota == 0 { 0 } else { quota_to_milli_cpu(quota, period) })
        && told.memory_limit == some(wanted.memory_limit)
}
