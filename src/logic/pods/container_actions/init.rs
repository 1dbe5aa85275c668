//! Init containers: one after another, each to success, before any regular container (POD-20); and the restartable ones
//! among them, sidecars, each of which goes on once the next may start (POD-21, KEP-753).

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::resize::{self, Resize};
use super::{KillContainer, KillReason, PlanInput, PodPlan, init_containers, kill_unknown, regular};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::restart_policy::{is_sidecar, restarts_after_kill, wants_start};
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer, RuntimePod};
use crate::logic::pods::pod_containers::ContainerKind;

/// How far initialisation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initialisation {
    /// It is over; the regular containers' turn.
    Done,
    /// It goes on.
    UnderWay,
    /// An init container failed and must not run again: so does the pod.
    Failed,
}

/// The next step of one init container, and whether the next one may start.
#[derive(Debug)]
enum Step {
    /// It has done its part, or runs and has started: the next one's turn.
    Passed,
    /// It runs, and has not come so far.
    Wait,
    /// Start it.
    Start,
    /// Stop it and start it again; `passed` when the next one may start nevertheless.
    Replace { kill: KillContainer, passed: bool },
    /// It failed, for good.
    Fail,
}

/// Adds what the init containers need.
///
/// The last one that has an instance tells how far initialisation has come: those before it have passed, and their
/// instances may have been removed since. Of those before it only sidecars are looked at, which run on. A regular
/// container that is made or running proves initialisation, whatever became of the init containers. One that ended does
/// not: it may belong to an earlier sandbox.
pub(super) fn plan(input: &PlanInput<'_>, spec: &PodSpec, plan: &mut PodPlan) -> Initialisation {
    let containers = init_containers(spec);
    let mut done = containers.is_empty() || regular::any_active(spec, input.runtime);
    // Whether all that is still to be looked at has passed before.
    let mut has_passed = done;
    let (mut starts, mut kills, mut updates) = (Vec::new(), Vec::new(), Vec::new());
    for (index, container) in containers.iter().enumerate().rev() {
        if has_passed && !is_sidecar(container) {
            continue;
        }
        let Some(newest) = input.runtime.container(&container.name) else {
            if has_passed {
                starts.push((container, None)); // Its instance was removed.
            }
            continue;
        };
        let step = step(input, container, newest);
        let passes = matches!(step, Step::Passed | Step::Replace { passed: true, .. });
        if passes && !has_passed {
            match containers.get(index + 1) {
                Some(next) => starts.push((next, None)),
                None => done = true,
            }
        }
        match step {
            Step::Passed | Step::Wait => {
                // A sidecar is resized once it has started.
                let is_due = newest.state == ContainerState::Running && (passes || !is_sidecar(container));
                updates.extend(is_due.then(|| resize::update_of_init(input, container, newest)).flatten());
            }
            Step::Start => starts.push((container, None)),
            Step::Replace { kill, .. } => {
                kills.push(kill);
                starts.push((container, Some(newest)));
            }
            Step::Fail => return Initialisation::Failed,
        }
        has_passed = true;
    }
    if !has_passed {
        starts.extend(containers.first().map(|first| (first, None)));
    }
    plan.kill.extend(kills.into_iter().rev());
    plan.update.extend(updates.into_iter().rev());
    for (container, replaces) in starts.into_iter().rev() {
        plan.start_or_wait(input, container, ContainerKind::Init, replaces);
    }
    if done { Initialisation::Done } else { Initialisation::UnderWay }
}

fn step(input: &PlanInput<'_>, container: &Container, newest: &RuntimeContainer) -> Step {
    let lost = || kill_unknown(newest, ContainerKind::Init, "Init container");
    match newest.state {
        // Made and started in one step; one that is only made could not be started.
        ContainerState::Created => Step::Start,
        ContainerState::Running if is_sidecar(container) => running_sidecar(input, container, newest),
        ContainerState::Running => Step::Wait,
        // A sidecar is started again whatever its end was.
        ContainerState::Exited if is_sidecar(container) || input.restarts.contains(&newest.id) => Step::Start,
        ContainerState::Exited if is_failed(newest) => match wants_start(input.pod, container, Some(newest)) {
            true => Step::Start,
            false => Step::Fail,
        },
        ContainerState::Exited => Step::Passed,
        ContainerState::Unknown if restarts_after_kill(input.pod, container) => {
            Step::Replace { kill: lost(), passed: false }
        }
        ContainerState::Unknown => Step::Fail,
    }
}

/// A sidecar has started once its startup probe says so. Its definition and its liveness matter from then on, and do not
/// hold up the next container.
fn running_sidecar(input: &PlanInput<'_>, container: &Container, running: &RuntimeContainer) -> Step {
    let replace = |what: &str, reason, passed| {
        let message = format!("Init container {} {what}", container.name);
        let (id, name) = (running.id.clone(), container.name.clone());
        Step::Replace { kill: KillContainer { id, name, kind: ContainerKind::Init, message, reason }, passed }
    };
    if container.startup_probe.is_some() {
        match input.probes.startup.get(&running.id) {
            None => return Step::Wait,
            Some(false) => return replace("failed startup probe", KillReason::StartupProbe, false),
            Some(true) => {}
        }
    }
    if regular::is_redefined(input, running) {
        replace("definition changed", KillReason::DefinitionChanged, true)
    } else if input.probes.liveness.get(&running.id) == Some(&false) {
        replace("failed liveness probe", KillReason::LivenessProbe, true)
    } else if input.restarts.contains(&running.id) {
        replace("was asked to restart", KillReason::OnDemand, true)
    } else if matches!(resize::of(input, container, running), Resize::Restart) {
        Step::Replace { kill: resize::kill(container, running, ContainerKind::Init), passed: true }
    } else {
        Step::Passed
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
