//! The cluster's view of a CSI driver on this node (VOL-40, NODE-59, NODE-60): the CSINode, an annotation and labels.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use crate::logic::formats::own_labels::is_protected;

/// Upstream's words while the CSINode is not there.
pub const NOT_INITIALIZED: &str = "CSINode is not yet initialized";
/// The Node's annotation that has the drivers' names of the node.
const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";
/// The CSINode's annotation that has the kinds of volumes that only drivers serve.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Those kinds, sorted.
pub const MIGRATED_KINDS: [&str; 7] = [
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
];

/// A driver's answer to `NodeGetInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNodeInfo {
    /// The driver's name of this node.
    pub node_id: String,
    /// How many of its volumes may be attached here; 0 or less leaves it open.
    pub volumes_max: i64,
    /// Where the node is, as the driver sees it.
    pub topology: BTreeMap<String, String>,
}

/// A version of the interface.
pub type Version = (u64, u64, u64);

/// The highest version that a driver and the agent share: one of 1.x.
///
/// # Errors
/// Upstream's words when there is none.
pub fn highest_version(versions: &[String]) -> Result<Version, String> {
    if versions.is_empty() {
        return Err("Plugin returned an empty list for supported versions".to_owned());
    }
    let usable = versions.iter().filter_map(|text| parsed(text)).filter(|version| version.0 <= 1);
    match usable.max() {
        Some(version) if version.0 == 1 => Ok(version),
        Some((major, minor, patch)) => {
            Err(format!("highest supported version reported by driver is {major}.{minor}.{patch}, must be v1.x"))
        }
        None => Err(format!(
            "could not find a highest supported version from versions ([{}]) reported by this driver",
            versions.join(" ")
        )),
    }
}

/// `1.2.3`, `v1.2`, `1.2.3-rc1`: two or three numbers and a rest that does not count.
fn parsed(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches('v');
    let plain = text.split(['-', '+']).next()?;
    let numbers: Vec<u64> = plain.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [major, minor] => Some((major, minor, 0)),
        [major, minor, patch, ..] => Some((major, minor, patch)),
        _ => None,
    }
}

/// The CSINode of a node without drivers.
pub fn new_csi_node(node_name: &str, node_uid: &str) -> CSINode {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node_name.to_owned(),
        uid: node_uid.to_owned(),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        name: Some(node_name.to_owned()),
        owner_references: Some(vec![owner]),
        annotations: Some(BTreeMap::from([(MIGRATED.to_owned(), MIGRATED_KINDS.join(","))])),
        ..ObjectMeta::default()
    };
    CSINode { metadata, spec: CSINodeSpec { drivers: vec![] } }
}

/// Whether the CSINode is this Node's, not that of an earlier one of its name.
pub fn is_owned(csi_node: &CSINode, node_name: &str, node_uid: &str) -> bool {
    let mut owners = csi_node.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Node" && owner.name == node_name && owner.uid == node_uid)
}

/// The CSINode with its annotation as it should be; `None` where it is so.
pub fn with_migrated(csi_node: &CSINode) -> Option<CSINode> {
    let annotations = csi_node.metadata.annotations.as_ref();
    let mut found: Vec<&str> =
        annotations.and_then(|all| all.get(MIGRATED)).map_or(vec![], |all| all.split(',').collect());
    found.sort_unstable();
    if found == MIGRATED_KINDS {
        return None;
    }
    let mut changed = csi_node.clone();
    let annotations = changed.metadata.annotations.get_or_insert_default();
    annotations.insert(MIGRATED.to_owned(), MIGRATED_KINDS.join(","));
    Some(changed)
}

/// The driver's words without labels that the node may not give itself and that nobody gave it; and those labels. With one of
/// them the API server would refuse the whole registration.
pub fn allowed(node: &Node, info: &CsiNodeInfo) -> (CsiNodeInfo, Vec<String>) {
    let given = node.metadata.labels.as_ref();
    let is_kept = |key: &String| !is_protected(key) || given.is_some_and(|labels| labels.contains_key(key));
    let (kept, dropped): (BTreeMap<_, _>, BTreeMap<_, _>) =
        info.topology.clone().into_iter().partition(|(key, _)| is_kept(key));
    (CsiNodeInfo { topology: kept, ..info.clone() }, dropped.into_keys().collect())
}

/// The CSINode with this driver's entry; `None` where it has it. Other drivers' entries stay as they are.
pub fn with_driver(csi_node: &CSINode, driver: &str, info: &CsiNodeInfo) -> Option<CSINode> {
    let count = (info.volumes_max > 0).then(|| i32::try_from(info.volumes_max).unwrap_or(i32::MAX));
    let entry = CSINodeDriver {
        name: driver.to_owned(),
        node_id: info.node_id.clone(),
        topology_keys: (!info.topology.is_empty()).then(|| info.topology.keys().cloned().collect()),
        allocatable: count.map(|count| VolumeNodeResources { count: Some(count) }),
    };
    let is_there = csi_node.spec.drivers.contains(&entry);
    let mut changed = with_migrated(csi_node).unwrap_or_else(|| csi_node.clone());
    changed.spec.drivers.retain(|known| known.name != driver);
    changed.spec.drivers.push(entry);
    (!is_there || changed.metadata != csi_node.metadata).then_some(changed)
}

/// The CSINode without this driver's entry; `None` where it has none.
pub fn without_driver(csi_node: &CSINode, driver: &str) -> Option<CSINode> {
    let mut changed = csi_node.clone();
    changed.spec.drivers.retain(|known| known.name != driver);
    (changed.spec.drivers.len() < csi_node.spec.drivers.len()).then_some(changed)
}

/// A merge patch after which the Node shows the driver's name of it and where it is; `None` where it shows both.
///
/// # Errors
/// Upstream's words: an annotation that cannot be read, or a label that says otherwise.
pub fn node_patch(node: &Node, driver: &str, info: &CsiNodeInfo) -> Result<Option<Value>, String> {
    let mut ids = node_ids(node)?;
    let labels = node.metadata.labels.clone().unwrap_or_default();
    for (key, value) in &info.topology {
        if let Some(other) = labels.get(key).filter(|other| *other != value) {
            return Err(format!(
                "detected topology value collision: driver reported {key:?}:{value:?} but existing label is {key:?}:{other:?}"
            ));
        }
    }
    let is_known = ids.insert(driver.to_owned(), info.node_id.clone()).as_ref() == Some(&info.node_id);
    let missing: BTreeMap<_, _> = info.topology.iter().filter(|(key, _)| !labels.contains_key(*key)).collect();
    if is_known && missing.is_empty() {
        return Ok(None);
    }
    let mut metadata = json!({ "annotations": { NODE_IDS: json!(ids).to_string() } });
    if !missing.is_empty() {
        metadata["labels"] = json!(missing);
    }
    Ok(Some(json!({ "metadata": metadata })))
}

/// A merge patch once the driver is gone; labels stay. `None` where the Node does not show the driver.
///
/// # Errors
/// An annotation that cannot be read.
pub fn node_patch_without(node: &Node, driver: &str) -> Result<Option<Value>, String> {
    let mut ids = node_ids(node)?;
    if ids.remove(driver).is_none() {
        return Ok(None);
    }
    let value = if ids.is_empty() { Value::Null } else { json!(json!(ids).to_string()) };
    Ok(Some(json!({ "metadata": { "annotations": { NODE_IDS: value } } })))
}

fn node_ids(node: &Node) -> Result<BTreeMap<String, String>, String> {
    let text = node.metadata.annotations.as_ref().and_then(|all| all.get(NODE_IDS)).map_or("", String::as_str);
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let parsed = serde_json::from_str(text);
    parsed.map_err(|error| format!("failed to parse node's {NODE_IDS:?} annotation value ({text:?}) err={error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: &str, volumes_max: i64, topology: &[(&str, &str)]) -> CsiNodeInfo {
        let topology = topology.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        CsiNodeInfo { node_id: id.to_owned(), volumes_max, topology }
    }

    fn node(annotations: Value, labels: Value) -> Node {
        serde_json::from_value(json!({ "metadata": { "annotations": annotations, "labels": labels } })).unwrap()
    }

    /// VOL-40.
    #[test]
    fn versions_of_the_first_generation_alone_are_taken() {
        for (versions, expected) in [
            (vec!["1.0.0"], Ok((1, 0, 0))),
            (vec!["0.3.0", "v1.2", "1.1.9", "2.0.0"], Ok((1, 2, 0))),
            (vec!["1.3.0-rc1"], Ok((1, 3, 0))),
            (vec![], Err("Plugin returned an empty list for supported versions")),
            (vec!["0.3.0"], Err("highest supported version reported by driver is 0.3.0, must be v1.x")),
            (
                vec!["2.0.0", "x"],
                Err("could not find a highest supported version from versions ([2.0.0 x]) reported by this driver"),
            ),
        ] {
            let versions: Vec<String> = versions.into_iter().map(str::to_owned).collect();
            assert_eq!(highest_version(&versions), expected.map_err(str::to_owned), "{versions:?}");
        }
    }

    /// NODE-59.
    #[test]
    fn a_csi_node_belongs_to_its_node() {
        let made = new_csi_node("n", "uid-1");
        assert!(is_owned(&made, "n", "uid-1"));
        assert!(!is_owned(&made, "n", "uid-2") && !is_owned(&made, "m", "uid-1"));
        assert_eq!(with_migrated(&made), None);
        let mut bare = made.clone();
        bare.metadata.annotations = None;
        assert_eq!(with_migrated(&bare), Some(made));
    }

    /// VOL-40.
    #[test]
    fn a_driver_has_one_entry_with_its_keys_and_its_limit() {
        let empty = new_csi_node("n", "u");
        let with = with_driver(&empty, "d", &info("id", 5, &[("zone", "a"), ("region", "r")])).expect("changed");
        let entry = &with.spec.drivers[0];
        assert_eq!((entry.name.as_str(), entry.node_id.as_str()), ("d", "id"));
        assert_eq!(entry.topology_keys.as_deref(), Some(&["region".to_owned(), "zone".to_owned()][..]));
        assert_eq!(entry.allocatable.as_ref().and_then(|all| all.count), Some(5));
        assert_eq!(with_driver(&with, "d", &info("id", 5, &[("zone", "b"), ("region", "r")])), None);
        let two = with_driver(&with, "e", &info("id", i64::MAX, &[])).expect("changed");
        assert_eq!(two.spec.drivers[1].allocatable.as_ref().and_then(|all| all.count), Some(i32::MAX));
        let open = with_driver(&two, "d", &info("id", 0, &[])).expect("changed");
        let names: Vec<_> = open.spec.drivers.iter().map(|one| (&*one.name, one.allocatable.is_some())).collect();
        assert_eq!(names, [("e", true), ("d", false)]);
        let one = without_driver(&open, "e").expect("changed");
        assert_eq!(without_driver(&one, "e"), None);
    }

    /// NODE-60.
    #[test]
    fn the_node_shows_the_drivers_name_of_it_and_its_place() {
        let fresh = node(json!({}), json!({ "zone": "a" }));
        let patch = node_patch(&fresh, "d", &info("id", 0, &[("zone", "a"), ("rack", "7")])).unwrap().unwrap();
        let expected = json!({ "metadata": {
            "annotations": { NODE_IDS: r#"{"d":"id"}"# }, "labels": { "rack": "7" },
        } });
        assert_eq!(patch, expected);
        let known = node(json!({ NODE_IDS: r#"{"d":"id","e":"x"}"# }), json!({ "rack": "7" }));
        assert_eq!(node_patch(&known, "d", &info("id", 0, &[("rack", "7")])), Ok(None));
        let collision = node_patch(&known, "d", &info("id", 0, &[("rack", "8")])).unwrap_err();
        assert_eq!(
            collision,
            r#"detected topology value collision: driver reported "rack":"8" but existing label is "rack":"7""#
        );
        assert!(node_patch(&node(json!({ NODE_IDS: "{" }), json!({})), "d", &info("id", 0, &[])).is_err());
    }

    /// NODE-60: a label that administrators keep for themselves counts where an administrator gave it.
    #[test]
    fn node_60_labels_that_the_node_may_not_give_itself_are_left_out() {
        let (rack, zone) = ("node-restriction.kubernetes.io/rack", "topology.kubernetes.io/zone");
        let told = info("id", 3, &[(rack, "7"), (zone, "a"), ("example.com/row", "2")]);
        let kept = info("id", 3, &[(zone, "a"), ("example.com/row", "2")]);
        assert_eq!(allowed(&node(json!({}), json!({})), &told), (kept, vec![rack.to_owned()]));
        for value in ["7", "8"] {
            let given = node(json!({}), json!({ rack: value }));
            assert_eq!(allowed(&given, &told), (told.clone(), vec![]), "another value is a collision");
        }
    }

    /// NODE-60.
    #[test]
    fn a_driver_that_is_gone_leaves_its_labels_alone() {
        let two = node(json!({ NODE_IDS: r#"{"d":"id","e":"x"}"# }), json!({ "rack": "7" }));
        let patch = node_patch_without(&two, "d").unwrap().unwrap();
        assert_eq!(patch, json!({ "metadata": { "annotations": { NODE_IDS: r#"{"e":"x"}"# } } }));
        let one = node(json!({ NODE_IDS: r#"{"e":"x"}"# }), json!({}));
        let patch = node_patch_without(&one, "e").unwrap().unwrap();
        assert_eq!(patch, json!({ "metadata": { "annotations": { NODE_IDS: null } } }));
        assert_eq!(node_patch_without(&one, "d"), Ok(None));
    }
}
