//! Figures of a CSI driver's volumes and of the calls to the driver. Also the refusal of a pod whose volume the node has no
//! room for.

use std::fs;

use podwright::platform::network::tls::sha256_hex;
use podwright::platform::plugins::wire::csi_v1 as csi;
use podwright::testing::csi_driver::Driver;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::harness::NODE_NAME;
use crate::pods::{pod, shell, then_forever, with};

const DRIVER: &str = "figures.test";

/// A cluster with this configuration, and a driver that the cluster knows with this specification.
fn cluster(configuration: Value, spec: Value) -> Option<(Cluster, Driver)> {
    let mut cluster = Cluster::alone()?;
    cluster.configure(configuration);
    cluster.start_agent();
    cluster.wait_ready();
    let folder = cluster.dir.join("driver");
    fs::create_dir_all(&folder).unwrap();
    let object =
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": DRIVER }, "spec": spec });
    cluster.apply_object(&object);
    let driver = Driver::new(DRIVER, &folder);
    Some((cluster, driver))
}

/// A claim of this name, bound to a volume of this source.
fn claimed(cluster: &Cluster, name: &str, source: Value) {
    let mut spec = json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "claimRef": { "namespace": "default", "name": name },
    });
    spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    cluster.apply_object(
        &json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name }, "spec": spec }),
    );
    cluster.apply_object(&json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
                  "resources": { "requests": { "storage": "1Gi" } } } }));
    cluster.bind(name);
}

fn of_driver(handle: &str) -> Value {
    json!({ "csi": { "driver": DRIVER, "volumeHandle": handle } })
}

/// A pod with the volume of a claim.
fn user(name: &str, claim: &str) -> Value {
    let mounts = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
    let container = with(shell("main", &then_forever("true")), mounts);
    let volumes = json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] } });
    with(pod(name, &[container]), volumes)
}

fn page(cluster: &Cluster, path: &str) -> String {
    cluster.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE_NAME}/proxy{path}")])
}

/// The samples of a page that begin so.
fn samples(page: &str, begin: &str) -> Vec<String> {
    page.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
}

/// VOL-49, VOL-52: two pods have one claim; the driver hangs in the end.
#[test]
fn a_drivers_figures_are_told_and_its_calls_counted() {
    let configuration = json!({ "volumeStatsAggPeriod": "1s", "featureGates": { "CSIVolumeHealth": true } });
    let Some((cluster, driver)) = cluster(configuration, json!({ "attachRequired": false })) else { return };
    driver.switches().capabilities.extend(["GET_VOLUME_STATS", "VOLUME_CONDITION"]);
    let amounts = |unit: csi::volume_usage::Unit, available, total, used| csi::VolumeUsage {
        available,
        total,
        used,
        unit: unit.into(),
    };
    driver.switches().usage = csi::NodeGetVolumeStatsResponse {
        usage: vec![
            amounts(csi::volume_usage::Unit::Bytes, 60, 100, 40),
            amounts(csi::volume_usage::Unit::Inodes, 5, 9, 4),
        ],
        volume_condition: Some(csi::VolumeCondition { abnormal: true, message: "the disk is on fire".to_owned() }),
    };
    let _serving = driver.serve(&cluster.dir.join("kubelet/plugins_registry"));
    claimed(&cluster, "data", of_driver("h-1"));
    cluster.create_pod(user("one", "data"));
    cluster.create_pod(user("two", "data"));
    cluster.wait_pod_ready("one");
    cluster.wait_pod_ready("two");

    let expected = json!({
        "availableBytes": 60, "capacityBytes": 100, "usedBytes": 40, "inodesFree": 5, "inodes": 9, "inodesUsed": 4,
        "name": "v", "pvcRef": { "name": "data", "namespace": "default" }, "volumeHealthStats": { "abnormal": true },
    });
    cluster.eventually("the summary has the driver's figures", || {
        let summary: Value = serde_json::from_str(&page(&cluster, "/stats/summary")).ok()?;
        let pods = summary["pods"].as_array()?.iter();
        let volumes = pods.flat_map(|pod| pod["volume"].as_array().cloned().unwrap_or_default());
        let of_claim = volumes.filter(|volume| volume["name"] == "v").map(|mut volume| {
            volume.as_object_mut().expect("an object").remove("time");
            volume
        });
        let found: Vec<Value> = of_claim.collect();
        (found == [expected.clone(), expected.clone()]).then_some(())
    });
    let metrics = page(&cluster, "/metrics");
    let labels = "{namespace=\"default\",persistentvolumeclaim=\"data\"}";
    for (name, value) in
        [("capacity_bytes", 100), ("available_bytes", 60), ("inodes_used", 4), ("health_status_abnormal", 1)]
    {
        let name = format!("kubelet_volume_stats_{name}");
        assert_eq!(samples(&metrics, &name), [format!("{name}{labels} {value}")], "once for both pods");
    }
    cluster.wait_event_saying("one", "VolumeConditionAbnormal", "Volume v: the disk is on fire");
    for method in ["NodeStageVolume", "NodePublishVolume", "NodeGetVolumeStats", "NodeGetInfo"] {
        let begin = format!(
            "csi_operations_seconds_count{{driver_name=\"{DRIVER}\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Node/{method}\",\
             migrated=\"false\"}} "
        );
        assert_eq!(samples(&metrics, &begin).len(), 1, "{begin}");
    }
    let mounted = format!(
        "storage_operation_duration_seconds_count{{migrated=\"false\",operation_name=\"volume_mount\",status=\"success\",\
         volume_plugin=\"kubernetes.io/csi:{DRIVER}\"}} 2"
    );
    assert!(metrics.lines().any(|line| line == mounted), "{mounted}");

    driver.switches().hangs.insert("NodeGetVolumeStats");
    driver.forget();
    cluster.eventually("the driver hangs", || {
        page(&cluster, "/stats/summary");
        driver.seen().calls.iter().any(|call| call.starts_with("NodeGetVolumeStats")).then_some(())
    });
    claimed(&cluster, "other", of_driver("h-2"));
    cluster.create_pod(user("three", "other"));
    cluster.wait_pod_ready("three");
}

/// VOL-12: the pod waits two minutes for room, as upstream's would. The Node never lists a volume that was not attached.
#[test]
fn a_pod_is_refused_when_the_node_has_no_room_for_its_volume() {
    let spec = json!({ "attachRequired": true, "nodeAllocatableUpdatePeriodSeconds": 3600 });
    let Some((cluster, driver)) = cluster(json!({}), spec) else { return };
    driver.switches().volumes_max = 7;
    let _serving = driver.serve(&cluster.dir.join("kubelet/plugins_registry"));
    let count = |wanted: i64| {
        let what = format!("the limit is {wanted}");
        cluster.wait("csinode", NODE_NAME, &what, |node| node["spec"]["drivers"][0]["allocatable"]["count"] == wanted)
    };
    count(7);
    claimed(&cluster, "data", of_driver("h-1"));
    cluster.create_pod(user("user", "data"));
    let name = format!("kubernetes.io/csi/{DRIVER}^h-1");
    cluster.wait("node", NODE_NAME, "the volume is in use", |node| {
        node["status"]["volumesInUse"].as_array().is_some_and(|all| all.contains(&json!(name)))
    });
    let attachment = format!("csi-{}", sha256_hex(format!("h-1{DRIVER}{NODE_NAME}").as_bytes()));
    let is_controlled = cluster.kubectl.with_file_name("kube-controller-manager").exists();
    if !is_controlled {
        cluster.apply_object(&json!({ "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": { "name": attachment },
            "spec": { "attacher": DRIVER, "nodeName": NODE_NAME, "source": { "persistentVolumeName": "data" } } }));
    }
    cluster.wait("volumeattachment", &attachment, "somebody asks for it", |_| true);
    driver.switches().volumes_max = 2;
    let error = json!({ "message": "no slot is left", "errorCode": 8, "time": "2026-01-01T00:00:00Z" });
    let status = json!({ "status": { "attached": false, "attachError": error } }).to_string();
    cluster.kubectl(&["patch", "volumeattachment", &attachment, "--subresource=status", "--type=merge", "-p", &status]);
    count(2);
    let refused = (0..2).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_secs(100));
        cluster.find("pod", "user").filter(|pod| pod["status"]["phase"] == "Failed")
    });
    let refused =
        refused.unwrap_or_else(|| cluster.wait("pod", "user", "refused", |pod| pod["status"]["phase"] == "Failed"));
    assert_eq!(refused["status"]["reason"], "VolumeAttachmentLimitExceeded");
    let message = refused["status"]["message"].as_str().unwrap();
    let begin =
        "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[v], unattached volumes=[v]";
    assert!(message.starts_with(begin) && message.ends_with("no slot is left"), "{message}");
    cluster.wait_event("user", "VolumeAttachmentLimitExceeded");
    let metrics = page(&cluster, "/metrics");
    let counted = "kubelet_admission_rejections_total{reason=\"VolumeAttachmentLimitExceeded\"} 1";
    assert!(metrics.lines().any(|line| line == counted), "{counted}");
}
