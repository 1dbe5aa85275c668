//! Init containers: one after another, each to success, before any regular container (POD-20).

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::{PlanInput, init_containers, regular};
use crate::logic::ids::ContainerId;
use crate::logic::restart_policy::{restarts_after_kill, wants_start};
use crate::logic::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod};

/// What initialisation needs next.
pub(super) enum InitStep<'a> {
    /// It is over; the regular containers' turn.
    Done,
    /// One is running.
    Wait,
    /// Start this one.
    Start(&'a Container),
    /// Stop this instance, of which nobody knows whether it runs, and start the container again.
    Replace(&'a Container, &'a RuntimeContainer),
    /// One failed and must not run again: so does the pod.
    Fail,
}

/// Decides by the last init container that has an instance: those before it have succeeded, and their instances may
/// have been removed since.
///
/// A regular container that is made or running proves initialisation, whatever became of the init containers. One that
/// ended does not: it may belong to an earlier sandbox.
pub(super) fn next_step<'a>(input: &PlanInput<'a>, spec: &'a PodSpec) -> InitStep<'a> {
    let containers = init_containers(spec);
    if containers.is_empty() || regular::any_active(spec, input.runtime) {
        return InitStep::Done;
    }
    let newest = containers.iter().enumerate().rev();
    let mut known = newest.filter_map(|(index, init)| Some((index, init, input.runtime.container(&init.name)?)));
    let Some((index, container, instance)) = known.next() else { return InitStep::Start(&containers[0]) };
    match instance.state {
        // Made and started in one step; one that is only made could not be started.
        ContainerState::Created => InitStep::Start(container),
        ContainerState::Running => InitStep::Wait,
        ContainerState::Exited if is_failed(instance) => match wants_start(input.pod, container, Some(instance)) {
            true => InitStep::Start(container),
            false => InitStep::Fail,
        },
        ContainerState::Exited => containers.get(index + 1).map_or(InitStep::Done, InitStep::Start),
        ContainerState::Unknown if restarts_after_kill(input.pod, container) => InitStep::Replace(container, instance),
        ContainerState::Unknown => InitStep::Fail,
    }
}

/// Instances that a new sandbox makes worthless: all of every init container.
pub(super) fn all_instances(spec: &PodSpec, runtime: &RuntimePod) -> Vec<ContainerId> {
    let instances = init_containers(spec).iter().flat_map(|container| runtime.instances(&container.name));
    instances.map(|instance| instance.id.clone()).collect()
}

/// Instances that tell nothing any more: of those that no longer run, all but each container's newest.
pub(super) fn outdated_instances(spec: &PodSpec, runtime: &RuntimePod) -> Vec<ContainerId> {
    let over =
        |instance: &&RuntimeContainer| matches!(instance.state, ContainerState::Exited | ContainerState::Unknown);
    let outdated = |container: &Container| -> Vec<ContainerId> {
        runtime.instances(&container.name).filter(over).skip(1).map(|instance| instance.id.clone()).collect()
    };
    init_containers(spec).iter().flat_map(outdated).collect()
}

/// A container that ran out of memory has failed, even where its first process ended well.
fn is_failed(instance: &RuntimeContainer) -> bool {
    instance.exit_code != 0 || instance.reason == "OOMKilled"
}
