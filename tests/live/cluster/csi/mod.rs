//! CSI drivers: one of our own, registered as drivers are, with volumes of claims and of pods.

mod block;
mod figures;
mod growing;

use std::fs;

use podwright::platform::network::tls::sha256_hex;
use podwright::testing::csi_driver::{Driver, Serving};
use serde_json::{Value, json};

use super::Cluster;
use crate::harness::NODE_NAME;
use crate::pods::{pod, shell, then_forever, with};

/// The driver's name.
pub const DRIVER: &str = "drv.test";

/// A driver of this name's own folder, that the cluster knows with this specification.
pub fn driver(cluster: &Cluster, spec: Value) -> Driver {
    let folder = cluster.dir.join("driver");
    fs::create_dir_all(&folder).unwrap();
    let object =
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": DRIVER }, "spec": spec });
    cluster.apply_object(&object);
    Driver::new(DRIVER, &folder)
}

/// Has a driver of this specification registered.
pub fn registered(cluster: &Cluster, spec: Value) -> (Driver, Serving) {
    let driver = driver(cluster, spec);
    let serving = driver.serve(&cluster.dir.join("kubelet/plugins_registry"));
    cluster.wait("csinode", NODE_NAME, "the driver is registered", |node| node["spec"]["drivers"][0]["name"] == DRIVER);
    (driver, serving)
}

/// The mounts of drivers below the node's root directory.
fn mounts(cluster: &Cluster) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let (root, points) = (cluster.dir.join("kubelet"), table.lines().filter_map(|line| line.split(' ').nth(4)));
    let own = points.filter(|point| point.starts_with(&*root.to_string_lossy()) && point.contains("csi"));
    own.map(str::to_owned).collect()
}

/// A claim and its volume of this size and handle; both have these words in their specifications.
fn claimed_with(cluster: &Cluster, name: &str, handle: &str, size: &str, words: Value) {
    let volume = json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name }, "spec": {
        "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "claimRef": { "namespace": "default", "name": name },
        "csi": { "driver": DRIVER, "volumeHandle": handle, "fsType": "ext4", "volumeAttributes": { "pool": "fast" } },
    } });
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
                  "resources": { "requests": { "storage": size } } } });
    for object in [volume, claim] {
        cluster.apply_object(&with(object, json!({ "spec": words })));
    }
    cluster.bind(name);
}

fn claimed(cluster: &Cluster, name: &str) {
    claimed_with(cluster, name, "h-1", "1Gi", json!({}));
}

/// Plays the driver's own attacher, and where there is no controller manager those who ask it.
fn attach(cluster: &Cluster, volume: &str) {
    let name = format!("kubernetes.io/csi/{DRIVER}^h-1");
    cluster.wait("node", NODE_NAME, "the volume is in use", |node| {
        node["status"]["volumesInUse"].as_array().is_some_and(|all| all.contains(&json!(name)))
    });
    let is_controlled = cluster.kubectl.with_file_name("kube-controller-manager").exists();
    let attachment = format!("csi-{}", sha256_hex(format!("h-1{DRIVER}{NODE_NAME}").as_bytes()));
    if !is_controlled {
        cluster.apply_object(&json!({ "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": { "name": attachment },
            "spec": { "attacher": DRIVER, "nodeName": NODE_NAME, "source": { "persistentVolumeName": volume } } }));
    }
    cluster.wait("volumeattachment", &attachment, "somebody asks for it", |_| true);
    let status = json!({ "status": { "attached": true, "attachmentMetadata": { "lun": "3" } } }).to_string();
    cluster.kubectl(&["patch", "volumeattachment", &attachment, "--subresource=status", "--type=merge", "-p", &status]);
    if !is_controlled {
        let status = json!({ "status": { "volumesAttached": [{ "name": name, "devicePath": "" }] } }).to_string();
        cluster.kubectl(&["patch", "node", NODE_NAME, "--subresource=status", "--type=merge", "-p", &status]);
    }
}

/// NODE-59, NODE-60, VOL-09, VOL-40, VOL-41, RES-47.
#[test]
fn a_drivers_volume_is_attached_staged_and_published_and_goes_with_its_pod() {
    let Some(mut cluster) = Cluster::joined_alone() else { return };
    assert!(cluster.find("csinode", NODE_NAME).is_some(), "a node that is ready has its CSINode");
    let driver = driver(&cluster, json!({ "attachRequired": true, "fsGroupPolicy": "File" }));
    driver.switches().topology.insert("topology.drv.test/zone".to_owned(), "a".to_owned());
    let _serving = driver.serve(&cluster.dir.join("kubelet/plugins_registry"));
    let csi_node = cluster
        .wait("csinode", NODE_NAME, "the driver is registered", |node| node["spec"]["drivers"][0]["name"] == DRIVER);
    assert_eq!(csi_node["spec"]["drivers"][0]["topologyKeys"], json!(["topology.drv.test/zone"]));
    let node = cluster.find("node", NODE_NAME).unwrap();
    assert_eq!(node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"], r#"{"drv.test":"node-id"}"#);
    assert_eq!(node["metadata"]["labels"]["topology.drv.test/zone"], "a");

    claimed(&cluster, "data");
    let container = with(
        shell("main", &then_forever("echo kept > /v/file")),
        json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }),
    );
    let volumes = json!({ "spec": { "securityContext": { "fsGroup": 4711 },
        "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    cluster.create_pod(with(pod("user", &[container]), volumes));
    attach(&cluster, "data");
    cluster.wait_pod_ready("user");
    let before = cluster.wait_container("user", "main");
    let file = driver.volume("h-1").join("file");
    cluster.eventually("it wrote", || file.exists().then_some(()));
    assert!(cluster.run_in(&before, "stat -c %g /v").starts_with("4711"));
    let staged = driver.seen().staged.unwrap();
    assert_eq!((&*staged.publish_context["lun"], &*staged.volume_context["pool"]), ("3", "fast"));
    assert_eq!(mounts(&cluster).len(), 2, "{:?}", mounts(&cluster));

    // The agent is away while the pod goes on, and knows again from the disk what is there.
    cluster.kill_agent();
    cluster.start_agent();
    cluster.wait_ready();
    let registered = || driver.seen().verdicts.len() >= 2;
    cluster.eventually("the driver is registered again", || registered().then_some(()));
    assert_eq!(cluster.wait_container("user", "main").id, before.id, "nothing is touched");
    cluster.kubectl(&["delete", "pod", "user", "--timeout=240s"]);
    cluster.eventually("it is unstaged", || {
        driver.calls().iter().any(|call| call == "NodeUnstageVolume h-1").then_some(())
    });
    cluster.eventually_none("mounts", || mounts(&cluster));
    let left = cluster.dir.join("kubelet/plugins/kubernetes.io/csi").join(DRIVER).join(sha256_hex(b"h-1"));
    cluster.eventually("its folder goes", || (!left.exists()).then_some(()));
    assert_eq!(fs::read_to_string(file).unwrap(), "kept\n");
    cluster.wait("node", NODE_NAME, "the volume is in use no more", |node| {
        node["status"]["volumesInUse"].as_array().is_none_or(Vec::is_empty)
    });
}

/// VOL-42, VOL-43: the pod goes while the driver is away.
#[test]
fn an_inline_volume_waits_for_its_driver_to_go() {
    let Some(cluster) = Cluster::joined_alone() else { return };
    let spec = json!({ "attachRequired": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"] });
    let driver = driver(&cluster, spec);
    let registry = cluster.dir.join("kubelet/plugins_registry");
    let serving = driver.serve(&registry);
    let container = with(
        shell("main", &then_forever("echo here > /v/file")),
        json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }),
    );
    let volumes = json!({ "spec": { "volumes": [{ "name": "v", "csi": { "driver": DRIVER } }] } });
    cluster.create_pod(with(pod("user", &[container]), volumes));
    cluster.wait_pod_ready("user");
    let asked = driver.seen().published.unwrap();
    assert_eq!(asked.volume_context["csi.storage.k8s.io/pod.name"], "user");
    assert_eq!(asked.volume_context["csi.storage.k8s.io/ephemeral"], "true");
    drop(serving);
    driver.forget();
    cluster.kubectl(&["delete", "pod", "user", "--wait=false"]);
    cluster.wait_for_words(&["driver name drv.test not found in the list of registered CSI drivers"]);
    assert_eq!(mounts(&cluster).len(), 1, "nothing goes without its driver");
    let _serving = driver.serve(&registry);
    cluster.wait_no("pod", "user");
    assert!(mounts(&cluster).is_empty());
    let calls = driver.calls();
    assert!(matches!(calls.as_slice(), [call] if call.starts_with("NodeUnpublishVolume csi-")), "{calls:?}");
}

/// VOL-32: a part of a driver's volume, which goes before the driver is asked to take the volume away.
#[test]
fn a_part_of_a_drivers_volume_is_mounted_and_goes_with_its_pod() {
    let Some(mut cluster) = Cluster::joined_alone() else { return };
    let (driver, _serving) = registered(&cluster, json!({ "attachRequired": false }));
    claimed(&cluster, "data");
    let mount = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/part", "subPath": "some/part" }] });
    let container = with(shell("main", &then_forever("echo kept > /part/file")), mount);
    let volumes = json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
    cluster.create_pod(with(pod("user", &[container]), volumes));
    cluster.wait_pod_ready("user");
    let main = cluster.wait_container("user", "main");
    let file = driver.volume("h-1").join("some/part/file");
    cluster.eventually("it wrote", || file.exists().then_some(()));
    assert_eq!(cluster.run_in(&main, "ls /part"), "file\n", "nothing but the part");
    cluster.kill_agent();
    cluster.start_agent();
    cluster.wait_ready();
    cluster.eventually("the driver is registered again", || (driver.seen().verdicts.len() >= 2).then_some(()));
    cluster.kubectl(&["delete", "pod", "user", "--timeout=240s"]);
    cluster.eventually_none("mounts", || mounts(&cluster));
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains("volume-subpaths") || !table.contains(&*cluster.dir.to_string_lossy()), "{table}");
    assert_eq!(fs::read_to_string(file).unwrap(), "kept\n");
}
