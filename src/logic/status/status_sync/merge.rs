//! The status that the API server is to have (POD-34, POD-35; upstream's `mergePodStatus`). Pure; keeps nothing.
//!
//! A status is one object with two kinds of writers: the node agent has its own fields and conditions, all others are
//! kept as the API server has them.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};

use crate::logic::model::pod_phase::{FAILED, RUNNING, is_terminal};
use crate::logic::model::restart_policy::{could_restart_all, should_restart};
use crate::logic::status::status_gates::StatusGates;

/// Written by others too; the agent sends it only with the transition to a terminal phase.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

fn phase(status: &PodStatus) -> &str {
    status.phase.as_deref().unwrap_or_default()
}

/// The API server's status with the agent's own parts in it. While containers of the pod `may_run`, a pod that has not
/// ended is not said to have: phase, reason and message stay, the rest goes (POD-35).
pub fn merged(api: &PodStatus, own: &PodStatus, may_run: bool, gates: StatusGates) -> PodStatus {
    let ends = is_terminal(phase(own)) && !is_terminal(phase(api));
    let (phase, reason, message) = if is_terminal(phase(api)) || (ends && may_run) {
        (&api.phase, &api.reason, &api.message)
    } else {
        (&own.phase, &own.reason, &own.message)
    };
    PodStatus {
        phase: phase.clone(),
        reason: reason.clone(),
        message: message.clone(),
        conditions: Some(conditions(api, own, ends && !may_run, gates)).filter(|all| !all.is_empty()),
        container_statuses: own.container_statuses.clone().or_else(|| api.container_statuses.clone()),
        init_container_statuses: own.init_container_statuses.clone().or_else(|| api.init_container_statuses.clone()),
        ephemeral_container_statuses: own
            .ephemeral_container_statuses
            .clone()
            .or_else(|| api.ephemeral_container_statuses.clone()),
        host_ip: own.host_ip.clone().or_else(|| api.host_ip.clone()),
        host_ips: own.host_ips.clone().or_else(|| api.host_ips.clone()),
        pod_ip: own.pod_ip.clone(),
        pod_ips: own.pod_ips.clone(),
        qos_class: own.qos_class.clone().or_else(|| api.qos_class.clone()),
        start_time: api.start_time.clone().or_else(|| own.start_time.clone()),
        observed_generation: own.observed_generation.max(api.observed_generation),
        // The resources of a running pod are known, also where there is nothing to tell of.
        resources: own.resources.clone().or_else(|| api.resources.clone().filter(|_| self::phase(own) != RUNNING)),
        allocated_resources: own.allocated_resources.clone().or_else(|| api.allocated_resources.clone()),
        extended_resource_claim_status: api.extended_resource_claim_status.clone(),
        node_allocatable_resource_claim_statuses: api.node_allocatable_resource_claim_statuses.clone(),
        nominated_node_name: api.nominated_node_name.clone(),
        resize: api.resize.clone(),
        resource_claim_statuses: api.resource_claim_statuses.clone(),
    }
}

/// In the API server's order, so that nothing moves; what is new comes last.
fn conditions(api: &PodStatus, own: &PodStatus, ends: bool, gates: StatusGates) -> Vec<PodCondition> {
    let is_sent = |kind: &str| gates.own(kind) || (kind == DISRUPTION_TARGET && ends);
    let owns: Vec<&PodCondition> = own.conditions.iter().flatten().filter(|one| is_sent(&one.type_)).collect();
    let mut merged = Vec::new();
    for known in api.conditions.iter().flatten() {
        match owns.iter().find(|one| one.type_ == known.type_) {
            Some(one) => merged.push((*one).clone()),
            None if gates.own(&known.type_) => {} // No longer so.
            None => merged.push(known.clone()),
        }
    }
    let known = |one: &&&PodCondition| api.conditions.iter().flatten().all(|known| known.type_ != one.type_);
    merged.extend(owns.iter().filter(known).map(|one| (*one).clone()));
    merged
}

/// The status with containers in the form in which the API server lets them appear: one that has ended for good by its
/// policy, and runs again because its pod has another sandbox, as init containers do. The whole status would be refused for
/// it, and nobody would hear of the rest until it has ended once more.
pub fn as_allowed(pod: &Pod, shown: &PodStatus, mut status: PodStatus) -> PodStatus {
    let Some(spec) = pod.spec.as_ref().filter(|spec| !could_restart_all(spec)) else { return status };
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    keep_ended(pod, inits, &shown.init_container_statuses, &mut status.init_container_statuses);
    keep_ended(pod, &spec.containers, &shown.container_statuses, &mut status.container_statuses);
    status
}

fn keep_ended(
    pod: &Pod,
    containers: &[Container],
    shown: &Option<Vec<ContainerStatus>>,
    status: &mut Option<Vec<ContainerStatus>>,
) {
    let end = |status: &ContainerStatus| status.state.as_ref().and_then(|state| state.terminated.clone());
    for now in status.iter_mut().flatten().filter(|now| end(now).is_none()) {
        let before = shown.iter().flatten().find(|before| before.name == now.name);
        let Some((before, end)) = before.and_then(|before| Some((before, end(before)?))) else { continue };
        let container = containers.iter().find(|container| container.name == now.name);
        if container.is_some_and(|container| !should_restart(pod, container, end.exit_code)) {
            now.clone_from(before);
        }
    }
}

/// The status of a pod that has ended, whose containers nobody can look at any more (upstream's `TerminatePod`): those
/// without an end get one, where they were to have one. A pod that never got as far as its containers says nothing of them.
pub fn all_ended(mut status: PodStatus) -> PodStatus {
    let initialised = status.conditions.iter().flatten().any(|one| one.type_ == "Initialized" && one.status == "True");
    if initialised {
        status.container_statuses.iter_mut().flatten().for_each(end);
    }
    // Init containers come one after another: of those before the last that ever started, all have.
    let has_started = |one: &ContainerStatus| {
        let ran = |state: &Option<ContainerState>| {
            state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        };
        ran(&one.state) || ran(&one.last_state)
    };
    let inits = status.init_container_statuses.as_deref_mut().unwrap_or_default();
    let started = inits.iter().rposition(has_started).map_or(1, |last| last + 1);
    inits.iter_mut().take(started).for_each(end);
    status
}

/// The last status of a pod that is gone from the node: its containers have ended, and a pod that did not succeed has
/// failed. A static pod keeps its phase.
pub fn finished(status: PodStatus, is_static: bool) -> PodStatus {
    let mut status = all_ended(status);
    if !is_static && !is_terminal(phase(&status)) {
        status.phase = Some(FAILED.to_owned());
    }
    if is_terminal(phase(&status)) {
        let reason = if phase(&status) == FAILED { "PodFailed" } else { "PodCompleted" };
        let ready =
            status.conditions.iter_mut().flatten().filter(|one| ["Ready", "ContainersReady"].contains(&&*one.type_));
        for condition in ready.filter(|one| one.status != "False") {
            condition.status = "False".to_owned();
            condition.reason = Some(reason.to_owned());
            condition.message = None;
        }
    }
    status
}

fn end(status: &mut ContainerStatus) {
    if status.state.as_ref().is_some_and(|state| state.terminated.is_some()) {
        return;
    }
    let ended = ContainerStateTerminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..ContainerStateTerminated::default()
    };
    status.state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
    (status.ready, status.started) = (false, Some(false));
}
