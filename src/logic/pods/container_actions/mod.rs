//! The steps in the runtime by which a pod becomes what its spec says: upstream's `computePodActions`.
//!
//! A plan is made from one observation and is only good for it: whoever carries it out observes again and plans anew.
//! Terminating pods are not planned for; they are killed as a whole.

mod init;
mod regular;
pub mod resize;
pub mod restart_all;
mod sandbox;

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use litemap::LiteMap;

use super::pod_containers::{all_containers, ephemeral_containers};
use super::pod_resize::ContainerUpdate;
use crate::logic::model::backoff::{CrashLoopWait, CrashLoops, Wait};
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::{ContainerState, ProbeResults, RuntimeContainer, RuntimePod};
use crate::logic::model::start_reason::StartReason;
use crate::logic::model::time::{Clocks, Steady};
use crate::logic::pods::pod_containers::ContainerKind;
use init::Initialisation;
use resize::ResizeInput;
pub use restart_all::ResetContainer;
pub use sandbox::{SandboxDecision, sandbox_decision};

/// All that a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The pod as it should be.
    pub pod: &'a Pod,
    /// The pod as it is; looked at in full, with the newest sandbox' addresses.
    pub runtime: &'a RuntimePod,
    /// By container name, the hash a container made from the spec would carry.
    pub hashes: &'a LiteMap<String, String>,
    /// The last results of probes.
    pub probes: &'a ProbeResults,
    /// The containers' back-off.
    pub crash_loops: &'a CrashLoops,
    /// Instances that are to be, or were, stopped to be started again, whatever exit code and restart policy say.
    pub restarts: &'a BTreeSet<ContainerId>,
    /// Resources in force; `None` while they are not known: then none are changed.
    pub resize: Option<ResizeInput<'a>>,
    /// Now.
    pub now: Clocks,
}

/// Why the whole pod is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum PodKill {
    /// The sandbox is unfit; a new one follows (Event `SandboxChanged`).
    SandboxChanged,
    /// An init container failed for good.
    InitContainerFailed,
    /// No container is to be kept and none to be started.
    NothingToRun,
}

/// Why one container is stopped; decides which grace period counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum KillReason {
    /// Its spec is another now.
    DefinitionChanged,
    /// Its liveness probe failed.
    LivenessProbe,
    /// Its startup probe failed.
    StartupProbe,
    /// The runtime lost track of it: it might still run.
    Unknown,
    /// Someone on the node asked for its restart (PAIN-36).
    OnDemand,
    /// It is to have other resources, and its `resizePolicy` asks for a restart.
    Resize,
    /// A newer instance of its container is there.
    Outdated,
}

/// A container to stop.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KillContainer {
    /// Which instance.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// Its list.
    pub kind: ContainerKind,
    /// For the Event `Killing`.
    pub message: String,
    /// Why.
    pub reason: KillReason,
}

/// A container to make and start.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StartContainer {
    /// Its name in the pod.
    pub name: String,
    /// Its list.
    pub kind: ContainerKind,
    /// One more than the newest instance's; 0 when the runtime holds none, where the log directory may know better.
    pub restart_count: u32,
    /// The instance that has to be stopped first, when this start replaces one.
    pub replaces: Option<ContainerId>,
    /// From which end on its back-off counts; for [`CrashLoops::note_start`] when the start begins.
    pub ended: Option<Steady>,
}

/// A container that is not started yet.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct WaitingContainer {
    /// Its name in the pod.
    pub name: String,
    /// Its list.
    pub kind: ContainerKind,
    /// The API's waiting reason.
    pub reason: StartReason,
    /// The API's waiting message.
    pub message: CrashLoopWait,
    /// How long in all, and until when.
    pub wait: Wait,
}

/// The plan, in this order: kill the pod, remove, make the sandbox, kill containers, start containers.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize)]
pub struct PodPlan {
    /// Stop all containers and sandboxes first. With no `create_sandbox` that is all there is to do.
    pub kill_pod: Option<PodKill>,
    /// Stop and remove these, in this order; there is nothing else to do then.
    pub reset: Vec<ResetContainer>,
    /// Make a sandbox of this attempt.
    pub create_sandbox: Option<u32>,
    /// The sandbox that stays, where one does.
    pub sandbox: Option<SandboxId>,
    /// Old instances of init containers, to be removed.
    pub remove: Vec<ContainerId>,
    /// Containers to stop, in the spec's order.
    pub kill: Vec<KillContainer>,
    /// Containers that run, and are to have other resources, in the spec's order.
    pub update: Vec<ContainerUpdate>,
    /// Containers to start, in the spec's order.
    pub start: Vec<StartContainer>,
    /// Containers that would be started were it not too early.
    pub waiting: Vec<WaitingContainer>,
}

impl PodPlan {
    /// When the first of the waiting containers is due.
    pub fn due(&self) -> Option<Steady> {
        self.waiting.iter().map(|waiting| waiting.wait.until).min()
    }
}

/// Decides what to do for the pod.
pub fn plan(input: &PlanInput<'_>) -> PodPlan {
    let Some(spec) = input.pod.spec.as_ref() else { return PodPlan::default() };
    if restart_all::is_due(input.pod, input.runtime, input.restarts) {
        return PodPlan { reset: restart_all::resets(spec, input), ..PodPlan::default() };
    }
    match sandbox_decision(input.pod, input.runtime) {
        SandboxDecision::Create { attempt } => plan_new_sandbox(input, spec, attempt),
        SandboxDecision::Keep { id } => PodPlan { sandbox: Some(id), ..plan_in_sandbox(input, spec) },
    }
}

/// Everything starts over in a new sandbox, unless the pod has nothing left to do.
fn plan_new_sandbox(input: &PlanInput<'_>, spec: &PodSpec, attempt: u32) -> PodPlan {
    let starts = regular::starts_in_new_sandbox(input, spec);
    // Where nothing is left to start, all containers have succeeded.
    if starts.is_empty() || sandbox::ran_once(input, attempt) {
        return PodPlan::end(PodKill::NothingToRun);
    }
    let mut plan = PodPlan {
        kill_pod: (!input.runtime.is_empty()).then_some(PodKill::SandboxChanged),
        create_sandbox: Some(attempt),
        remove: init::all_instances(spec, input.runtime),
        ..PodPlan::default()
    };
    match init_containers(spec).first() {
        Some(first) => plan.start_or_wait(input, first, ContainerKind::Init, None),
        None => starts.into_iter().for_each(|container| {
            plan.start_or_wait(input, container, ContainerKind::Regular, None);
        }),
    }
    plan
}

fn plan_in_sandbox(input: &PlanInput<'_>, spec: &PodSpec) -> PodPlan {
    if regular::all_over(input, spec) {
        return PodPlan::end(PodKill::NothingToRun);
    }
    let mut plan = PodPlan { remove: init::outdated_instances(spec, input.runtime), ..PodPlan::default() };
    // Each once, whether initialisation is over or not (POD-22).
    for container in ephemeral_containers(spec).filter(|one| input.runtime.container(&one.name).is_none()) {
        plan.start_or_wait(input, &container, ContainerKind::Ephemeral, None);
    }
    match init::plan(input, spec, &mut plan) {
        Initialisation::Done => regular::plan(input, spec, &mut plan),
        Initialisation::UnderWay => {}
        Initialisation::Failed => plan = PodPlan::end(PodKill::InitContainerFailed),
    }
    if plan.kill_pod.is_none() {
        plan.kill.splice(0..0, outdated(input));
    }
    plan
}

/// Instances that run although a newer one of their container is there: another agent, or somebody by hand, made it. Until
/// they are stopped, which is done first, the newer one is not started again.
fn outdated(input: &PlanInput<'_>) -> Vec<KillContainer> {
    let of = |(kind, container): (ContainerKind, Cow<'_, Container>)| {
        let older = input.runtime.instances(&container.name).skip(1);
        let kill = |running: &RuntimeContainer| KillContainer {
            id: running.id.clone(),
            name: running.name.clone(),
            kind,
            message: format!("Container {} runs beside a newer instance", running.name),
            reason: KillReason::Outdated,
        };
        older.filter(|one| one.state == ContainerState::Running).map(kill).collect::<Vec<_>>()
    };
    all_containers(input.pod).flat_map(of).collect()
}

impl PodPlan {
    /// The pod ends.
    fn end(why: PodKill) -> Self {
        Self { kill_pod: Some(why), ..Self::default() }
    }

    /// Starts the container, or lets it wait for the end of its back-off. Nothing starts beside an instance that runs, unless
    /// this plan stops that one first: whichever instance is taken for the newest, two never run.
    fn start_or_wait(
        &mut self,
        input: &PlanInput<'_>,
        container: &Container,
        kind: ContainerKind,
        replaces: Option<&RuntimeContainer>,
    ) {
        let name = container.name.clone();
        let stays = |one: &RuntimeContainer| one.name == name && self.kill.iter().all(|kill| kill.id != one.id);
        if self.kill_pod.is_none() && input.runtime.running().any(stays) {
            return;
        }
        let mut instances = input.runtime.instances(&container.name);
        let ended = instances.find(|instance| instance.state == ContainerState::Exited);
        let ended = ended.and_then(|ended| input.crash_loops.end_that_counts(ended, input.now));
        let wait = ended.and_then(|ended| input.crash_loops.wait(container, ended, input.now.steady));
        if let Some(wait) = wait {
            let message = CrashLoopWait { container: name.clone(), pod: describe(input.pod), period: wait.period };
            self.waiting.push(WaitingContainer { name, kind, reason: StartReason::CrashLoopBackOff, message, wait });
            return;
        }
        let newest = input.runtime.container(&container.name);
        self.start.push(StartContainer {
            name,
            kind,
            restart_count: newest.map_or(0, |newest| newest.restart_count.saturating_add(1)),
            replaces: replaces.map(|instance| instance.id.clone()),
            ended,
        });
    }
}

fn kill_unknown(instance: &RuntimeContainer, kind: ContainerKind, noun: &str) -> KillContainer {
    KillContainer {
        id: instance.id.clone(),
        name: instance.name.clone(),
        kind,
        message: format!("{noun} is in \"unknown\" state, try killing it before restart"),
        reason: KillReason::Unknown,
    }
}

fn init_containers(spec: &PodSpec) -> &[Container] {
    spec.init_containers.as_deref().unwrap_or_default()
}

/// The pod as upstream's messages name it: `name_namespace(uid)`.
fn describe(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    let [name, namespace, uid] =
        [&metadata.name, &metadata.namespace, &metadata.uid].map(|part| part.as_deref().unwrap_or_default());
    format!("{name}_{namespace}({uid})")
}

#[cfg(test)]
mod tests;
