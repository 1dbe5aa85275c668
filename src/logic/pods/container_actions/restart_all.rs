//! Starting a whole pod over in place, in its sandbox, because of how one container ended (POD-18; the action
//! `RestartAllContainers` of a restart rule, KEP-5532): all instances are removed, and then all begins anew.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::{PlanInput, init_containers};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::restart_policy::{is_sidecar, restarts_all, should_restart};
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod};
use crate::logic::pods::pod_containers::ContainerKind;

/// An instance to be removed before all starts over.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ResetContainer {
    /// Which instance.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// Its list.
    pub kind: ContainerKind,
    /// Whether it may run, and is to be stopped first.
    pub runs: bool,
}

/// Whether a container ended in such a way that all are to start over. The runtime alone tells: what asked for it is
/// removed last, so that a node agent that was restarted in between goes on. How one of `restarts` ended says nothing: it
/// was stopped to be started again.
pub fn is_due(pod: &Pod, runtime: &RuntimePod, restarts: &BTreeSet<ContainerId>) -> bool {
    let Some(spec) = pod.spec.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none()) else { return false };
    let ended = |container: &Container| {
        let newest = runtime.container(&container.name);
        newest.filter(|one| one.state == ContainerState::Exited && !restarts.contains(&one.id))
    };
    let all = init_containers(spec).iter().chain(&spec.containers);
    let asked = all.filter_map(|container| ended(container).filter(|end| restarts_all(container, end.exit_code)));
    let Some(asked) = asked.map(|end| end.finished_at).min() else { return false };
    // One that had failed for good by then fails the pod. Those that ended later were stopped for this.
    let has_failed = |container: &Container| {
        let end = ended(container).filter(|end| end.exit_code != 0 && end.finished_at <= asked);
        end.is_some_and(|end| !should_restart(pod, container, end.exit_code))
    };
    !init_containers(spec).iter().filter(|container| !is_sidecar(container)).any(has_failed)
}

/// All instances, in the order of their removal: regular ones before init ones, and last those that asked for it.
pub(super) fn resets(spec: &PodSpec, input: &PlanInput<'_>) -> Vec<ResetContainer> {
    let (mut targets, mut sources) = (Vec::new(), Vec::new());
    let lists = [(ContainerKind::Regular, spec.containers.as_slice()), (ContainerKind::Init, init_containers(spec))];
    for (kind, containers) in lists {
        for container in containers {
            for instance in input.runtime.instances(&container.name) {
                let is_source = !input.restarts.contains(&instance.id) && has_asked(container, instance);
                let reset = ResetContainer {
                    id: instance.id.clone(),
                    name: container.name.clone(),
                    kind,
                    runs: instance.state != ContainerState::Exited,
                };
                if is_source { sources.push(reset) } else { targets.push(reset) }
            }
        }
    }
    targets.append(&mut sources);
    targets
}

fn has_asked(container: &Container, instance: &RuntimeContainer) -> bool {
    instance.state == ContainerState::Exited && restarts_all(container, instance.exit_code)
}
