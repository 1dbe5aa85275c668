//! Facts that a probe's machine looks at before each round: the pod's status as last shown.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};

use crate::logic::model::ids::ContainerId;
use crate::logic::model::restart_policy::{is_sidecar, should_restart};
use crate::logic::model::time::Moment;

/// The target of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No status, or no container in it yet.
    Nothing,
    /// The pod's phase is final.
    PodOver,
    /// A container.
    Container(Target),
}

/// A container that may be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which instance.
    pub id: ContainerId,
    /// Its state.
    pub state: TargetState,
    /// `started` of its status.
    pub started: bool,
    /// `ready` of its status.
    pub ready: bool,
    /// Whether it is a restartable init container.
    pub is_sidecar: bool,
    /// Whether it is ended with its pod: nothing is to be restarted any more. A sidecar's probes go on to the end.
    pub ends: bool,
}

/// A container's state, as far as probes care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// Runs, since then.
    Running {
        /// By the runtime's clock.
        started_at: Moment,
    },
    /// Has ended.
    Ended {
        /// Whether it is to be started again.
        comes_back: bool,
    },
    /// Neither.
    Waiting,
}

impl Seen {
    /// Looks at the status of the pod for the container, among the regular ones first. `ending` once the pod's end has
    /// begun.
    pub fn of(status: Option<&PodStatus>, pod: &Pod, container: &Container, ending: bool) -> Self {
        let Some(status) = status else { return Self::Nothing };
        if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
            return Self::PodOver;
        }
        let lists = [&status.container_statuses, &status.init_container_statuses];
        let mut statuses = lists.into_iter().flatten().flatten();
        let made = |status: &&ContainerStatus| {
            status.name == container.name && status.container_id.as_deref().is_some_and(|id| !id.is_empty())
        };
        statuses.find(made).map_or(Self::Nothing, |found| Self::Container(target(found, pod, container, ending)))
    }
}

fn target(status: &ContainerStatus, pod: &Pod, container: &Container, ending: bool) -> Target {
    let full_id = status.container_id.as_deref().unwrap_or_default();
    let state = status.state.as_ref();
    let running = state.and_then(|state| state.running.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref());
    let state = match (running, ended) {
        (Some(running), _) => {
            let started_at = running.started_at.as_ref().map(|started| Moment::from_timestamp(started.0));
            TargetState::Running { started_at: started_at.unwrap_or(Moment::EPOCH) }
        }
        (None, Some(ended)) => TargetState::Ended { comes_back: should_restart(pod, container, ended.exit_code) },
        (None, None) => TargetState::Waiting,
    };
    let inits = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    let is_sidecar = inits.into_iter().flatten().any(|init| init.name == container.name && is_sidecar(init));
    Target {
        id: ContainerId::of_full(full_id),
        state,
        started: status.started == Some(true),
        ready: status.ready,
        is_sidecar,
        ends: ending && !is_sidecar,
    }
}
