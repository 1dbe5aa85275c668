//! The Node object as the agent first makes it, and what it repairs of one that was there before.
//!
//! Pure; owned by `NodeStatus`, keeps nothing. The status part is `node_status`'s.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::logic::model::quantity::Quantity;
use crate::logic::resources::{HUGEPAGES_PREFIX, is_extended};

/// The operating system's name in labels and in `nodeInfo`, as Go names it.
pub const OPERATING_SYSTEM: &str = "linux";
/// The label of the node's host name.
pub const LABEL_HOSTNAME: &str = "kubernetes.io/hostname";
/// The label of the operating system.
pub const LABEL_OS: &str = "kubernetes.io/os";
/// The label of the processor's architecture.
pub const LABEL_ARCH: &str = "kubernetes.io/arch";
/// Says that a controller attaches and detaches volumes, not the node.
pub const CONTROLLER_ATTACH_ANNOTATION: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The taint of a node whose cloud provider has not looked at it yet.
const CLOUD_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const LABEL_OS_BETA: &str = "beta.kubernetes.io/os";
const LABEL_ARCH_BETA: &str = "beta.kubernetes.io/arch";

/// The only labels that a node which registers again gives itself anew (NODE-09).
const DEFAULT_LABELS: &[&str] = &[
    LABEL_HOSTNAME,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    LABEL_OS,
    LABEL_ARCH,
    "node.kubernetes.io/windows-build",
    LABEL_OS_BETA,
    LABEL_ARCH_BETA,
];

/// The identity of the node, as far as the configuration says so.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeIdentity {
    /// The node's name, which is its host name: lower case, never empty.
    pub name: String,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `registerWithTaints`: key, value, effect.
    pub taints: Vec<(String, String, String)>,
    /// `providerID`; empty for none.
    pub provider_id: String,
    /// `enableControllerAttachDetach`.
    pub controller_attach_detach: bool,
    /// `--cloud-provider=external`.
    pub external_cloud_provider: bool,
    /// The processor's architecture, as Go names it.
    pub architecture: String,
}

/// Go's name of an architecture that Rust names `rust_name`; the same name where they agree.
pub fn go_architecture(rust_name: &str) -> &str {
    match rust_name {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        same => same,
    }
}

/// The labels that the configuration sets over a default one, with the default: worth a line in the log (NODE-02).
pub fn overridden_labels(identity: &NodeIdentity) -> Vec<(&str, String)> {
    let defaults = default_labels(identity);
    let keys = identity.labels.keys();
    keys.filter_map(|key| defaults.get(key).map(|value| (key.as_str(), value.clone()))).collect()
}

fn default_labels(identity: &NodeIdentity) -> BTreeMap<String, String> {
    [
        (LABEL_HOSTNAME, &*identity.name),
        (LABEL_OS, OPERATING_SYSTEM),
        (LABEL_ARCH, &*identity.architecture),
        (LABEL_OS_BETA, OPERATING_SYSTEM),
        (LABEL_ARCH_BETA, &*identity.architecture),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// The Node object to register with, still without a status (NODE-01, NODE-02, NODE-07, NODE-08, NODE-11).
pub fn initial(identity: &NodeIdentity) -> Node {
    let mut node = Node::default();
    node.metadata.name = Some(identity.name.clone());
    let mut labels = default_labels(identity);
    labels.extend(identity.labels.clone());
    node.metadata.labels = Some(labels);
    if identity.controller_attach_detach {
        let annotation = (CONTROLLER_ATTACH_ANNOTATION.to_owned(), "true".to_owned());
        node.metadata.annotations = Some([annotation].into());
    }
    let mut taints: Vec<Taint> = identity.taints.iter().map(|(key, value, effect)| taint(key, value, effect)).collect();
    if identity.external_cloud_provider {
        taints.push(taint(CLOUD_TAINT, "true", "NoSchedule"));
    }
    let spec = node.spec.get_or_insert_default();
    spec.taints = (!taints.is_empty()).then_some(taints);
    spec.provider_id = (!identity.provider_id.is_empty()).then(|| identity.provider_id.clone());
    node
}

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        effect: effect.to_owned(),
        key: key.to_owned(),
        time_added: None,
        value: (!value.is_empty()).then(|| value.to_owned()),
    }
}

/// Brings a Node that was registered before in line with `initial`; says whether anything changed. `devices_lost` when
/// the device manager found no checkpoint: the machine is another one, its devices are not yet known (NODE-13).
///
/// Taints, other labels and `providerID` are left to who set them since (NODE-07, NODE-09).
pub fn reconcile(initial: &Node, existing: &mut Node, devices_lost: bool) -> bool {
    let annotation = reconcile_annotation(initial, existing);
    let labels = reconcile_labels(initial, existing);
    let (wanted, status) = (initial.status.as_ref(), existing.status.get_or_insert_default());
    let resources = fill_resources(wanted, status);
    let devices = devices_lost && zero_extended_resources(status);
    let hugepages = reconcile_hugepages(wanted, status);
    annotation || labels || resources || devices || hugepages
}

fn reconcile_annotation(initial: &Node, existing: &mut Node) -> bool {
    let value = |node: &Node| node.metadata.annotations.as_ref()?.get(CONTROLLER_ATTACH_ANNOTATION).cloned();
    let (wanted, found) = (value(initial), value(existing));
    if wanted.as_deref().unwrap_or_default() == found.as_deref().unwrap_or_default() {
        return false;
    }
    let annotations = existing.metadata.annotations.get_or_insert_default();
    match wanted {
        Some(wanted) => annotations.insert(CONTROLLER_ATTACH_ANNOTATION.to_owned(), wanted),
        None => annotations.remove(CONTROLLER_ATTACH_ANNOTATION),
    };
    true
}

fn reconcile_labels(initial: &Node, existing: &mut Node) -> bool {
    let Some(wanted) = &initial.metadata.labels else { return false };
    let labels = existing.metadata.labels.get_or_insert_default();
    let mut changed = false;
    for key in DEFAULT_LABELS {
        let Some(value) = wanted.get(*key) else { continue };
        let found = labels.get(*key).map(String::as_str).unwrap_or_default();
        changed |= found != value;
        if value.is_empty() {
            labels.remove(*key);
        } else if found != value {
            labels.insert((*key).to_owned(), value.clone());
        }
    }
    changed
}

fn fill_resources(wanted: Option<&NodeStatus>, status: &mut NodeStatus) -> bool {
    let Some(wanted) = wanted else { return false };
    let mut changed = false;
    for (wanted, found) in [(&wanted.capacity, &mut status.capacity), (&wanted.allocatable, &mut status.allocatable)] {
        if found.is_none() && wanted.is_some() {
            found.clone_from(wanted);
            changed = true;
        }
    }
    changed
}

fn zero_extended_resources(status: &mut NodeStatus) -> bool {
    let names: BTreeSet<String> =
        status.capacity.iter().flatten().map(|(name, _)| name.clone()).filter(|name| is_extended(name)).collect();
    for name in &names {
        for list in [&mut status.capacity, &mut status.allocatable] {
            list.get_or_insert_default().insert(name.clone(), ApiQuantity("0".to_owned()));
        }
    }
    !names.is_empty()
}

/// NODE-14: sizes that the machine has are set, others go.
fn reconcile_hugepages(wanted: Option<&NodeStatus>, status: &mut NodeStatus) -> bool {
    let sizes = |list: &Option<BTreeMap<String, ApiQuantity>>| -> BTreeMap<String, ApiQuantity> {
        let entries = list.iter().flatten().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX));
        entries.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    let capacity = wanted.map(|wanted| sizes(&wanted.capacity)).unwrap_or_default();
    let allocatable = wanted.map(|wanted| sizes(&wanted.allocatable)).unwrap_or_default();
    let mut changed = false;
    for (wanted, found) in [(&capacity, &mut status.capacity), (&allocatable, &mut status.allocatable)] {
        let found = found.get_or_insert_default();
        for (name, amount) in wanted {
            if !found.get(name).is_some_and(|known| same_amount(known, amount)) {
                found.insert(name.clone(), amount.clone());
                changed = true;
            }
        }
        let before = found.len();
        found.retain(|name, _| !name.starts_with(HUGEPAGES_PREFIX) || capacity.contains_key(name));
        changed |= found.len() != before;
    }
    changed
}

/// Whether two texts mean the same amount; texts that are no quantities are the same only to the letter.
pub fn same_amount(one: &ApiQuantity, other: &ApiQuantity) -> bool {
    match (Quantity::parse(&one.0), Quantity::parse(&other.0)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Puts the labels of operating system and architecture right, which nobody else may set; says whether it had to
/// (NODE-10).
pub fn repair_labels(node: &mut Node, architecture: &str) -> bool {
    let labels = node.metadata.labels.get_or_insert_default();
    let mut changed = false;
    for (key, value) in [(LABEL_OS, OPERATING_SYSTEM), (LABEL_ARCH, architecture)] {
        if labels.get(key).is_none_or(|found| found != value) {
            labels.insert(key.to_owned(), value.to_owned());
            changed = true;
        }
    }
    changed
}

/// Whether the cluster attaches volumes to the node: the Node says so. Where there is no Node yet, it may.
pub fn is_attached_by_cluster(node: Option<&Node>) -> bool {
    let annotations = node.map(|node| node.metadata.annotations.as_ref());
    annotations.is_none_or(|all| {
        all.and_then(|all| all.get(CONTROLLER_ATTACH_ANNOTATION)).is_some_and(|value| value == "true")
    })
}

#[cfg(test)]
mod tests;
