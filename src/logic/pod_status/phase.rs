//! The pod's phase, with its reason and message (POD-15; upstream's `getPhase`).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};

use super::{FAILED, PENDING, RUNNING, SUCCEEDED, StatusInput, moment, seconds};
use crate::logic::restart_policy::should_restart;

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
    if settled.is_none() && is_past_deadline(input, spec) {
        return Outcome {
            phase: FAILED,
            reason: Some("DeadlineExceeded".to_owned()),
            message: Some("Pod was active on the node longer than the specified deadline".to_owned()),
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
fn is_past_deadline(input: &StatusInput<'_>, spec: &PodSpec) -> bool {
    let start = input.before().and_then(|before| before.start_time.as_ref());
    spec.active_deadline_seconds
        .zip(start)
        .is_some_and(|(limit, start)| input.now.since(moment(start)) >= seconds(limit))
}

/// How a container stands, as far as the phase is concerned.
enum Standing {
    Running,
    /// Never ran.
    Waiting,
    /// Ran and ended: now, or before it came to wait.
    Stopped {
        exit_code: i32,
        now: bool,
    },
    Unknown,
}

fn standing(statuses: &[ContainerStatus], name: &str) -> Standing {
    let Some(status) = statuses.iter().find(|status| status.name == name) else { return Standing::Unknown };
    let Some(state) = status.state.as_ref() else { return Standing::Unknown };
    if state.running.is_some() {
        return Standing::Running;
    }
    if let Some(ended) = state.terminated.as_ref() {
        return Standing::Stopped { exit_code: ended.exit_code, now: true };
    }
    match status.last_state.as_ref().and_then(|last| last.terminated.as_ref()) {
        _ if state.waiting.is_none() => Standing::Unknown,
        Some(ended) => Standing::Stopped { exit_code: ended.exit_code, now: false },
        None => Standing::Waiting,
    }
}

#[derive(Default)]
struct Counts {
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
    unknown: usize,
}

fn count(input: &StatusInput<'_>, containers: &[Container], statuses: &[ContainerStatus]) -> Counts {
    let mut counts = Counts::default();
    for container in containers {
        match standing(statuses, &container.name) {
            Standing::Running => counts.running += 1,
            Standing::Waiting => counts.waiting += 1,
            Standing::Unknown => counts.unknown += 1,
            Standing::Stopped { exit_code, now } => {
                counts.stopped += 1;
                counts.succeeded += usize::from(now && exit_code == 0);
                counts.stopped_for_good += usize::from(!should_restart(input.pod, container, exit_code));
            }
        }
    }
    counts
}

/// What the init containers make of the phase: `None` when they are through, or failing and tried again.
fn of_init_containers(input: &StatusInput<'_>, spec: &PodSpec, statuses: &[ContainerStatus]) -> Option<&'static str> {
    let mut is_pending = false;
    for container in spec.init_containers.iter().flatten() {
        match standing(statuses, &container.name) {
            Standing::Running | Standing::Waiting | Standing::Unknown => is_pending = true,
            Standing::Stopped { exit_code: 0, .. } => {}
            Standing::Stopped { exit_code, .. } if should_restart(input.pod, container, exit_code) => {}
            Standing::Stopped { .. } => return Some(FAILED),
        }
    }
    is_pending.then_some(PENDING)
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
    let counts = count(input, &spec.containers, regular);
    let ended = if counts.stopped == counts.succeeded { SUCCEEDED } else { FAILED };
    match counts {
        Counts { waiting: 1.., .. } | Counts { unknown: 1.., .. } => PENDING,
        Counts { running: 1.., .. } => RUNNING,
        Counts { stopped: 0, .. } => PENDING,
        _ if input.terminal && !input.is_static => ended,
        Counts { stopped, stopped_for_good, .. } if stopped != stopped_for_good => RUNNING,
        _ => ended,
    }
}
