//! The pod's conditions (POD-16; upstream's `pkg/kubelet/status/generate.go`).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodCondition, PodSpec, PodStatus};

use super::{StatusInput, time};
use crate::logic::model::pod_phase::{FAILED, SUCCEEDED};
use crate::logic::model::restart_policy::{could_restart_all, is_sidecar};
use crate::logic::pods::container_actions::{SandboxDecision, sandbox_decision};
use crate::logic::status::status_gates::READY_TO_START;

const READY: &str = "Ready";
const INITIALIZED: &str = "Initialized";
pub(super) const ALL_RESTARTING: &str = "AllContainersRestarting";
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The content of a condition, before it is dated.
struct Verdict {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    const YES: Self = Self { holds: true, reason: "", message: String::new() };
    const NO: Self = Self { holds: false, reason: "", message: String::new() };
}

/// Makes all conditions: foreign ones first, then the agent's own in upstream's order.
pub(super) fn generate(
    input: &StatusInput<'_>,
    spec: &PodSpec,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
    phase: &str,
) -> Vec<PodCondition> {
    let mut conditions = foreign(input);
    let containers_ready = containers_ready(spec, init, regular, phase);
    let ready = ready(spec, &conditions, &containers_ready);
    let verdicts = [
        (READY_TO_START, ready_to_start(input)),
        (INITIALIZED, initialized(input, spec, init, regular, phase)),
        (READY, ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Verdict::YES),
    ];
    let told = verdicts.into_iter().filter(|(kind, _)| input.gates.own(kind));
    conditions.extend(told.map(|(kind, verdict)| dated(input, kind, verdict)));
    if could_restart_all(spec) {
        let condition = dated(input, ALL_RESTARTING, all_restarting(input, spec, phase));
        // As upstream: of all its conditions this one alone tells no generation.
        conditions.push(PodCondition { observed_generation: None, ..condition });
    }
    conditions
}

/// Conditions of others, as the API has them; and `DisruptionTarget`, which others set too, as the API server had it last.
fn foreign(input: &StatusInput<'_>) -> Vec<PodCondition> {
    let of_api = input.pod.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let mut conditions: Vec<PodCondition> =
        of_api.filter(|condition| !input.gates.own(&condition.type_)).cloned().collect();
    conditions.extend(input.resources.resize.conditions().into_iter().filter(|_| !input.terminal));
    if let Some(disruption) = input.before().and_then(|before| find(before, DISRUPTION_TARGET)) {
        conditions.retain(|condition| condition.type_ != DISRUPTION_TARGET);
        conditions.push(disruption.clone());
    }
    conditions
}

/// Gives the condition its generation, and its time: that of its last change.
fn dated(input: &StatusInput<'_>, kind: &str, verdict: Verdict) -> PodCondition {
    let status = if verdict.holds { "True" } else { "False" };
    let before = input.before().and_then(|before| find(before, kind)).filter(|before| before.status == status);
    let kept = before.and_then(|before| before.last_transition_time.clone());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: (!verdict.reason.is_empty()).then(|| verdict.reason.to_owned()),
        message: (!verdict.message.is_empty()).then_some(verdict.message),
        last_transition_time: kept.or_else(|| Some(time(input.now))),
        observed_generation: input.pod.metadata.generation,
        ..PodCondition::default()
    }
}

/// The condition of this type.
pub(super) fn find<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Whether the status says that the pod is ready.
pub(super) fn is_ready(status: &PodStatus) -> bool {
    find(status, READY).is_some_and(|condition| condition.status == "True")
}

/// A sandbox that can be used says that volumes are there, too, as upstream makes none before: here it is made beside them,
/// and they count by themselves until there are containers, which come after both.
fn ready_to_start(input: &StatusInput<'_>) -> Verdict {
    let has_volumes = input.volumes_mounted || !input.runtime.containers.is_empty();
    match sandbox_decision(input.pod, input.runtime) {
        SandboxDecision::Keep { .. } if has_volumes => Verdict::YES,
        SandboxDecision::Keep { .. } | SandboxDecision::Create { .. } => Verdict::NO,
    }
}

fn initialized(
    input: &StatusInput<'_>,
    spec: &PodSpec,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
    phase: &str,
) -> Verdict {
    if phase == SUCCEEDED {
        return Verdict { reason: "PodCompleted", ..Verdict::YES };
    }
    let containers = spec.init_containers.iter().flatten();
    let is_through = |container: &Container, status: &ContainerStatus| match is_sidecar(container) {
        true => status.started == Some(true),
        false => status.ready,
    };
    let message = shortcomings(containers.map(|container| (container, init)), is_through, "incomplete");
    let has_started = |status: &ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    // Once a pod was initialised it stays so: its init containers may run again in place, or be forgotten.
    let was =
        || input.before().and_then(|before| find(before, INITIALIZED)).is_some_and(|before| before.status == "True");
    if message.is_empty() || regular.iter().any(has_started) || was() {
        return Verdict::YES;
    }
    Verdict { reason: "ContainersNotInitialized", message, ..Verdict::NO }
}

/// Sidecars count like regular containers, and come first.
fn containers_ready(spec: &PodSpec, init: &[ContainerStatus], regular: &[ContainerStatus], phase: &str) -> Verdict {
    match phase {
        SUCCEEDED => return Verdict { reason: "PodCompleted", ..Verdict::NO },
        FAILED => return Verdict { reason: "PodFailed", ..Verdict::NO },
        _ => {}
    }
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let all = sidecars.map(|sidecar| (sidecar, init)).chain(spec.containers.iter().map(|one| (one, regular)));
    match shortcomings(all, |_, status| status.ready, "unready") {
        message if message.is_empty() => Verdict::YES,
        message => Verdict { reason: "ContainersNotReady", message, ..Verdict::NO },
    }
}

/// Whether containers are being removed so that all start over in place (POD-18).
fn all_restarting(input: &StatusInput<'_>, spec: &PodSpec, phase: &str) -> Verdict {
    match phase {
        SUCCEEDED => return Verdict { reason: "PodCompleted", ..Verdict::NO },
        FAILED => return Verdict { reason: "PodFailed", ..Verdict::NO },
        _ => {}
    }
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let any_left = containers.any(|container| input.runtime.container(&container.name).is_some());
    if !any_left || !input.restarting_all() {
        return Verdict::NO;
    }
    let message = "container exited with restart policy rule".to_owned();
    Verdict { reason: "RestartAllContainersStarted", message, ..Verdict::YES }
}

fn ready(spec: &PodSpec, conditions: &[PodCondition], containers_ready: &Verdict) -> Verdict {
    if !containers_ready.holds {
        return Verdict { holds: false, reason: containers_ready.reason, message: containers_ready.message.clone() };
    }
    let shortcoming = |gate: &str| match conditions.iter().find(|condition| condition.type_ == gate) {
        None => Some(format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")),
        Some(condition) if condition.status == "True" => None,
        Some(PodCondition { status, .. }) => {
            Some(format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {status}"))
        }
    };
    let gates = spec.readiness_gates.iter().flatten();
    let missing: Vec<String> = gates.filter_map(|gate| shortcoming(&gate.condition_type)).collect();
    if missing.is_empty() {
        return Verdict::YES;
    }
    Verdict { reason: "ReadinessGatesNotReady", message: missing.join(", "), ..Verdict::NO }
}

/// Which containers have no status in their list, or not a good one; empty when there are none. Lists are written as Go
/// does.
fn shortcomings<'a>(
    containers: impl Iterator<Item = (&'a Container, &'a [ContainerStatus])>,
    is_good: impl Fn(&Container, &ContainerStatus) -> bool,
    otherwise: &str,
) -> String {
    let mut lists: [(&str, Vec<&str>); 2] = [("unknown", Vec::new()), (otherwise, Vec::new())];
    for (container, statuses) in containers {
        match statuses.iter().find(|status| status.name == container.name) {
            None => lists[0].1.push(&container.name),
            Some(status) if !is_good(container, status) => lists[1].1.push(&container.name),
            Some(_) => {}
        }
    }
    let told = lists.iter().filter(|(_, names)| !names.is_empty());
    let texts: Vec<String> =
        told.map(|(what, names)| format!("containers with {what} status: [{}]", names.join(" "))).collect();
    texts.join(", ")
}
