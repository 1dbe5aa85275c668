//! From a claim to the volume behind it (VOL-07, VOL-08): what must hold before a pod may have it.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod};

use super::order::{HostPathKind, LocalOrder, Ownership, SetUp, VolumePlace, plugin};
use super::plan::{check_host_path, disk_ownership, goes_up, nfs_set_up};
use super::scsi::orders::{self, DiskOrder, DiskUser};
use super::steps::VolumeStep;
use crate::logic::model::ids::PodUid;
use crate::logic::model::node_terms::matches_terms;
use crate::logic::volumes::mounting::mounting_containers;

/// The finalizer that keeps a claim while pods use it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The name of the volume that a claim is bound to.
///
/// # Errors
/// Why there is none that a pod may have, in upstream's words.
pub fn bound_volume(claim: &PersistentVolumeClaim) -> Result<String, String> {
    let protected = claim.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == PROTECTION);
    if claim.metadata.deletion_timestamp.is_some() && !protected {
        return Err("PVC is being deleted".to_owned());
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Err("PVC is not bound".to_owned());
    }
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default();
    if name.is_empty() { Err("PVC has empty pvc.Spec.VolumeName".to_owned()) } else { Ok(name) }
}

/// Checks that a claim that was made for one pod was made for this one.
///
/// # Errors
/// That it was not, in upstream's words, which name the claim.
pub fn check_owner(claim: &PersistentVolumeClaim, pod: &Pod) -> Result<(), String> {
    if is_owner(pod, claim) {
        return Ok(());
    }
    let named = |name: &Option<String>| name.clone().unwrap_or_default();
    Err(format!(
        "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
        named(&claim.metadata.namespace),
        named(&claim.metadata.name),
        named(&pod.metadata.namespace),
        named(&pod.metadata.name)
    ))
}

fn is_owner(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// Checks that the volume is the claim's.
///
/// # Errors
/// Why not, in upstream's words.
pub fn check_volume(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), String> {
    let volume_name = volume.metadata.name.as_deref().unwrap_or_default();
    let spec = volume.spec.as_ref();
    let Some(reference) = spec.and_then(|spec| spec.claim_ref.as_ref()) else {
        return Err(format!(
            "found PV object {volume_name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    };
    let (bound, wanted) = (reference.uid.as_deref(), claim.metadata.uid.as_deref());
    if bound != wanted || wanted.is_none() {
        return Err(format!(
            "found PV object {volume_name} but its pv.Spec.ClaimRef.UID {} does not point to claim.UID {}",
            bound.unwrap_or_default(),
            wanted.unwrap_or_default()
        ));
    }
    Ok(())
}

/// Checks that the pod uses the volume as what it is. `name` is its name in the pod.
///
/// # Errors
/// That it does not, in upstream's words, which name the volume.
pub fn check_mode(name: &str, pod: &Pod, volume: &PersistentVolume) -> Result<(), String> {
    let mode = volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem");
    let containers = mounting_containers(pod);
    let mounted = containers.iter().flat_map(|container| container.mounts).any(|mount| mount.name == name);
    let as_device = containers.iter().flat_map(|container| container.devices).any(|device| device.name == name);
    if mounted && mode != "Filesystem" {
        return Err(format!("volume {name} has volumeMode {mode}, but is specified in volumeMounts"));
    }
    if as_device && mode != "Block" {
        return Err(format!("volume {name} has volumeMode {mode}, but is specified in volumeDevices"));
    }
    Ok(())
}

/// Where a persistent volume is on the node and what is to be done for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Its place; `None` for a path of the host.
    pub place: Option<VolumePlace>,
    /// A path of the host, given to containers as it is.
    pub host_path: Option<String>,
    /// The order that sets it up.
    pub set_up: SetUp,
    /// Whether its files are to be labelled, where SELinux is on: only those that are the pod's to change (VOL-31).
    pub relabel: bool,
}

/// Names the group that a persistent volume's files are meant for; containers get it as a supplemental one.
const GROUP: &str = "pv.beta.kubernetes.io/gid";

/// The group that the volume's files are meant for.
pub fn volume_group(volume: &PersistentVolume) -> Option<i64> {
    volume.metadata.annotations.as_ref()?.get(GROUP)?.parse().ok().filter(|group| *group >= 0)
}

/// Why a persistent volume cannot be had: upstream's step of the work, and what went wrong in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The step.
    pub step: VolumeStep,
    /// In upstream's words where it has some.
    pub problem: String,
}

impl Unresolved {
    fn new(step: VolumeStep, problem: impl Into<String>) -> Self {
        Self { step, problem: problem.into() }
    }
}

/// The annotation that older clients wrote mount options to; it goes before the field.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// The file system of a device that has none and whose volume names none.
const FS_TYPE: &str = "ext4";

/// Whether a persistent volume is a device for containers, not a file system.
pub fn is_block(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()) == Some("Block")
}

/// The host's orders for a persistent volume. `node` is this node, where it is known.
///
/// # Errors
/// A volume that belongs to other nodes (VOL-11), or mount options that its kind has none of (VOL-48). Or a kind that this
/// version does not mount.
pub fn resolve(
    volume: &PersistentVolume,
    pod: &Pod,
    uid: &PodUid,
    read_only: bool,
    node: Option<&Node>,
) -> Result<Resolved, Unresolved> {
    let block = is_block(volume);
    let step = if block { VolumeStep::SetUpDevice } else { VolumeStep::SetUp };
    let spec = volume.spec.as_ref().ok_or_else(|| Unresolved::new(step, "the persistent volume has no spec"))?;
    check_affinity(volume, node)?;
    // First of all its kind: one that is not mounted may well take options or be a device.
    if let Some(kind) = refused_kind(spec) {
        let step = if block { VolumeStep::FindMapper } else { step };
        return Err(Unresolved::new(step, format!("no volume plugin matched: {kind} is not mounted by this version")));
    }
    let options = mount_options(volume, spec);
    let is_disk = spec.iscsi.is_some() || spec.fc.is_some();
    let takes_options = spec.local.is_some() || spec.nfs.is_some() || is_disk;
    if !block && !options.is_empty() && !takes_options {
        let problem = "mount options are not supported for this volume type";
        return Err(Unresolved::new(VolumeStep::MountOptions, problem));
    }
    if block && spec.local.is_none() && !is_disk {
        let problem = "volumes of this kind are not mapped as devices";
        return Err(Unresolved::new(VolumeStep::FindMapper, problem));
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(order) = orders::of_volume(volume, DiskUser { namespace, read_only }) {
        let step = if block { VolumeStep::NewMapper } else { VolumeStep::NewMounter };
        let order = order.map_err(|error| Unresolved::new(step, error.to_string()))?;
        let order = DiskOrder { options, exclusive: is_for_one_pod(spec), ..order };
        return Ok(on_disk(volume, uid, order, disk_ownership(pod, read_only)));
    }
    set_up(volume, spec, pod, uid, read_only, options).map_err(|problem| Unresolved { step, problem })
}

/// The path of a local volume.
pub fn local_path(volume: &PersistentVolume) -> Option<&str> {
    volume.spec.as_ref()?.local.as_ref().map(|local| local.path.as_str())
}

/// A disk of a storage network.
fn on_disk(volume: &PersistentVolume, uid: &PodUid, order: DiskOrder, ownership: Ownership) -> Resolved {
    let (name, is_device) = (volume.metadata.name.clone().unwrap_or_default(), is_block(volume));
    let place = VolumePlace { uid: uid.clone(), plugin: order.disk.plugin().to_owned(), name, is_device };
    let relabel = !order.read_only && !is_device;
    Resolved { place: Some(place), host_path: None, set_up: SetUp::Disk(Box::new(order), ownership), relabel }
}

fn set_up(
    volume: &PersistentVolume,
    spec: &PersistentVolumeSpec,
    pod: &Pod,
    uid: &PodUid,
    read_only: bool,
    options: Vec<String>,
) -> Result<Resolved, String> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let is_device = is_block(volume);
    let place = |plugin: &str| VolumePlace { uid: uid.clone(), plugin: plugin.to_owned(), name, is_device };
    if let Some(source) = &spec.host_path {
        check_host_path(&source.path)?;
        let kind = HostPathKind::parse(source.type_.as_deref().unwrap_or_default())?;
        let set_up = SetUp::HostPath { path: source.path.clone(), kind };
        return Ok(Resolved { place: None, host_path: Some(source.path.clone()), set_up, relabel: false });
    }
    if let Some(source) = &spec.local {
        let path = &source.path;
        goes_up(path).map_err(|problem| format!("invalid path: {path} {problem}"))?;
        let (source_path, exclusive) = (source.path.clone(), is_for_one_pod(spec));
        let set_up = if is_device {
            SetUp::Device { source: source_path, exclusive }
        } else {
            let ownership = disk_ownership(pod, read_only);
            let fs_type = source.fs_type.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| FS_TYPE.to_owned());
            SetUp::Local(LocalOrder { source: source_path, fs_type, read_only, options, ownership, exclusive })
        };
        let relabel = !read_only && !is_device;
        return Ok(Resolved { place: Some(place(plugin::LOCAL)), host_path: None, set_up, relabel });
    }
    if let Some(source) = &spec.nfs {
        let set_up = nfs_set_up(source, read_only, options)?;
        return Ok(Resolved { place: Some(place(plugin::NFS)), host_path: None, set_up, relabel: false });
    }
    Err("no volume plugin matched: its kind is not mounted by this version".to_owned())
}

/// The name of a kind that this version does not mount.
fn refused_kind(spec: &PersistentVolumeSpec) -> Option<&'static str> {
    let kinds = [
        (spec.csi.is_some(), "csi"),
        (spec.flex_volume.is_some(), "flexVolume"),
        (spec.cephfs.is_some(), "cephfs"),
        (spec.rbd.is_some(), "rbd"),
        (spec.glusterfs.is_some(), "glusterfs"),
        (spec.flocker.is_some(), "flocker"),
        (spec.quobyte.is_some(), "quobyte"),
        (spec.scale_io.is_some(), "scaleIO"),
        (spec.storageos.is_some(), "storageos"),
        (spec.photon_persistent_disk.is_some(), "photonPersistentDisk"),
    ];
    kinds.iter().find(|(given, _)| *given).map(|(_, name)| *name)
}

/// Checks that the volume may be used on this node (VOL-11).
///
/// # Errors
/// That it belongs to other nodes.
pub fn check_affinity(volume: &PersistentVolume, node: Option<&Node>) -> Result<(), Unresolved> {
    let step = if is_block(volume) { VolumeStep::MapAffinity } else { VolumeStep::MountAffinity };
    let checked = volume.spec.as_ref().map_or(Ok(()), |spec| check_node(spec, node));
    checked.map_err(|problem| Unresolved::new(step, problem))
}

/// Whether the volume may be used on this node, as its labels say.
fn check_node(spec: &PersistentVolumeSpec, node: Option<&Node>) -> Result<(), String> {
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    match (required, node) {
        (None, _) => Ok(()),
        (Some(_), None) => Err("the node's labels are not known yet".to_owned()),
        (Some(required), Some(node)) if matches_terms(required, node) => Ok(()),
        (Some(_), Some(_)) => Err("no matching NodeSelectorTerms".to_owned()),
    }
}

/// The mount options of a persistent volume, as upstream reads them.
fn mount_options(volume: &PersistentVolume, spec: &PersistentVolumeSpec) -> Vec<String> {
    let annotated = volume.metadata.annotations.as_ref().and_then(|all| all.get(MOUNT_OPTIONS));
    match annotated {
        Some(options) => options.split(',').filter(|option| !option.is_empty()).map(str::to_owned).collect(),
        None => spec.mount_options.clone().unwrap_or_default(),
    }
}

/// Whether `ReadWriteOncePod` is the only way that the volume may be used.
fn is_for_one_pod(spec: &PersistentVolumeSpec) -> bool {
    matches!(spec.access_modes.as_deref(), Some([mode]) if mode == "ReadWriteOncePod")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::logic::volumes::order::ChangePolicy;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "ns", "uid": "pod-1" },
            "spec": {
                "securityContext": { "fsGroup": 5, "fsGroupChangePolicy": "OnRootMismatch" },
                "containers": [{ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
            },
        }))
        .unwrap()
    }

    fn claim(change: Value) -> PersistentVolumeClaim {
        let mut tree = json!({
            "metadata": { "name": "data", "namespace": "ns", "uid": "claim-1" },
            "spec": { "volumeName": "pv-1" }, "status": { "phase": "Bound" },
        });
        merge(&mut tree, change);
        serde_json::from_value(tree).unwrap()
    }

    fn volume(change: Value) -> PersistentVolume {
        let mut tree = json!({
            "metadata": { "name": "pv-1" },
            "spec": { "claimRef": { "uid": "claim-1" }, "local": { "path": "/mnt/disk" } },
        });
        merge(&mut tree, change);
        serde_json::from_value(tree).unwrap()
    }

    fn merge(tree: &mut Value, change: Value) {
        match (tree, change) {
            (Value::Object(tree), Value::Object(change)) => {
                change.into_iter().for_each(|(key, value)| merge(tree.entry(key).or_insert(Value::Null), value));
            }
            (tree, change) => *tree = change,
        }
    }

    /// VOL-07, VOL-08.
    #[test]
    fn a_claim_must_be_bound_and_stay() {
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let kept = json!({ "metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"],
        } });
        let owner = |uid: &str| {
            json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true },
            ] } })
        };
        let not_owner = "PVC ns/data was not created for pod ns/web (pod is not owner)";
        let cases = [
            (json!({}), Ok("pv-1")),
            (kept, Ok("pv-1")),
            (deleted, Err("PVC is being deleted")),
            (json!({ "status": { "phase": "Pending" } }), Err("PVC is not bound")),
            (json!({ "spec": { "volumeName": "" } }), Err("PVC has empty pvc.Spec.VolumeName")),
        ];
        for (change, expected) in cases {
            let found = bound_volume(&claim(change.clone()));
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{change}");
        }
        for (change, expected) in
            [(json!({}), Err(not_owner)), (owner("pod-2"), Err(not_owner)), (owner("pod-1"), Ok(()))]
        {
            assert_eq!(check_owner(&claim(change.clone()), &pod()), expected.map_err(str::to_owned), "{change}");
        }
    }

    /// VOL-07.
    #[test]
    fn a_volume_must_be_the_claims_and_of_the_right_mode() {
        let check = |change| check_volume(&claim(json!({})), &volume(change));
        assert_eq!(check(json!({})), Ok(()));
        assert!(check(json!({ "spec": { "claimRef": null } })).unwrap_err().contains("nil pv.Spec.ClaimRef"));
        let other = check(json!({ "spec": { "claimRef": { "uid": "claim-2" } } })).unwrap_err();
        assert!(other.ends_with("pv.Spec.ClaimRef.UID claim-2 does not point to claim.UID claim-1"), "{other}");
        assert_eq!(check_mode("v", &pod(), &volume(json!({}))), Ok(()));
        let block = check_mode("v", &pod(), &volume(json!({ "spec": { "volumeMode": "Block" } })));
        assert_eq!(block, Err("volume v has volumeMode Block, but is specified in volumeMounts".into()));
    }

    #[test]
    fn local_volumes_are_bound_and_paths_of_the_host_checked() {
        let uid = PodUid::from("pod-1");
        let local = resolve(&volume(json!({})), &pod(), &uid, true, None).unwrap();
        assert_eq!(local.place.unwrap().to_string(), "pod-1/kubernetes.io~local-volume/pv-1");
        let ownership = Ownership { fs_group: Some(5), policy: ChangePolicy::OnRootMismatch, read_only: true };
        let order = LocalOrder {
            source: "/mnt/disk".into(),
            fs_type: "ext4".into(),
            read_only: true,
            options: vec![],
            ownership,
            exclusive: false,
        };
        assert_eq!(local.set_up, SetUp::Local(order));
        let host = json!({ "spec": { "local": null, "hostPath": { "path": "/data", "type": "Directory" } } });
        let host = resolve(&volume(host), &pod(), &uid, false, None).unwrap();
        assert_eq!((host.place, host.host_path.as_deref()), (None, Some("/data")));
        let csi = json!({ "spec": { "local": null, "csi": { "driver": "d", "volumeHandle": "h" } } });
        let refused = resolve(&volume(csi), &pod(), &uid, false, None).unwrap_err();
        assert_eq!(refused.problem, "no volume plugin matched: csi is not mounted by this version");
        let upwards = |spec: Value| resolve(&volume(json!({ "spec": spec })), &pod(), &uid, false, None).unwrap_err();
        let local = upwards(json!({ "local": { "path": "/a/../b" } }));
        assert_eq!(local.problem, "invalid path: /a/../b path must not contain '..'");
        let host = upwards(json!({ "local": null, "hostPath": { "path": "/a/../b" } }));
        assert_eq!(host.problem, "invalid HostPath `/a/../b`: path must not contain '..'");
    }

    /// VOL-31, VOL-34: only files that the pod may change are labelled for it.
    #[test]
    fn only_a_local_volume_that_is_written_to_is_labelled() {
        let relabel = |spec: Value, read_only| {
            resolve(&volume(json!({ "spec": spec })), &pod(), &PodUid::from("u"), read_only, None).unwrap().relabel
        };
        assert!(relabel(json!({}), false));
        assert!(!relabel(json!({}), true));
        assert!(!relabel(json!({ "local": null, "hostPath": { "path": "/x" } }), false));
        assert!(!relabel(json!({ "local": null, "nfs": { "server": "s", "path": "/x" } }), false));
    }

    fn resolved(change: Value, node: Option<&Node>) -> Result<Resolved, (VolumeStep, String)> {
        let resolved = resolve(&volume(change), &pod(), &PodUid::from("pod-1"), false, node);
        resolved.map_err(|error| (error.step, error.problem))
    }

    /// VOL-11.
    #[test]
    fn a_volume_of_other_nodes_is_not_had_here() {
        let node = |zone: &str| -> Node {
            serde_json::from_value(json!({ "metadata": { "labels": { "zone": zone } } })).unwrap()
        };
        let here = json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }]);
        let spec = |mode: &str| json!({ "spec": { "volumeMode": mode, "nodeAffinity": { "required": { "nodeSelectorTerms": here } } } });
        assert!(resolved(spec("Filesystem"), Some(&node("a"))).is_ok());
        for (mode, node, step, problem) in [
            ("Filesystem", Some(node("b")), VolumeStep::MountAffinity, "no matching NodeSelectorTerms"),
            ("Block", Some(node("b")), VolumeStep::MapAffinity, "no matching NodeSelectorTerms"),
            ("Filesystem", None, VolumeStep::MountAffinity, "the node's labels are not known yet"),
        ] {
            assert_eq!(resolved(spec(mode), node.as_ref()), Err((step, problem.to_owned())));
        }
    }

    /// VOL-51: whatever else a volume is that this version does not mount, the error names its kind.
    #[test]
    fn a_kind_that_is_not_mounted_is_named() {
        for (kind, source) in [
            ("csi", json!({ "driver": "d", "volumeHandle": "h" })),
            ("flexVolume", json!({ "driver": "d" })),
            ("rbd", json!({ "image": "i", "monitors": ["m"] })),
        ] {
            for more in [json!({}), json!({ "mountOptions": ["noexec"] }), json!({ "volumeMode": "Block" })] {
                let mut spec = json!({ "local": null, kind: source });
                merge(&mut spec, more);
                let (step, problem) = resolved(json!({ "spec": spec }), None).unwrap_err();
                assert_eq!(
                    problem,
                    format!("no volume plugin matched: {kind} is not mounted by this version"),
                    "{spec}"
                );
                assert_eq!(step == VolumeStep::FindMapper, spec["volumeMode"] == "Block");
            }
        }
    }

    /// VOL-39.
    #[test]
    fn a_disk_of_a_storage_network_is_mounted_or_mapped() {
        let disk = |more: Value| {
            let mut spec = json!({ "local": null, "iscsi": { "iqn": "iqn.x", "lun": 1, "targetPortal": "10.0.0.1" },
                "accessModes": ["ReadWriteOncePod"] });
            merge(&mut spec, more);
            resolved(json!({ "spec": spec }), None)
        };
        let found = disk(json!({ "mountOptions": ["noatime"] })).unwrap();
        let SetUp::Disk(order, ownership) = &found.set_up else { panic!("{found:?}") };
        assert_eq!(
            (order.options.join(","), order.exclusive, ownership.fs_group),
            ("noatime".to_owned(), true, Some(5))
        );
        let place = found.place.as_ref().unwrap();
        assert_eq!((place.plugin.as_str(), place.name.as_str(), found.relabel), (plugin::ISCSI, "pv-1", true));
        assert!(disk(json!({ "volumeMode": "Block" })).unwrap().place.unwrap().is_device);
        for (mode, step) in [("Filesystem", VolumeStep::NewMounter), ("Block", VolumeStep::NewMapper)] {
            let hostile = disk(json!({ "volumeMode": mode, "iscsi": { "iqn": "iqn.x/../y" } })).unwrap_err();
            assert_eq!(hostile, (step, "invalid iqn of the volume: \"iqn.x/../y\"".to_owned()));
            let nothing = disk(json!({ "volumeMode": mode, "iscsi": null, "fc": {} })).unwrap_err();
            assert_eq!(nothing.1, "fc: no fc disk information found. failed to make a new mounter");
        }
    }

    /// VOL-48.
    #[test]
    fn mount_options_are_for_kinds_that_are_mounted() {
        let annotated = json!({ "metadata": { "annotations": { MOUNT_OPTIONS: "hard,nfsvers=4.1" } } });
        let options = json!({ "spec": { "mountOptions": ["noexec"] } });
        let host = json!({ "spec": { "local": null, "hostPath": { "path": "/x" } } });
        let nfs = json!({ "spec": { "local": null, "nfs": { "server": "s", "path": "/x" } } });
        let both = |mut one: Value, other: &Value| {
            merge(&mut one, other.clone());
            one
        };
        let refused = resolved(both(host.clone(), &options), None).unwrap_err();
        assert_eq!(refused.0, VolumeStep::MountOptions);
        assert_eq!(refused.1, "mount options are not supported for this volume type");
        let SetUp::Local(order) = resolved(options.clone(), None).unwrap().set_up else { panic!("local") };
        assert_eq!(order.options, ["noexec"]);
        let none = json!({ "metadata": { "annotations": { MOUNT_OPTIONS: "" } } });
        assert!(resolved(both(host, &none), None).is_ok(), "an empty annotation is no option");
        let nfs = both(nfs, &both(options, &annotated));
        let found = resolve(&volume(nfs), &pod(), &PodUid::from("pod-1"), true, None).unwrap();
        assert_eq!(found.place.unwrap().plugin, plugin::NFS);
        let options = vec!["hard".to_owned(), "nfsvers=4.1".to_owned(), "ro".to_owned()];
        assert_eq!(found.set_up, SetUp::Nfs { source: "s:/x".into(), options }, "the annotation goes first");
    }

    #[test]
    fn a_device_is_mapped_only_of_a_local_volume() {
        let block = json!({ "spec": { "volumeMode": "Block", "accessModes": ["ReadWriteOncePod"] } });
        let found = resolved(block.clone(), None).unwrap();
        assert_eq!(found.set_up, SetUp::Device { source: "/mnt/disk".into(), exclusive: true });
        assert!(found.place.unwrap().is_device);
        let mut host = block;
        merge(&mut host, json!({ "spec": { "local": null, "hostPath": { "path": "/dev/sda" } } }));
        let (step, _) = resolved(host, None).unwrap_err();
        assert_eq!(step, VolumeStep::FindMapper);
    }
}
