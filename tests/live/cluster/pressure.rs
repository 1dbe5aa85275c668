//! Pressure of disks, inodes and processes, each to its end: a pod is evicted, the condition comes and goes, new pods are
//! refused and admitted. Disks are file systems of the test's own, mounted below the node's directory, which goes with them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{NODE_NAME, condition};
use crate::pods::{forever, pod, shell, then_forever, with};

fn evicted(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "Evicted"
}

fn message(of: &Value) -> &str {
    of["status"]["message"].as_str().unwrap_or_default()
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file system of so many MiB on this directory, whose content goes along. It is unmounted with the node.
fn mount_own(at: &Path, mib: u64, mkfs: &[&str]) {
    let (disk, aside) = (at.with_extension("disk"), at.with_extension("aside"));
    fs::File::create(&disk).and_then(|file| file.set_len(mib << 20)).expect("a file with a hole");
    let (disk, place) = (disk.to_str().expect("text"), at.to_str().expect("text"));
    run("mkfs.ext4", &[&["-q", "-m", "0"], mkfs, &[disk]].concat());
    fs::rename(at, &aside).expect("renamed");
    fs::create_dir(at).expect("made");
    run("mount", &["-o", "loop", disk, place]);
    run("cp", &["-a", &format!("{}/.", aside.display()), place]);
    fs::remove_dir_all(&aside).expect("removed");
}

/// A node whose agent has these hard thresholds.
fn with_thresholds(cluster: &mut Cluster, hard: &Value) {
    cluster.configure(json!({
        "evictionHard": hard,
        "evictionPressureTransitionPeriod": "20s",
        "nodeStatusUpdateFrequency": "1s",
        "enforceNodeAllocatable": ["none"],
    }));
    cluster.start_agent();
    cluster.wait_ready();
    cluster.create_pod(with_scratch("modest", "dd if=/dev/zero of=/scratch/file bs=1024 count=1024"));
    cluster.wait_pod_ready("modest");
}

/// A pod with a volume on the agent's disk, at `/scratch`.
fn with_scratch(name: &str, does: &str) -> Value {
    let mounts = json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] });
    let volumes = json!([{ "name": "scratch", "emptyDir": {} }]);
    with(pod(name, &[with(shell("main", &then_forever(does)), mounts)]), json!({ "spec": { "volumes": volumes } }))
}

/// This pod takes too much: it goes, the node says why, refuses another one, and recovers.
fn to_the_end(cluster: &Cluster, greedy: Value, kind: &str, low: &str, signal: &str) {
    let name = greedy["metadata"]["name"].as_str().expect("a name").to_owned();
    let (refused, later) = (format!("{name}-refused"), format!("{name}-later"));
    cluster.create_pod(greedy);
    let gone = cluster.wait("pod", &name, "evicted", evicted);
    assert!(message(&gone).starts_with(low), "{}", message(&gone));
    assert_eq!(condition(&gone, "DisruptionTarget"), "True");
    cluster.wait("node", NODE_NAME, "under pressure", |node| condition(node, kind) == "True");
    let explained = cluster.explained(&format!("default/{name}"));
    assert!(explained.contains(&format!("evicted: {signal} was ")), "{explained}");
    cluster.create_pod(pod(&refused, &[forever("main")]));
    let told = cluster.wait("pod", &refused, "refused", evicted);
    assert_eq!(message(&told), format!("Pod was rejected: The node had condition: [{kind}]. "));
    cluster.wait("node", NODE_NAME, "well again", |node| condition(node, kind) == "False");
    cluster.create_pod(pod(&later, &[forever("main")]));
    cluster.wait_pod_ready(&later);
    let modest = cluster.find("pod", "modest").expect("it is there");
    assert_eq!(modest["status"]["phase"], "Running", "one was enough: {}", message(&modest));
}

/// EVI-08, EVI-09, EVI-11, EVI-18, EVI-33, EVI-39, EVI-50: the agent's disk and the disk of images are two. Volumes count
/// on the one, writable layers on the other.
#[test]
fn evi_39_disks_apart_fill_and_recover_each_by_itself() {
    let Some(mut cluster) = Cluster::new() else { return };
    mount_own(&cluster.dir.join("kubelet"), 256, &[]);
    cluster.stop_containerd();
    mount_own(&cluster.dir.join("root"), 512, &[]);
    cluster.start_containerd();
    with_thresholds(&mut cluster, &json!({ "nodefs.available": "100Mi", "imagefs.available": "150Mi" }));
    let low = "The node was low on resource: ephemeral-storage. Threshold quantity: ";
    let fill = |path: &str, mib: u32| format!("dd if=/dev/zero of={path} bs=1048576 count={mib}");
    let volume = with_scratch("volume", &fill("/scratch/file", 200));
    to_the_end(&cluster, volume, "DiskPressure", &format!("{low}100Mi, available: "), "nodefs.available");
    let layer = with_scratch("layer", &fill("/file", 460));
    to_the_end(&cluster, layer, "DiskPressure", &format!("{low}150Mi, available: "), "imagefs.available");
}

/// EVI-08, EVI-11, EVI-18, EVI-33, EVI-50.
#[test]
fn evi_18_a_disk_without_inodes_is_relieved() {
    let Some(mut cluster) = Cluster::new() else { return };
    mount_own(&cluster.dir.join("kubelet"), 256, &["-N", "4000"]);
    with_thresholds(&mut cluster, &json!({ "nodefs.inodesFree": "1k" }));
    let litter = with_scratch("litter", "i=0; while [ $i -lt 3600 ]; do : > /scratch/$i; i=$((i+1)); done");
    let low = "The node was low on resource: inodes. Threshold quantity: 1k, available: ";
    to_the_end(&cluster, litter, "DiskPressure", low, "nodefs.inodesFree");
}

/// EVI-10, EVI-11, EVI-19, EVI-33, EVI-50.
#[test]
fn evi_19_a_fork_bomb_is_evicted() {
    let Some(mut cluster) = Cluster::joined() else { return };
    let address = format!("127.0.0.1:{}", cluster.named("READ_ONLY_PORT"));
    let left = cluster.eventually("statistics", || {
        let (_, text) = crate::harness::http_get(&address, "/stats/summary")?;
        let rlimit = &serde_json::from_str::<Value>(&text).ok()?["node"]["rlimit"];
        rlimit["maxpid"].as_u64()?.checked_sub(rlimit["curproc"].as_u64()?)
    });
    cluster.stop_agent();
    // Others on this machine start processes, too.
    with_thresholds(&mut cluster, &json!({ "pid.available": (left - 1000).to_string() }));
    let bomb = "i=0; while [ $i -lt 2500 ]; do sleep 1000 & i=$((i+1)); done";
    let bomb = with_scratch("bomb", bomb);
    to_the_end(
        &cluster,
        bomb,
        "PIDPressure",
        "The node was low on resource: pids. Threshold quantity: ",
        "pid.available",
    );
}
