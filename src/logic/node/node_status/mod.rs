//! The status of the Node object, made from what the host, the runtime and other actors say.
//!
//! Pure; owned by `NodeStatus`, keeps nothing. The parts are set in upstream's order; one that fails gives its reason and
//! leaves the others alone (upstream's setters, `pkg/kubelet/nodestatus`).

mod capacity;
mod compare;
mod conditions;
mod contents;
mod patch;
mod report;
mod runtime_version;
mod told;

use k8s_openapi::api::core::v1::Node;

pub use capacity::{CapacitySettings, DeviceResources, Machine, PODS, allocatable};
pub use compare::has_changed;
pub use conditions::{READY, condition_status, is_ready};
pub use contents::{DECLARED_FEATURES, HandlerFact, ImageFact, RuntimeFact, Versions};
pub use patch::status_patch;
#[cfg(test)]
pub(crate) use patch::tests::apply as apply_patch;
pub use report::ReportSchedule;
pub use told::{NodeNews, Told};

use crate::logic::events::reasons::EventReason;
use crate::logic::model::runtime_health::RuntimeHealth;
use crate::logic::model::time::Moment;
use crate::logic::network::node_addresses::{self, AddressFacts, AddressSettings};

/// The configuration of the status.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StatusSettings {
    /// Addresses.
    pub addresses: AddressSettings,
    /// Resources.
    pub capacity: CapacitySettings,
    /// The runtime's name for itself.
    pub runtime_name: String,
    /// The version of Kubernetes that the agent stands in for, with its `v`.
    pub kubelet_version: String,
    /// The processor's architecture, as Go names it.
    pub architecture: String,
    /// `port`: where the agent's authenticated endpoints are.
    pub port: i32,
    /// `nodeStatusMaxImages`; -1 for all.
    pub images_max: i32,
    /// Those of [`DECLARED_FEATURES`] that are on; `None` when nothing is declared at all.
    pub declared_features: Option<Vec<String>>,
}

/// The facts of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFacts {
    /// The resources of the machine, or why they are not known.
    pub machine: Result<Machine, String>,
    /// Kernel and operating system, or why they are not known.
    pub versions: Result<Versions, String>,
    /// The size of the file system that holds the agent's files, in bytes; `None` while it is not known.
    pub storage_bytes: Option<i64>,
    /// Addresses.
    pub addresses: AddressFacts,
}

/// The runtime's answers.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeAnswers {
    /// The runtime's version; `None` when it did not tell.
    pub version: Option<String>,
    /// Its images, or why they are not known.
    pub images: Result<Vec<ImageFact>, String>,
}

/// A Kubernetes Event about the node, before it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Warning, else Normal.
    pub warning: bool,
    /// One word.
    pub reason: EventReason,
    /// A sentence, as upstream says it.
    pub message: String,
}

impl NodeEvent {
    /// An Event that says how the node is now.
    pub fn status(node: &str, reason: EventReason) -> Self {
        let message = format!("Node {node} status is now: {reason}");
        Self { warning: false, reason, message }
    }
}

/// The result of setting a status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The Events that are worth recording, in order.
    pub events: Vec<NodeEvent>,
    /// Parts that could not be set, for the log.
    pub problems: Vec<String>,
}

/// Brings a Node's status up to date.
pub fn set_status(
    node: &mut Node,
    settings: &StatusSettings,
    host: &HostFacts,
    runtime: &RuntimeAnswers,
    told: &Told,
    now: Moment,
) -> Outcome {
    let mut outcome = Outcome::default();
    let name = node.metadata.name.clone().unwrap_or_default();
    outcome.problems.extend(node_addresses::set(node, &settings.addresses, &host.addresses).err());
    let status = node.status.get_or_insert_default();
    match &host.machine {
        Ok(machine) => outcome.events.extend(contents::set_machine(status, machine, &name)),
        Err(problem) => outcome.problems.push(format!("error getting machine info: {problem}")),
    }
    let machine = host.machine.as_ref().ok();
    capacity::set(status, &settings.capacity, machine, host.storage_bytes, &told.devices);
    match &host.versions {
        Ok(versions) => {
            let info = status.node_info.get_or_insert_default();
            contents::set_versions(info, settings, versions, runtime.version.as_deref());
        }
        Err(problem) => outcome.problems.push(format!("error getting version info: {problem}")),
    }
    contents::set_constants(status, settings);
    match &runtime.images {
        Ok(images) => status.images = Some(contents::images(images.clone(), settings.images_max)),
        Err(problem) => {
            status.images = None;
            outcome.problems.push(format!("error getting image list: {problem}"));
        }
    }
    if let Some(runtime) = &told.runtime {
        contents::set_runtime(status, runtime);
    }
    outcome.events.extend(conditions::set_pressures(status, told.pressure, &name, now));
    let problems = problems(told, capacity::missing(status, settings.capacity.local_storage));
    outcome.events.extend(conditions::set_ready(status, &problems, &name, now));
    if let Some(volumes) = &told.volumes_in_use {
        status.volumes_in_use = Some(volumes.clone());
    }
    if let Some(enabled) = &settings.declared_features {
        status.declared_features = Some(contents::declared(enabled, told.runtime.as_ref()));
    }
    outcome
}

fn problems(told: &Told, missing_capacity: Vec<String>) -> conditions::Problems {
    let health = told.health.clone().unwrap_or_else(|| RuntimeHealth {
        network_problem: Some(crate::logic::model::runtime_health::NETWORK_UNKNOWN.to_owned()),
        ..crate::logic::model::runtime_health::not_yet_known()
    });
    conditions::Problems {
        runtime: health.runtime_problem,
        network: health.network_problem,
        storage: told.storage_problem.clone(),
        shutdown: told.shutdown_problem.clone(),
        missing_capacity,
        warnings: told.unenforced.iter().cloned().chain(silent_disks(&told.silent_disks)).collect(),
    }
}

/// Names the disks that do not answer. The node goes on with those that do.
fn silent_disks(paths: &[String]) -> Option<String> {
    (!paths.is_empty()).then(|| format!("file systems do not answer: {}", paths.join(", ")))
}

/// The Event that a change of `spec.unschedulable` is worth (NODE-61).
pub fn schedulable_event(was_unschedulable: bool, node: &Node) -> Option<NodeEvent> {
    let is = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let reason = if is { EventReason::NodeNotSchedulable } else { EventReason::NodeSchedulable };
    (is != was_unschedulable).then(|| NodeEvent::status(name, reason))
}

/// All the node's pod CIDRs, as the runtime gets them; `None` while there are none (NODE-58).
pub fn pod_cidrs(node: &Node) -> Option<String> {
    let cidrs = node.spec.as_ref()?.pod_cidrs.as_ref()?;
    (!cidrs.is_empty()).then(|| cidrs.join(","))
}

#[cfg(test)]
mod tests;
