//! `started` and `ready` of every container (PRB-05, PRB-10).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec};

use super::{StatusInput, conditions};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::restart_policy::is_sidecar;

/// Fills in both flags.
pub(super) fn fill_in(
    input: &StatusInput<'_>,
    spec: &PodSpec,
    init: &mut [ContainerStatus],
    regular: &mut [ContainerStatus],
) {
    for status in init {
        let container = named(spec.init_containers.as_deref().unwrap_or_default(), &status.name);
        if container.is_some_and(is_sidecar) {
            fill_in_probed(input, container, status);
            continue;
        }
        status.started = Some(is_started(input, container, status));
        let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        status.ready = ended.is_some_and(|ended| ended.exit_code == 0);
    }
    for status in regular {
        let container = named(&spec.containers, &status.name);
        fill_in_probed(input, container, status);
    }
}

/// Of a container that probes may be about: a regular one or a sidecar.
fn fill_in_probed(input: &StatusInput<'_>, container: Option<&Container>, status: &mut ContainerStatus) {
    let started = is_started(input, container, status);
    status.ready = started && is_ready(input, container, status);
    status.started = Some(started);
}

fn named<'a>(containers: &'a [Container], name: &str) -> Option<&'a Container> {
    containers.iter().find(|container| container.name == name)
}

fn id(status: &ContainerStatus) -> ContainerId {
    ContainerId::of_full(status.container_id.as_deref().unwrap_or_default())
}

fn is_started(input: &StatusInput<'_>, container: Option<&Container>, status: &ContainerStatus) -> bool {
    if status.state.as_ref().is_none_or(|state| state.running.is_none()) {
        return false;
    }
    if let Some(result) = input.containers.probes.startup.get(&id(status)) {
        return *result;
    }
    // `started` still holds the value of this very container from before.
    let was_started = !input.gates.restart_shows && status.started == Some(true);
    was_started || container.is_none_or(|container| container.startup_probe.is_none())
}

/// Readiness of a container that runs and has started.
fn is_ready(input: &StatusInput<'_>, container: Option<&Container>, status: &ContainerStatus) -> bool {
    if container.is_none_or(|container| container.readiness_probe.is_none()) {
        return true;
    }
    match input.containers.probes.readiness.get(&id(status)) {
        Some(result) => *result,
        // An agent that has just started has no results. A ready container stays so until a probe says otherwise, and an unready
        // one does not become ready.
        None => !input.gates.restart_shows && input.containers.adopted.contains(&id(status)) && was_pod_ready(input),
    }
}

/// As the API tells; the API's object of a static pod says nothing, and the status before stands in.
fn was_pod_ready(input: &StatusInput<'_>) -> bool {
    let of_api = input.pod.status.as_ref().filter(|status| status.conditions.is_some());
    of_api.or(input.previous).is_some_and(conditions::is_ready)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerState, ContainerStateRunning, Pod, Probe};

    use super::*;
    use crate::logic::model::ids::{FullName, PodUid};
    use crate::logic::model::runtime_pod::{ProbeResults, RuntimePod};
    use crate::logic::model::time::{Moment, Stamp};
    use crate::logic::pods::pod_resize::ResizeGates;
    use crate::logic::status::pod_status::{ContainersInput, NodeInput, ResourcesInput};

    /// Whether a running sidecar of this restart policy is started and ready, by what probes said.
    fn of_sidecar(restart_policy: Option<&str>, probes: &ProbeResults) -> (bool, bool) {
        let sidecar = Container {
            name: "s".to_owned(),
            restart_policy: restart_policy.map(str::to_owned),
            startup_probe: Some(Probe::default()),
            readiness_probe: Some(Probe::default()),
            ..Container::default()
        };
        let input = StatusInput {
            pod: &Pod::default(),
            runtime: &RuntimePod::empty(PodUid::from("u"), FullName::new("p", "ns"), Stamp::default()),
            previous: None,
            containers: ContainersInput {
                probes,
                start_errors: &Default::default(),
                restarts: &Default::default(),
                adopted: &Default::default(),
            },
            resources: ResourcesInput {
                resize: &Default::default(),
                actuated: None,
                figures: None,
                options: &Default::default(),
                gates: &ResizeGates { by_pod: false, ..ResizeGates::default() },
            },
            node: NodeInput {
                host: &Default::default(),
                prefer_ipv6: false,
                runtime_name: "containerd",
                recursive_read_only: Some(false),
            },
            volumes_mounted: true,
            terminal: false,
            is_static: false,
            qos_class: "BestEffort",
            gates: Default::default(),
            now: Moment::EPOCH,
        };
        let running = ContainerState { running: Some(ContainerStateRunning::default()), ..ContainerState::default() };
        let mut init = [ContainerStatus {
            name: "s".to_owned(),
            container_id: Some("containerd://i".to_owned()),
            state: Some(running),
            ..ContainerStatus::default()
        }];
        let spec = PodSpec { init_containers: Some(vec![sidecar]), ..PodSpec::default() };
        fill_in(&input, &spec, &mut init, &mut []);
        (init[0].started == Some(true), init[0].ready)
    }

    /// Section 6 of upstream's rules: a sidecar is started and ready by its probes, as a regular container is; an ordinary
    /// init container is ready once it has ended well.
    #[test]
    fn a_sidecar_is_ready_by_its_probes() {
        let id = ContainerId::from("i");
        for (policy, startup, readiness, expected) in [
            (Some("Always"), None, None, (false, false)),
            (Some("Always"), Some(true), None, (true, false)),
            (Some("Always"), Some(true), Some(true), (true, true)),
            (Some("Always"), Some(false), Some(true), (false, false)),
            (None, Some(true), Some(true), (true, false)),
        ] {
            let mut probes = ProbeResults::default();
            probes.startup.extend(startup.map(|result| (id.clone(), result)));
            probes.readiness.extend(readiness.map(|result| (id.clone(), result)));
            assert_eq!(of_sidecar(policy, &probes), expected, "{policy:?} {startup:?} {readiness:?}");
        }
    }
}
