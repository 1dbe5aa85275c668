//! Running containers that are to have other resources than they have (POD-26; upstream's `computePodResizeAction`).

use k8s_openapi::api::core::v1::{Container, Pod};

use super::{KillContainer, KillReason, PlanInput};
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod};
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::pods::pod_containers::all_containers;
use crate::logic::pods::pod_resize::{
    Amounts, ContainerResources, ContainerUpdate, PodResources, container_amounts, matches_runtime,
};
use crate::logic::resources::{CPU, MEMORY, ResourceOptions};

/// Facts of the resources in force.
#[derive(Clone, Copy, Debug)]
pub struct ResizeInput<'a> {
    /// As the runtime has it from the agent.
    pub actuated: &'a PodResources,
    /// Resources of containers that are being started, by name: one may be seen running before its start has ended.
    pub starting: &'a ContainerResources,
    /// Whether the pod's own resources count (gate `InPlacePodLevelResourcesVerticalScaling`).
    pub by_pod: bool,
    /// Whether init containers that run to their end are resized, too.
    pub init_containers: bool,
    /// How resources become figures.
    pub options: &'a ResourceOptions,
}

/// The next step of a running container.
#[derive(Debug)]
pub(super) enum Resize {
    /// Nothing.
    None,
    /// Other limits, while it runs.
    Update(ContainerUpdate),
    /// To be made anew with them.
    Restart,
}

/// The container's allocation, and the part of it in force. Where nobody noted that, the runtime's own figures tell
/// whether it is the same; if they do not, nothing counts as in force, as upstream has it.
fn amounts(
    input: &ResizeInput<'_>,
    pod: &Pod,
    container: &Container,
    running: &RuntimeContainer,
) -> (Amounts, Amounts) {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let desired = container_amounts(container.resources.as_ref(), of_pod, input.by_pod);
    let noted = input.starting.get(&container.name).or_else(|| input.actuated.containers.get(&container.name));
    let current = match noted {
        Some(noted) => container_amounts(Some(noted), input.actuated.pod.as_ref(), input.by_pod),
        None if running.resources.is_some_and(|told| matches_runtime(desired, &told, input.options)) => desired,
        None => Amounts::default(),
    };
    (desired, current)
}

pub(super) fn of(input: &PlanInput<'_>, container: &Container, running: &RuntimeContainer) -> Resize {
    let Some(resize) = &input.resize else { return Resize::None };
    let (desired, current) = amounts(resize, input.pod, container, running);
    if desired == current {
        return Resize::None;
    }
    let policy = |name: &str| {
        let policy = container.resize_policy.iter().flatten().find(|policy| policy.resource_name == name);
        policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
    };
    let of_cpu = |amounts: Amounts| (amounts.cpu_limit, amounts.cpu_request);
    let of_memory = |amounts: Amounts| (amounts.memory_limit, amounts.memory_request);
    let restarts = (of_cpu(desired) != of_cpu(current) && policy(CPU))
        || (of_memory(desired) != of_memory(current) && policy(MEMORY));
    if restarts {
        return Resize::Restart;
    }
    Resize::Update(ContainerUpdate { id: running.id.clone(), name: container.name.clone(), desired, current })
}

/// The stop of a container that is to be made anew.
pub(super) fn kill(container: &Container, running: &RuntimeContainer, kind: ContainerKind) -> KillContainer {
    let (id, name) = (running.id.clone(), container.name.clone());
    let message = format!("Container {name} resize requires restart");
    KillContainer { id, name, kind, message, reason: KillReason::Resize }
}

/// The update of a running init container: of a sidecar that has started, or of one that runs to its end. The latter
/// cannot be made anew, and the API server lets none ask for it.
pub(super) fn update_of_init(
    input: &PlanInput<'_>,
    container: &Container,
    running: &RuntimeContainer,
) -> Option<ContainerUpdate> {
    if !is_sidecar(container) && !input.resize.as_ref()?.init_containers {
        return None;
    }
    match of(input, container, running) {
        Resize::Update(update) => Some(update),
        Resize::None | Resize::Restart => None,
    }
}

/// Whether all that the pod was given is in force in the containers that run. Those that do not are made with it.
pub fn is_in_force(input: &ResizeInput<'_>, pod: &Pod, runtime: &RuntimePod) -> bool {
    all_containers(pod).all(|(kind, container)| {
        let counts = kind == ContainerKind::Regular || (kind == ContainerKind::Init && is_sidecar(&container));
        let newest = runtime.container(&container.name).filter(|newest| newest.state == ContainerState::Running);
        let Some(running) = newest.filter(|_| counts) else { return true };
        let (desired, current) = amounts(input, pod, &container, running);
        desired == current
    })
}
