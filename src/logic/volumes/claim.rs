//! From a claim to the volume behind it (VOL-07, VOL-08): what must hold before a pod may have it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};

use super::order::{ChangePolicy, HostPathKind, Ownership, SetUp, VolumePlace, plugin};
use super::plan::{mounting_containers, readers};
use crate::logic::ids::PodUid;

/// The finalizer that keeps a claim while pods use it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The name of the volume that a claim is bound to, if the pod may have it.
///
/// # Errors
/// Why not, in upstream's words.
pub fn bound_volume(claim: &PersistentVolumeClaim, pod: &Pod, owned: bool) -> Result<String, String> {
    let metadata = &claim.metadata;
    if owned && !is_owner(pod, claim) {
        let named = |name: &Option<String>| name.clone().unwrap_or_default();
        return Err(format!(
            "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
            named(&metadata.namespace),
            named(&metadata.name),
            named(&pod.metadata.namespace),
            named(&pod.metadata.name)
        ));
    }
    let protected = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == PROTECTION);
    if metadata.deletion_timestamp.is_some() && !protected {
        return Err("PVC is being deleted".to_owned());
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Err("PVC is not bound".to_owned());
    }
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default();
    if name.is_empty() { Err("PVC has empty pvc.Spec.VolumeName".to_owned()) } else { Ok(name) }
}

fn is_owner(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// Checks that the volume is the claim's, and that the pod uses it as what it is. `name` is its name in the pod.
///
/// # Errors
/// Why not, in upstream's words.
pub fn check_volume(
    name: &str,
    pod: &Pod,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), String> {
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
    let mode = spec.and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem");
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
    /// What is to be done.
    pub set_up: SetUp,
}

/// Names the group that a persistent volume's files are meant for; containers get it as a supplemental one.
const GROUP: &str = "pv.beta.kubernetes.io/gid";

/// The group that the volume's files are meant for.
pub fn volume_group(volume: &PersistentVolume) -> Option<i64> {
    volume.metadata.annotations.as_ref()?.get(GROUP)?.parse().ok().filter(|group| *group >= 0)
}

/// What the host is to do for a persistent volume.
///
/// # Errors
/// The name of a kind that this version does not mount.
pub fn resolve(volume: &PersistentVolume, pod: &Pod, uid: &PodUid, read_only: bool) -> Result<Resolved, String> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let spec = volume.spec.as_ref().ok_or("the persistent volume has no spec")?;
    let no_parents = |path: &str| match path.split('/').any(|part| part == "..") {
        true => Err("path must not contain '..'".to_owned()),
        false => Ok(()),
    };
    if let Some(source) = &spec.host_path {
        no_parents(&source.path)?;
        let kind = HostPathKind::parse(source.type_.as_deref().unwrap_or_default())?;
        let set_up = SetUp::HostPath { path: source.path.clone(), kind };
        return Ok(Resolved { place: None, host_path: Some(source.path.clone()), set_up });
    }
    if let Some(source) = &spec.local {
        no_parents(&source.path)?;
        let place = VolumePlace { uid: uid.clone(), plugin: plugin::LOCAL.to_owned(), name };
        let ownership = Ownership { fs_group: readers(pod).fs_group, policy: change_policy(pod), read_only };
        let set_up = SetUp::Bind { source: source.path.clone(), read_only, ownership };
        return Ok(Resolved { place: Some(place), host_path: None, set_up });
    }
    let kind = [(spec.csi.is_some(), "csi"), (spec.nfs.is_some(), "nfs"), (spec.iscsi.is_some(), "iscsi")];
    let kind = kind.iter().find(|(given, _)| *given).map_or("its kind", |(_, kind)| kind);
    Err(format!("no volume plugin matched: {kind} is not mounted by this version"))
}

fn change_policy(pod: &Pod) -> ChangePolicy {
    let security = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    match security.and_then(|security| security.fs_group_change_policy.as_deref()) {
        Some("OnRootMismatch") => ChangePolicy::OnRootMismatch,
        _ => ChangePolicy::Always,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
            (json!({}), false, Ok("pv-1")),
            (kept, false, Ok("pv-1")),
            (deleted, false, Err("PVC is being deleted")),
            (json!({ "status": { "phase": "Pending" } }), false, Err("PVC is not bound")),
            (json!({ "spec": { "volumeName": "" } }), false, Err("PVC has empty pvc.Spec.VolumeName")),
            (json!({}), true, Err(not_owner)),
            (owner("pod-2"), true, Err(not_owner)),
            (owner("pod-1"), true, Ok("pv-1")),
        ];
        for (change, owned, expected) in cases {
            let found = bound_volume(&claim(change.clone()), &pod(), owned);
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{change}");
        }
    }

    #[test]
    fn a_volume_must_be_the_claims_and_of_the_right_mode() {
        let check = |change| check_volume("v", &pod(), &claim(json!({})), &volume(change));
        assert_eq!(check(json!({})), Ok(()));
        assert!(check(json!({ "spec": { "claimRef": null } })).unwrap_err().contains("nil pv.Spec.ClaimRef"));
        let other = check(json!({ "spec": { "claimRef": { "uid": "claim-2" } } })).unwrap_err();
        assert!(other.ends_with("pv.Spec.ClaimRef.UID claim-2 does not point to claim.UID claim-1"), "{other}");
        let block = check(json!({ "spec": { "volumeMode": "Block" } }));
        assert_eq!(block, Err("volume v has volumeMode Block, but is specified in volumeMounts".into()));
    }

    #[test]
    fn local_volumes_are_bound_and_paths_of_the_host_checked() {
        let uid = PodUid::from("pod-1");
        let local = resolve(&volume(json!({})), &pod(), &uid, true).unwrap();
        assert_eq!(local.place.unwrap().to_string(), "pod-1/kubernetes.io~local-volume/pv-1");
        let ownership = Ownership { fs_group: Some(5), policy: ChangePolicy::OnRootMismatch, read_only: true };
        assert_eq!(local.set_up, SetUp::Bind { source: "/mnt/disk".into(), read_only: true, ownership });
        let host = json!({ "spec": { "local": null, "hostPath": { "path": "/data", "type": "Directory" } } });
        let host = resolve(&volume(host), &pod(), &uid, false).unwrap();
        assert_eq!((host.place, host.host_path.as_deref()), (None, Some("/data")));
        let csi = json!({ "spec": { "local": null, "csi": { "driver": "d", "volumeHandle": "h" } } });
        let refused = resolve(&volume(csi), &pod(), &uid, false).unwrap_err();
        assert_eq!(refused, "no volume plugin matched: csi is not mounted by this version");
        assert!(resolve(&volume(json!({ "spec": { "local": { "path": "/a/../b" } } })), &pod(), &uid, false).is_err());
    }
}
