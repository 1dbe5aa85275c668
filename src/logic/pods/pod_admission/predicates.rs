//! The scheduler's checks, once more at the node: room, affinity, name, ports, taints (POD-31).
//!
//! Pure. Upstream's `AdmissionCheck` of the scheduler, in its order.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use super::placing::Placing;
use super::room::{PODS, Room, number};
use crate::logic::formats::go_number::canonical_integer;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::node_terms::matches_terms;
use crate::logic::model::quantity::Quantity;
use crate::logic::pods::pod_roster::is_static;
use crate::logic::resources::{CPU, HUGEPAGES_PREFIX, MEMORY, ResourceList, pod_requests, resource_list};

/// One thing that keeps a pod from this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Too little of a resource is left; CPU in thousandths.
    Shortage { name: String, requested: i64, used: i64, capacity: i64 },
    /// A predicate with this reason, and why it fails.
    Predicate(AdmissionReason, &'static str),
}

impl Failure {
    /// Whether only the Node's labels are not as the pod wants them.
    pub(super) fn is_of_labels(&self) -> bool {
        matches!(self, Self::Predicate(AdmissionReason::NodeAffinity, _))
    }

    /// Whether devices are short by the Node's word that the pod was given already. Upstream raises the node's amounts to what
    /// was given (`UpdatePluginResources`).
    pub(super) fn is_settled_by(&self, placed: Option<&Placing>) -> bool {
        let (Self::Shortage { name, .. }, Some(Placing::GivenDevices(given))) = (self, placed) else { return false };
        given.contains(name.as_str())
    }

    /// Whether it is others that take what the pod asks for.
    pub(super) fn is_of_others(&self) -> bool {
        matches!(self, Self::Shortage { .. } | Self::Predicate(AdmissionReason::NodePorts, _))
    }

    pub(super) fn reason(&self) -> AdmissionReason {
        match self {
            Self::Shortage { name, .. } => AdmissionReason::OutOf(name.clone()),
            Self::Predicate(reason, _) => reason.clone(),
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::Shortage { name, requested, used, capacity } => format!(
                "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
            Self::Predicate(reason, why) => format!("Predicate {reason} failed: {why}"),
        }
    }
}

/// All that keeps `pod` from `node`, of which others take their share already.
pub(super) fn failures(pod: &Pod, others: &Room, node: &Node, pod_level: bool) -> Vec<Failure> {
    let mut failures = shortages(pod, others, node, pod_level);
    if !matches_node(pod, node) {
        failures.push(Failure::Predicate(
            AdmissionReason::NodeAffinity,
            "node(s) didn't match Pod's node affinity/selector",
        ));
    }
    let name = node.metadata.name.as_deref();
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|wanted| !wanted.is_empty());
    if wanted.is_some() && wanted != name {
        failures.push(Failure::Predicate(AdmissionReason::NodeName, "node(s) didn't match the requested node name"));
    }
    if others.has_ports_of(pod) {
        failures.push(Failure::Predicate(
            AdmissionReason::NodePorts,
            "node(s) didn't have free ports for the requested pod ports",
        ));
    }
    if !is_static(pod) && untolerated(pod, node) {
        failures.push(Failure::Predicate(
            AdmissionReason::TaintToleration,
            "node(s) had taints that the pod didn't tolerate",
        ));
    }
    failures
}

/// The amount of one resource that a pod takes, as shortages count it.
pub(super) fn taken(pod: &Pod, name: &str, pod_level: bool) -> i64 {
    if name == PODS {
        return 1;
    }
    pod_requests(pod, pod_level, true).get(name).map_or(0, |quantity| number(name, quantity))
}

/// Resource by resource: the number of pods, CPU, memory, storage, the others by name.
fn shortages(pod: &Pod, others: &Room, node: &Node, pod_level: bool) -> Vec<Failure> {
    let Some(status) = node.status.as_ref() else { return vec![] };
    let room: ResourceList = resource_list(status.allocatable.as_ref().or(status.capacity.as_ref()));
    let mut found = Vec::new();
    let count = others.used(PODS);
    if let Some(capacity) = room.get(PODS).map(Quantity::value).filter(|pods| count >= *pods) {
        found.push(Failure::Shortage { name: PODS.to_owned(), requested: 1, used: count, capacity });
    }
    let wanted = pod_requests(pod, pod_level, true);
    let first = [CPU, MEMORY, "ephemeral-storage"];
    let rest = wanted.keys().map(String::as_str).filter(|name| !first.contains(name));
    for name in first.into_iter().chain(rest) {
        let Some(asked) = wanted.get(name).filter(|asked| asked.is_positive()) else { continue };
        let capacity = match room.get(name) {
            Some(capacity) => number(name, capacity),
            // Pages that the node does not have are none.
            None if name.starts_with(HUGEPAGES_PREFIX) => 0,
            // As upstream: an extended resource that the node does not have is the cluster's, or a driver's to give.
            None => continue,
        };
        let used = others.used(name);
        let requested = number(name, asked);
        if used.saturating_add(requested) > capacity {
            found.push(Failure::Shortage { name: name.to_owned(), requested, used, capacity });
        }
    }
    found
}

fn matches_node(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value.as_str()));
    let required = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = required.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|it| matches_terms(it, node))
}

/// Of the taints only those count that would have the pod leave again.
fn untolerated(pod: &Pod, node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tolerations = || pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let mut leaving = taints.filter(|taint| taint.effect == "NoExecute");
    leaving.any(|taint| !tolerations().any(|toleration| tolerates(toleration, taint)))
}

/// Whether a toleration fits a taint. `Lt` and `Gt` compare whole numbers (KEP-5471), whatever the gate says: an API server
/// lets pods have them only where its own gate is on.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    let (bound, value) = (text(&toleration.value), text(&taint.value));
    let operator = text(&toleration.operator);
    let fits = match operator.as_str() {
        "Exists" => true,
        "" | "Equal" => bound == value,
        "Lt" | "Gt" => match (canonical_integer(&bound), canonical_integer(&value)) {
            (Some(bound), Some(value)) if operator == "Lt" => value < bound,
            (Some(bound), Some(value)) => value > bound,
            _ => false,
        },
        _ => false,
    };
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || (key.is_empty() && operator == "Exists"))
        && fits
}
