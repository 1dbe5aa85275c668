//! Regular containers: which to start, to stop, to leave alone.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::resize::{self, Resize};
use super::{KillContainer, KillReason, PlanInput, PodKill, PodPlan, kill_unknown};
use crate::logic::model::restart_policy::{restarts_after_kill, runs_to_success, wants_start};
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod};
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::pods::pod_resize::ContainerUpdate;

/// The next step of one container.
enum Step {
    /// It runs as it should.
    Keep,
    /// It runs, and is to have other resources.
    Update(ContainerUpdate),
    /// It is over.
    Leave,
    /// Start it.
    Start,
    /// Stop it, and start it again or not.
    Kill { kill: KillContainer, restart: bool },
}

/// Adds what the regular containers of an initialised pod need.
pub(super) fn plan(input: &PlanInput<'_>, spec: &PodSpec, plan: &mut PodPlan) {
    let mut is_needed = false;
    for container in &spec.containers {
        let newest = input.runtime.container(&container.name);
        match step(input, container, newest) {
            Step::Keep => is_needed = true,
            Step::Update(update) => {
                is_needed = true;
                plan.update.push(update);
            }
            Step::Leave => {}
            Step::Start => {
                is_needed = true;
                plan.start_or_wait(input, container, ContainerKind::Regular, None);
            }
            Step::Kill { kill, restart } => {
                plan.kill.push(kill);
                if restart {
                    is_needed = true;
                    plan.start_or_wait(input, container, ContainerKind::Regular, newest);
                }
            }
        }
    }
    if !is_needed {
        // Containers that are to be stopped go with the pod, and sidecars do not keep it.
        *plan = PodPlan::end(PodKill::NothingToRun);
    }
}

/// The containers of a pod whose sandbox is made anew: all, but those that run once to success and have succeeded.
pub(super) fn starts_in_new_sandbox<'a>(input: &PlanInput<'_>, spec: &'a PodSpec) -> Vec<&'a Container> {
    let is_done = |container: &Container| {
        let newest = input.runtime.container(&container.name);
        let succeeded = newest.is_some_and(|newest| newest.state == ContainerState::Exited && newest.exit_code == 0);
        succeeded && runs_to_success(input.pod, container)
    };
    spec.containers.iter().filter(|container| !is_done(container)).collect()
}

/// Whether all have ended and none is started again. Such a pod is over, however its init containers stand: they may have
/// been removed, and a sidecar may be between two starts (upstream: its phase is final).
pub(super) fn all_over(input: &PlanInput<'_>, spec: &PodSpec) -> bool {
    spec.containers.iter().all(|container| {
        let newest = input.runtime.container(&container.name);
        let ended = newest.filter(|newest| newest.state == ContainerState::Exited);
        ended.is_some_and(|ended| !input.restarts.contains(&ended.id)) && !wants_start(input.pod, container, newest)
    })
}

/// Whether a regular container is made or running.
pub(super) fn any_active(spec: &PodSpec, runtime: &RuntimePod) -> bool {
    let is_active =
        |newest: &RuntimeContainer| matches!(newest.state, ContainerState::Created | ContainerState::Running);
    spec.containers.iter().any(|container| runtime.container(&container.name).is_some_and(is_active))
}

fn step(input: &PlanInput<'_>, container: &Container, newest: Option<&RuntimeContainer>) -> Step {
    match newest {
        Some(running) if running.state == ContainerState::Running => step_running(input, container, running),
        Some(stopped) if input.restarts.contains(&stopped.id) => Step::Start,
        _ if !wants_start(input.pod, container, newest) => Step::Leave,
        // It might still run: two instances must never run side by side. And it might have done its work, which is not done
        // twice against its policy.
        Some(lost) if lost.state == ContainerState::Unknown => {
            let restart = restarts_after_kill(input.pod, container);
            Step::Kill { kill: kill_unknown(lost, ContainerKind::Regular, "Container"), restart }
        }
        _ => Step::Start,
    }
}

fn step_running(input: &PlanInput<'_>, container: &Container, running: &RuntimeContainer) -> Step {
    let name = &container.name;
    let failed = |results: &std::collections::BTreeMap<_, bool>| results.get(&running.id) == Some(&false);
    let (what, reason) = if is_redefined(input, running) {
        (format!("Container {name} definition changed"), KillReason::DefinitionChanged)
    } else if failed(&input.probes.liveness) {
        (format!("Container {name} failed liveness probe"), KillReason::LivenessProbe)
    } else if failed(&input.probes.startup) {
        (format!("Container {name} failed startup probe"), KillReason::StartupProbe)
    } else if input.restarts.contains(&running.id) {
        (format!("Container {name} was asked to restart"), KillReason::OnDemand)
    } else {
        return match resize::of(input, container, running) {
            Resize::None => Step::Keep,
            Resize::Update(update) => Step::Update(update),
            Resize::Restart => {
                Step::Kill { kill: resize::kill(container, running, ContainerKind::Regular), restart: true }
            }
        };
    };
    // A changed spec asks for a restart whatever the policy says, and so do people.
    let is_asked = matches!(reason, KillReason::DefinitionChanged | KillReason::OnDemand);
    let restart = is_asked || restarts_after_kill(input.pod, container);
    let message = if restart { format!("{what}, will be restarted") } else { what };
    let kill =
        KillContainer { id: running.id.clone(), name: name.clone(), kind: ContainerKind::Regular, message, reason };
    Step::Kill { kill, restart }
}

/// Whether the container was made from another spec. One without a hash was not made by an agent, and is replaced.
pub(super) fn is_redefined(input: &PlanInput<'_>, running: &RuntimeContainer) -> bool {
    input.hashes.get(&running.name).is_some_and(|expected| *expected != running.hash)
}
