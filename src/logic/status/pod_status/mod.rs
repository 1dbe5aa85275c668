//! A pod's `.status` in the API, made from the runtime's objects, results of probes, and the status before (upstream's
//! `generateAPIPodStatus`).
//!
//! The fields that other components own (foreign conditions excepted) are not filled in here: whoever sends the status
//! merges it with the object in the API.

mod addresses;
mod conditions;
mod container_statuses;
mod ended;
mod forward;
mod phase;
mod readiness;
mod resources;
mod waiting;

pub use addresses::family_mismatch;
pub use ended::{EndedContainer, newly_ended};
pub use forward::never_back;
pub use waiting::waiting_status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::ContainerId;
use crate::logic::model::pod_phase::FAILED;
use crate::logic::model::restart_policy::{could_restart_all, restarts_all, should_restart, wants_start};
use crate::logic::model::runtime_pod::{ProbeResults, RuntimeContainer, RuntimePod};
use crate::logic::model::time::Moment;
use crate::logic::network::host_ips::HostIps;
use crate::logic::pods::container_actions::restart_all;
use crate::logic::pods::pod_lifecycle::StartError;
use crate::logic::pods::pod_resize::{PodFigures, PodResources, ResizeConditions, ResizeGates};
use crate::logic::resources::ResourceOptions;
use crate::logic::status::status_gates::{READY_TO_START, StatusGates};

/// The reason of a pod that ran longer than it may, and of the Event that tells it.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// The message about it.
pub const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// When the pod's time is over, if it is limited (`spec.activeDeadlineSeconds`, from its start on the node).
pub fn deadline(pod: &Pod, status: &PodStatus) -> Option<Moment> {
    let limit = pod.spec.as_ref()?.active_deadline_seconds?;
    Some(moment(status.start_time.as_ref()?).plus(seconds(limit)))
}

/// All that a status is made from.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'a> {
    /// The pod as it should be. Its own `.status` is what the API last showed.
    pub pod: &'a Pod,
    /// The pod as it is.
    pub runtime: &'a RuntimePod,
    /// The status made before; `None` after a start of the agent, when the API's stands in for it.
    pub previous: Option<&'a PodStatus>,
    /// Its containers, beside what the runtime says.
    pub containers: ContainersInput<'a>,
    /// Its resources.
    pub resources: ResourcesInput<'a>,
    /// The node that it is on.
    pub node: NodeInput<'a>,
    /// Whether the pod's volumes are mounted, or it has none.
    pub volumes_mounted: bool,
    /// The pod has ended: this is its final status.
    pub terminal: bool,
    /// The pod is static: it has no final phase of its own.
    pub is_static: bool,
    /// `status.qosClass`.
    pub qos_class: &'a str,
    /// Which parts the agent tells.
    pub gates: StatusGates,
    /// Now.
    pub now: Moment,
}

/// The agent's facts about a pod's containers beside those of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct ContainersInput<'a> {
    /// The last results of probes.
    pub probes: &'a ProbeResults,
    /// By container name, why it could not be started last (POD-40).
    pub start_errors: &'a BTreeMap<String, StartError>,
    /// Instances that were stopped to be started again.
    pub restarts: &'a BTreeSet<ContainerId>,
    /// Instances that an earlier agent started.
    pub adopted: &'a BTreeSet<ContainerId>,
}

/// The agent's facts about a pod's resources.
#[derive(Clone, Copy, Debug)]
pub struct ResourcesInput<'a> {
    /// The conditions of resizes.
    pub resize: &'a ResizeConditions,
    /// The resources as the runtime has them from the agent; `None` until that is known.
    pub actuated: Option<&'a PodResources>,
    /// The figures of the pod's cgroup; `None` until they are known.
    pub figures: Option<&'a PodFigures>,
    /// How resources become figures.
    pub options: &'a ResourceOptions,
    /// Which resizes are made.
    pub gates: &'a ResizeGates,
}

/// The parts of the node and its runtime that a status shows.
#[derive(Clone, Copy, Debug)]
pub struct NodeInput<'a> {
    /// The node's addresses.
    pub host: &'a HostIps,
    /// Whether the pod's IPv6 address goes before its IPv4 address.
    pub prefer_ipv6: bool,
    /// The runtime's name, which precedes container IDs: `containerd`.
    pub runtime_name: &'a str,
    /// Whether the pod's runtime class can mount read-only recursively; `None` until the runtime said so.
    pub recursive_read_only: Option<bool>,
}

impl<'a> StatusInput<'a> {
    /// The status shown before: by the agent, else by the API.
    fn before(&self) -> Option<&'a PodStatus> {
        self.previous.or(self.pod.status.as_ref())
    }

    fn deleted(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    /// Whether the container, whose newest instance this is, was stopped to be started again.
    fn comes_back(&self, newest: Option<&RuntimeContainer>) -> bool {
        !self.deleted() && newest.is_some_and(|newest| self.containers.restarts.contains(&newest.id))
    }

    /// Whether the container, whose newest instance this is, is to be started.
    fn wants_start(&self, container: &Container, newest: Option<&RuntimeContainer>) -> bool {
        self.comes_back(newest) || wants_start(self.pod, container, newest)
    }

    /// Whether all containers are being removed, to start over in place: a rule says so, and the status has it or it is seen
    /// (POD-18; upstream's `ShouldAllContainersRestart`).
    fn restarting_all(&self) -> bool {
        let Some(spec) = self.pod.spec.as_ref().filter(|spec| could_restart_all(spec)) else { return false };
        let Some(before) = self.before() else {
            return restart_all::is_due(self.pod, self.runtime, self.containers.restarts);
        };
        let told = conditions::find(before, conditions::ALL_RESTARTING);
        let shown = |container: &Container| {
            let lists = [&before.init_container_statuses, &before.container_statuses];
            let mut statuses = lists.into_iter().flatten().flatten();
            let status = statuses.find(|status| status.name == container.name);
            let end = status.and_then(|status| status.state.as_ref()).and_then(|state| state.terminated.as_ref());
            end.is_some_and(|end| restarts_all(container, end.exit_code))
        };
        told.is_some_and(|told| told.status == "True")
            || restart_all::is_due(self.pod, self.runtime, self.containers.restarts)
            || spec.init_containers.iter().flatten().chain(&spec.containers).any(shown)
    }

    /// Whether the container, having ended with `exit_code`, is started again.
    fn restarts(&self, container: &Container, exit_code: i32) -> bool {
        self.comes_back(self.runtime.container(&container.name)) || should_restart(self.pod, container, exit_code)
    }
}

/// Makes the pod's status.
pub fn generate(input: &StatusInput<'_>) -> PodStatus {
    let empty = PodSpec::default();
    let spec = input.pod.spec.as_ref().unwrap_or(&empty);
    let mut init = container_statuses::of_init_containers(input, spec);
    let mut regular = container_statuses::of_containers(input, spec);
    let ephemeral = container_statuses::of_ephemeral_containers(input, spec);
    readiness::fill_in(input, spec, &mut init, &mut regular);
    let outcome = phase::decide(input, spec, &init, &regular);
    let conditions = conditions::generate(input, spec, &init, &regular, outcome.phase);
    let mut status = PodStatus {
        phase: Some(outcome.phase.to_owned()),
        reason: outcome.reason,
        message: outcome.message,
        conditions: Some(conditions),
        container_statuses: non_empty(regular),
        init_container_statuses: non_empty(init),
        ephemeral_container_statuses: non_empty(ephemeral),
        qos_class: Some(input.qos_class.to_owned()),
        start_time: Some(start_time(input)),
        observed_generation: observed_generation(input.pod, input.before()),
        resources: resources::of_pod(input, outcome.phase),
        allocated_resources: resources::allocated_to_pod(input),
        ..PodStatus::default()
    };
    addresses::set(&mut status, input, spec);
    status
}

/// The status of a pod that the node did not admit. It has no containers and no conditions.
pub fn rejected_status(pod: &Pod, reason: &AdmissionReason, message: &str, qos_class: &str, now: Moment) -> PodStatus {
    PodStatus {
        phase: Some(FAILED.to_owned()),
        reason: Some(reason.to_string()),
        message: Some(format!("Pod was rejected: {message}")),
        qos_class: Some(qos_class.to_owned()),
        start_time: pod.status.as_ref().and_then(|status| status.start_time.clone()).or(Some(time(now))),
        observed_generation: observed_generation(pod, pod.status.as_ref()),
        ..PodStatus::default()
    }
}

/// Says in the pod's conditions what keeps it, where it is not as it is to be (PAIN-11, PAIN-20): an addition of ours, in
/// the message of a condition that upstream leaves empty. A condition that is not the agent's own stays as it is.
pub fn set_problem(status: &mut PodStatus, gates: StatusGates, problem: Option<String>) {
    let mut all = status.conditions.iter_mut().flatten().filter(|condition| gates.own(&condition.type_));
    if let Some(condition) = all.find(|condition| condition.type_ == READY_TO_START) {
        condition.message = problem;
    }
}

/// When the pod was first seen by a node agent; never changes. After a restart of the agent the oldest sandbox that the
/// runtime still holds tells it best, so that a restart does not show; one whose making was cut off has no time.
fn start_time(input: &StatusInput<'_>) -> Time {
    let made = input.runtime.sandboxes.iter().map(|sandbox| sandbox.created_at);
    let oldest = made.filter(|made| *made > Moment::EPOCH).min();
    let first_seen = oldest.map_or(input.now, |oldest| oldest.min(input.now));
    input.before().and_then(|before| before.start_time.clone()).unwrap_or_else(|| time(first_seen))
}

/// The generation of the pod that this status is about; never goes back.
fn observed_generation(pod: &Pod, before: Option<&PodStatus>) -> Option<i64> {
    pod.metadata.generation.max(before.and_then(|before| before.observed_generation))
}

/// A time of the API: whole seconds.
fn time(moment: Moment) -> Time {
    Time(moment.to_timestamp())
}

fn moment(time: &Time) -> Moment {
    Moment::from_timestamp(time.0)
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests;
