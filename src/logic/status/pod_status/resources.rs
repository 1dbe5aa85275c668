//! Resources in a status: the allocation, and the part of it that is in force (RES-55; upstream's
//! `convertContainerStatusResources` and `convertToAPIPodLevelResourcesStatus`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::StatusInput;
use crate::logic::model::pod_phase::{RUNNING, is_terminal};
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimeResources};
use crate::logic::pods::pod_resize::container_amounts;
use crate::logic::resources::{
    CPU, MEMORY, ResourceList, pod_limits, pod_requests, quota_to_milli_cpu, resource_list, shares_to_milli_cpu,
};

type List = BTreeMap<String, ApiQuantity>;

/// Requests of CPU up to here are one share to the kernel, in thousandths: the status has the number that was given.
const CPU_REQUEST_MIN: i64 = 2;
/// The same of limits.
const CPU_LIMIT_MIN: i64 = 10;

fn milli(value: i64) -> ApiQuantity {
    ApiQuantity(Quantity::from_milli(value).to_string())
}

fn bytes(value: i64) -> ApiQuantity {
    ApiQuantity(Quantity::from_units(value, Format::BinarySi).to_string())
}

fn amount(list: &List, name: &str) -> i64 {
    list.get(name).and_then(|text| Quantity::parse(text.0.trim()).ok()).map_or(0, |amount| amount.milli_value())
}

/// Where both numbers are too small to differ in force, the given one is kept.
fn set_cpu(list: &mut List, told: i64, least: i64) {
    if told > least || amount(list, CPU) > least {
        list.insert(CPU.to_owned(), milli(told));
    }
}

fn keep(list: &mut List, name: &str, shown: Option<&List>) {
    if let Some(shown) = shown.and_then(|shown| shown.get(name)) {
        list.insert(name.to_owned(), shown.clone());
    }
}

/// The resources of a container: in force while it runs, else as given. `before` is the entry of this very instance.
pub(super) fn of_container(
    input: &StatusInput<'_>,
    container: &Container,
    newest: &RuntimeContainer,
    before: Option<&ContainerStatus>,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if newest.state != ContainerState::Running {
        return resources;
    }
    let ran = |before: &&ContainerStatus| before.state.as_ref().is_some_and(|state| state.running.is_some());
    let shown = before.filter(ran).and_then(|before| before.resources.as_ref());
    let noted = input.resources.actuated.and_then(|actuated| actuated.containers.get(&container.name));
    let noted = noted.map(|noted| container_amounts(Some(noted), None, false));
    let positive = |value: i64| (value > 0).then_some(value);
    // A runtime that reports nothing has the resources that it got.
    let told = newest.resources.or_else(|| {
        let noted = noted?;
        Some(RuntimeResources {
            cpu_request: positive(noted.cpu_request),
            cpu_limit: positive(noted.cpu_limit),
            memory_limit: positive(noted.memory_limit),
        })
    });
    let told = told.unwrap_or_default();
    if let Some(limits) = &mut resources.limits {
        let shown = shown.and_then(|shown| shown.limits.as_ref());
        match told.cpu_limit {
            Some(limit) => set_cpu(limits, limit, CPU_LIMIT_MIN),
            None => keep(limits, CPU, shown),
        }
        match told.memory_limit {
            Some(limit) => drop(limits.insert(MEMORY.to_owned(), bytes(limit))),
            None => keep(limits, MEMORY, shown),
        }
    }
    if let Some(requests) = &mut resources.requests {
        let shown = shown.and_then(|shown| shown.requests.as_ref());
        match told.cpu_request {
            Some(request) => set_cpu(requests, request, CPU_REQUEST_MIN),
            None => keep(requests, CPU, shown),
        }
        match noted.and_then(|noted| positive(noted.memory_request)) {
            Some(request) => drop(requests.insert(MEMORY.to_owned(), bytes(request))),
            None => keep(requests, MEMORY, shown),
        }
    }
    resources
}

fn list(of: &ResourceList) -> List {
    of.iter().map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string()))).collect()
}

/// The allocation of the pod as a whole; `None` where nobody asks.
pub(super) fn allocated_to_pod(input: &StatusInput<'_>) -> Option<List> {
    let given = list(&pod_requests(input.pod, input.resources.options.pod_level_resources, true));
    (input.resources.gates.by_pod && !given.is_empty()).then_some(given)
}

/// The resources of the pod as a whole: in force once it runs, before as given. `told` is the phase of this status: where
/// nothing happens after it, no other one would tell what is in force.
pub(super) fn of_pod(input: &StatusInput<'_>, told: &str) -> Option<ResourceRequirements> {
    if !input.resources.gates.by_pod {
        return None;
    }
    let by_pod = input.resources.options.pod_level_resources;
    let own = input.pod.spec.as_ref().and_then(|spec| spec.resources.clone()).unwrap_or_default();
    let given = list(&pod_requests(input.pod, by_pod, true));
    let phase = input.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    // A pod that has ended goes on showing what it had.
    let shown = input.before().and_then(|before| before.resources.clone());
    if let Some(shown) = shown.filter(|_| phase.is_some_and(is_terminal)) {
        return Some(shown);
    }
    let runs = phase == Some(RUNNING) || (told == RUNNING && input.resources.figures.is_some());
    let resources = match runs {
        true => {
            // Without a cgroup, as once all containers have ended, the former amounts stay.
            let figures = input.resources.figures.copied().unwrap_or_default();
            let (mut requests, mut limits) = (own.requests.unwrap_or_default(), own.limits.unwrap_or_default());
            let shown = input.before().and_then(|before| before.resources.as_ref());
            let of_shown = |of: fn(&ResourceRequirements) -> Option<&List>| shown.and_then(of);
            let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let positive = |value: i64| (value > 0).then_some(value);
            match figures.cpu_shares.and_then(|shares| positive(shares_to_milli_cpu(number(shares)))) {
                Some(request) => set_cpu(&mut requests, request, CPU_REQUEST_MIN),
                None => keep(&mut requests, CPU, of_shown(|shown| shown.requests.as_ref())),
            }
            if let Some(request) = given.get(MEMORY).filter(|_| !requests.contains_key(MEMORY)) {
                requests.insert(MEMORY.to_owned(), request.clone());
            }
            let period = figures.cpu_period.map_or(0, number);
            match figures.cpu_quota.and_then(|quota| positive(quota_to_milli_cpu(quota, period))) {
                Some(limit) => set_cpu(&mut limits, limit, CPU_LIMIT_MIN),
                None => keep(&mut limits, CPU, of_shown(|shown| shown.limits.as_ref())),
            }
            match figures.memory_limit.and_then(positive) {
                Some(limit) => drop(limits.insert(MEMORY.to_owned(), bytes(limit))),
                None => keep(&mut limits, MEMORY, of_shown(|shown| shown.limits.as_ref())),
            }
            ResourceRequirements { requests: Some(requests), limits: Some(limits), claims: own.claims }
        }
        false => {
            let limits = list(&pod_limits(input.pod, by_pod, true));
            ResourceRequirements { requests: Some(given), limits: Some(limits), claims: own.claims }
        }
    };
    let some = |list: Option<List>| list.filter(|list| !list.is_empty());
    let resources = ResourceRequirements {
        requests: some(resources.requests),
        limits: some(resources.limits),
        claims: resources.claims,
    };
    (resource_list(resources.requests.as_ref()).len() + resource_list(resources.limits.as_ref()).len() > 0)
        .then_some(resources)
}
