//! A driver's volumes as devices.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{claimed_with, mounts, registered};
use crate::cluster::Cluster;
use crate::harness::NODE_NAME;
use crate::pods::{forever, pod, with};

/// A pod that has the claim `raw` as a device.
fn user(name: &str, read_only: bool) -> Value {
    let device = json!({ "volumeDevices": [{ "name": "raw", "devicePath": "/dev/xvda" }] });
    let source = json!({ "claimName": "raw", "readOnly": read_only });
    let volumes = json!({ "spec": { "volumes": [{ "name": "raw", "persistentVolumeClaim": source }] } });
    with(pod(name, &[with(forever("main"), device)]), volumes)
}

/// Names of loop devices whose files are below the cluster's directory.
fn loops(cluster: &Cluster) -> Vec<String> {
    let listed = Command::new("losetup").args(["-l", "-n", "-O", "NAME,BACK-FILE"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let directory = cluster.dir.to_string_lossy().into_owned();
    listed.lines().filter(|line| line.contains(&directory)).map(str::to_owned).collect()
}

/// VOL-13, VOL-47, CRI-12: written by one pod and read by another, while the agent is killed in between; nothing is left.
#[test]
fn a_drivers_device_is_mapped_for_pods_and_goes_with_the_last() {
    let Some(mut cluster) = Cluster::joined_alone() else { return };
    let (driver, _serving) = registered(&cluster, json!({ "attachRequired": false }));
    driver.switches().disk_bytes = Some(16 << 20);
    claimed_with(&cluster, "raw", "h-1", "16Mi", json!({ "volumeMode": "Block" }));
    cluster.create_pod(user("writer", false));
    cluster.wait_pod_ready("writer");
    let writer = cluster.wait_container("writer", "main");
    let script = "test -b /dev/xvda && echo written > /dev/xvda && sync && head -c 7 /dev/xvda";
    assert_eq!(cluster.run_in(&writer, script), "written");
    let root = cluster.dir.join("kubelet");
    let devices = root.join("plugins/kubernetes.io/csi/volumeDevices");
    let uid = cluster.find("pod", "writer").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let of_node = format!("globalMapPath {:?}", devices.join("raw/dev"));
    let of_pod = format!("volumeMapPath {:?}", root.join(format!("pods/{uid}/volumeDevices/kubernetes.io~csi")));
    for path in [of_node, of_pod] {
        let told = format!("MapVolume.MapPodDevice succeeded for volume \"raw\" {path}");
        cluster.wait_event_saying("writer", "SuccessfulMountVolume", &told);
    }
    let staged = driver.seen().staged.unwrap();
    assert_eq!(staged.staging_target_path, devices.join("staging/raw").display().to_string());
    let data: Value = serde_json::from_slice(&fs::read(devices.join("raw/data/vol_data.json")).unwrap()).unwrap();
    assert_eq!((&data["specVolID"], &data["nodeName"]), (&json!("raw"), &json!(NODE_NAME)));

    cluster.kill_agent();
    cluster.start_agent();
    cluster.wait_ready();
    cluster.eventually("the driver is registered again", || (driver.seen().verdicts.len() >= 2).then_some(()));
    assert_eq!(cluster.wait_container("writer", "main").id, writer.id, "nothing is touched");
    cluster.create_pod(user("reader", true));
    cluster.wait_pod_ready("reader");
    let reader = cluster.wait_container("reader", "main");
    assert_eq!(cluster.run_in(&reader, "head -c 7 /dev/xvda"), "written");
    assert_eq!(cluster.run_in(&reader, "(echo no > /dev/xvda) 2> /dev/null || echo refused"), "refused\n");
    cluster.kubectl(&["delete", "pod", "writer", "--timeout=240s"]);
    assert!(!driver.calls().iter().any(|call| call.starts_with("NodeUnstage")), "another pod has it");
    cluster.kubectl(&["delete", "pod", "reader", "--timeout=240s"]);
    cluster.eventually("it is unstaged", || {
        driver.calls().iter().any(|call| call == "NodeUnstageVolume h-1").then_some(())
    });
    cluster.eventually_none("mounts", || mounts(&cluster));
    cluster.eventually_none("loop devices", || loops(&cluster));
    cluster.eventually("its folder goes", || (!devices.join("raw").exists()).then_some(()));
    for folder in ["staging", "publish"] {
        assert_eq!(fs::read_dir(devices.join(folder)).unwrap().count(), 0, "{folder}");
    }
    assert_eq!(fs::read(driver.image("h-1")).unwrap()[..7], *b"written");
    cluster.assert_nothing_was_forbidden();
}
