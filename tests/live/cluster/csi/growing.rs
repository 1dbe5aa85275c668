//! A driver's volumes that grow: before a pod has them, and while it does.

use serde_json::{Value, json};
use tonic::Code;

use super::{DRIVER, claimed_with, registered};
use crate::cluster::Cluster;
use crate::harness::NODE_NAME;
use crate::pods::{forever, pod, with};

/// A claim of 32 MiB that may grow, and its volume.
fn growable(cluster: &Cluster, name: &str, handle: &str, mode: &str) {
    cluster.apply_object(&json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": "grows" }, "provisioner": DRIVER, "allowVolumeExpansion": true }));
    claimed_with(cluster, name, handle, "32Mi", json!({ "storageClassName": "grows", "volumeMode": mode }));
    cluster.wait("pvc", name, "bound", |claim| claim["status"]["phase"] == "Bound");
    patch(cluster, name, "status", &json!({ "status": { "capacity": { "storage": "32Mi" } } }));
}

fn patch(cluster: &Cluster, claim: &str, part: &str, patch: &Value) {
    let mut words = vec!["patch", "pvc", claim, "--type=merge"];
    words.extend((part == "status").then_some("--subresource=status"));
    let patch = patch.to_string();
    words.extend(["-p", &*patch]);
    cluster.kubectl(&words);
}

/// Plays the claim's author and the driver's resizer: the volume is larger, and the node is to follow.
fn grow(cluster: &Cluster, name: &str, size: &str) {
    patch(cluster, name, "", &json!({ "spec": { "resources": { "requests": { "storage": size } } } }));
    let volume = json!({ "spec": { "capacity": { "storage": size } } }).to_string();
    cluster.kubectl(&["patch", "pv", name, "--type=merge", "-p", &volume]);
    let status = json!({ "status": {
        "allocatedResources": { "storage": size }, "allocatedResourceStatuses": { "storage": "NodeResizePending" },
        "conditions": [{ "type": "FileSystemResizePending", "status": "True" }],
    } });
    patch(cluster, name, "status", &status);
}

/// Waits until a claim's status has the size, and nothing of an expansion.
fn wait_grown(cluster: &Cluster, name: &str, size: &str) {
    cluster.wait("pvc", name, &format!("of {size}"), |claim| {
        let status = &claim["status"];
        status["capacity"]["storage"] == size
            && status["allocatedResourceStatuses"].is_null()
            && status["conditions"].as_array().is_none_or(Vec::is_empty)
    });
}

/// VOL-46, VOL-13: a file system and a device, grown when they are mounted and while a pod has them.
#[test]
fn a_drivers_volumes_grow_when_they_are_mounted_and_in_use() {
    let Some(cluster) = Cluster::joined_alone() else { return };
    let (driver, _serving) = registered(&cluster, json!({ "attachRequired": false }));
    driver.switches().disk_bytes = Some(32 << 20);
    driver.switches().capabilities.insert("EXPAND_VOLUME");
    growable(&cluster, "data", "h-1", "Filesystem");
    growable(&cluster, "raw", "h-2", "Block");
    let user = || {
        let uses = json!({
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            "volumeDevices": [{ "name": "raw", "devicePath": "/dev/xvda" }],
        });
        let volume = |name: &str| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } });
        let volumes = json!({ "spec": { "volumes": [volume("data"), volume("raw")] } });
        with(pod("user", &[with(forever("main"), uses)]), volumes)
    };
    grow(&cluster, "data", "64Mi");
    cluster.create_pod(user());
    cluster.wait_pod_ready("user");
    wait_grown(&cluster, "data", "64Mi");
    let main = cluster.wait_container("user", "main");
    let mebibytes =
        || -> u64 { cluster.run_in(&main, "df -m /data | tail -1 | awk '{ print $2 }'").trim().parse().unwrap() };
    assert_eq!(mebibytes(), 64);
    let told = |volume: &str| format!("MountVolume.NodeExpandVolume succeeded for volume \"{volume}\" {NODE_NAME}");
    for object in ["user", "data"] {
        cluster.wait_event_saying(object, "FileSystemResizeSuccessful", &told("data"));
    }

    let look = |number: &str| cluster.kubectl(&["annotate", "pod", "user", "--overwrite", &format!("look={number}")]);
    grow(&cluster, "data", "128Mi");
    look("1");
    wait_grown(&cluster, "data", "128Mi");
    assert_eq!(mebibytes(), 128);
    grow(&cluster, "raw", "48Mi");
    look("2");
    wait_grown(&cluster, "raw", "48Mi");
    let asked = driver.seen().expanded.unwrap();
    assert!(asked.volume_path.contains("/volumeDevices/publish/raw/"), "{}", asked.volume_path);
    assert!(asked.staging_target_path.ends_with("/volumeDevices/staging/raw"), "{}", asked.staging_target_path);
    assert_eq!(cluster.run_in(&main, "wc -c < /dev/xvda").trim(), (48 << 20).to_string());

    // A size that cannot be had is given up, so that the resizer may try another.
    driver.switches().fails.entry("NodeExpandVolume").or_default().push_back(Code::OutOfRange);
    grow(&cluster, "data", "256Mi");
    look("3");
    cluster.wait("pvc", "data", "given up", |claim| {
        let status = &claim["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_told = conditions.iter().any(|condition| {
            condition["type"] == "NodeResizeError"
                && condition["message"].as_str().is_some_and(|text| text.starts_with("failed to expand pvc with "))
        });
        status["allocatedResourceStatuses"]["storage"] == "NodeResizeInfeasible" && is_told
    });
    cluster.wait_event_like("user", "VolumeResizeFailed", |message| {
        message.starts_with("NodeExpandVolume.NodeExpandVolume failed for volume \"data\" : Expander.NodeExpand failed")
    });
    assert_eq!(mebibytes(), 128);
    cluster.kubectl(&["delete", "pod", "user", "--timeout=240s"]);
    cluster.assert_nothing_was_forbidden();
}
