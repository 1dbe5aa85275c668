//! The pod's phase, with its reason and message (POD-15; upstream's `getPhase`).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};

use super::container_statuses::RESTARTING_ALL;
use super::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, StatusInput, deadline};
use crate::logic::model::pod_phase::{FAILED, PENDING, RUNNING, SUCCEEDED};
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::runtime_pod::SandboxState;

/// The phase and what is said about it.
pub(super) struct Outcome {
    /// `status.phase`.
    pub phase: &'static str,
    /// `status.reason`.
    pub reason: Option<String>,
    /// `status.message`.
    pub message: Option<String>,
}

/// Decides the phase. One that is terminal is never left, whoever set it; the API's word counts most.
pub(super) fn decide(
    input: &StatusInput<'_>,
    spec: &PodSpec,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
) -> Outcome {
    let settled = terminal_phase(input.pod.status.as_ref()).or_else(|| terminal_phase(input.previous));
    if settled.is_none() && is_past_deadline(input) {
        return Outcome {
            phase: FAILED,
            reason: Some(DEADLINE_EXCEEDED.to_owned()),
            message: Some(DEADLINE_MESSAGE.to_owned()),
        };
    }
    let phase = settled.unwrap_or_else(|| compute(input, spec, init, regular));
    // Reason and message belong to the phase they were given with.
    let kept = |of: fn(&PodStatus) -> Option<&String>| {
        let same = input.before().filter(|before| before.phase.as_deref() == Some(phase))?;
        let known = [Some(same), input.pod.status.as_ref()].into_iter().flatten();
        known.filter_map(of).find(|text| !text.is_empty()).cloned()
    };
    Outcome { phase, reason: kept(|status| status.reason.as_ref()), message: kept(|status| status.message.as_ref()) }
}

fn terminal_phase(status: Option<&PodStatus>) -> Option<&'static str> {
    [SUCCEEDED, FAILED].into_iter().find(|phase| status.and_then(|status| status.phase.as_deref()) == Some(phase))
}

/// `spec.activeDeadlineSeconds`, counted from the pod's start on the node.
fn is_past_deadline(input: &StatusInput<'_>) -> bool {
    let until = input.before().and_then(|before| deadline(input.pod, before));
    until.is_some_and(|until| input.now >= until)
}

/// How a container stands, as far as the phase is concerned.
enum Standing {
    Running {
        started: bool,
    },
    /// Never ran, as far as is known.
    Waiting,
    /// Ran and ended: now, or before it came to wait.
    Stopped {
        exit_code: i32,
        now: bool,
        /// It was removed, to start over.
        to_restart: bool,
    },
}

fn standing(statuses: &[ContainerStatus], name: &str) -> Standing {
    let Some(status) = statuses.iter().find(|status| status.name == name) else { return Standing::Waiting };
    let state = status.state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return Standing::Running { started: status.started == Some(true) };
    }
    let of_now = state.and_then(|state| state.terminated.as_ref());
    let of_before = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let Some(ended) = of_now.or(of_before) else { return Standing::Waiting };
    let to_restart = ended.reason.as_deref() == Some(RESTARTING_ALL);
    Standing::Stopped { exit_code: ended.exit_code, now: of_now.is_some(), to_restart }
}

#[derive(Default)]
struct Counts {
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
    /// Sidecars that run and have not started yet.
    pending_sidecars: usize,
}

impl Counts {
    fn add_regular(&mut self, input: &StatusInput<'_>, containers: &[Container], statuses: &[ContainerStatus]) {
        let all_start_over = input.restarting_all();
        for container in containers {
            match standing(statuses, &container.name) {
                Standing::Running { .. } => self.running += 1,
                Standing::Waiting => self.waiting += 1,
                Standing::Stopped { exit_code, now, to_restart } => {
                    self.stopped += 1;
                    self.succeeded += usize::from(now && exit_code == 0);
                    let restarts = to_restart || all_start_over || input.restarts(container, exit_code);
                    self.stopped_for_good += usize::from(!restarts);
                }
            }
        }
    }

    /// How a sidecar ended says nothing about the pod.
    fn add_sidecars<'a>(&mut self, sidecars: impl Iterator<Item = &'a Container>, statuses: &[ContainerStatus]) {
        for sidecar in sidecars {
            match standing(statuses, &sidecar.name) {
                Standing::Running { started } => {
                    self.running += 1;
                    self.pending_sidecars += usize::from(!started);
                }
                Standing::Waiting => self.waiting += 1,
                Standing::Stopped { .. } => {}
            }
        }
    }
}

/// The phase by the init containers that are to end: `None` when they are through, or failing and tried again.
fn of_init_containers(input: &StatusInput<'_>, spec: &PodSpec, statuses: &[ContainerStatus]) -> Option<&'static str> {
    let (mut is_pending, all_start_over) = (false, !input.terminal && input.restarting_all());
    for container in spec.init_containers.iter().flatten().filter(|container| !is_sidecar(container)) {
        match standing(statuses, &container.name) {
            Standing::Running { .. } | Standing::Waiting => is_pending = true,
            Standing::Stopped { exit_code: 0, .. } => {}
            Standing::Stopped { to_restart: true, .. } => {}
            Standing::Stopped { .. } if all_start_over => {} // It was stopped for that, and goes next.
            Standing::Stopped { exit_code, .. } if input.restarts(container, exit_code) => {}
            Standing::Stopped { .. } => return Some(FAILED),
        }
    }
    is_pending.then_some(PENDING)
}

/// Whether a regular container was ever made in the sandbox that the pod has now: then its sidecars have been through.
fn was_initialised_here(input: &StatusInput<'_>, spec: &PodSpec) -> bool {
    let Some(home) = input.runtime.sandbox().filter(|home| home.state == SandboxState::Ready) else { return false };
    let mut here = input.runtime.containers.iter().filter(|one| one.sandbox_id == home.id);
    here.any(|one| spec.containers.iter().any(|container| container.name == one.name))
}

fn compute(
    input: &StatusInput<'_>,
    spec: &PodSpec,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
) -> &'static str {
    if let Some(phase) = of_init_containers(input, spec, init) {
        return phase;
    }
    let mut counts = Counts::default();
    counts.add_sidecars(spec.init_containers.iter().flatten().filter(|container| is_sidecar(container)), init);
    counts.add_regular(input, &spec.containers, regular);
    if counts.pending_sidecars > 0 && !was_initialised_here(input, spec) {
        return PENDING;
    }
    let ended = if counts.stopped == counts.succeeded { SUCCEEDED } else { FAILED };
    match counts {
        Counts { waiting: 1.., .. } => PENDING,
        Counts { running: 1.., .. } => RUNNING,
        Counts { stopped: 0, .. } => PENDING,
        _ if input.terminal && !input.is_static => ended,
        Counts { stopped, stopped_for_good, .. } if stopped != stopped_for_good => RUNNING,
        _ => ended,
    }
}
