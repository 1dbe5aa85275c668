//! Claims: volumes that outlive pods.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::NODE_NAME;
use crate::pods::{forever, pod, shell, then_forever, with};

fn persistent_volume(name: &str, source: Value) -> Value {
    let terms =
        json!([{ "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME] }] }]);
    with(
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name }, "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "claimRef": { "namespace": "default", "name": name },
            "nodeAffinity": { "required": { "nodeSelectorTerms": terms } },
        } }),
        json!({ "spec": source }),
    )
}

fn claim(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name, "namespace": "default" },
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
                      "resources": { "requests": { "storage": "1Gi" } } } })
}

/// VOL-04, VOL-07, VOL-29, VOL-37, VOL-46.
#[test]
fn claims_keep_their_files_from_pod_to_pod() {
    let Some(cluster) = Cluster::joined() else { return };
    let (local, host) = (cluster.dir.join("local"), cluster.dir.join("host"));
    fs::create_dir_all(&local).unwrap();
    fs::create_dir_all(&host).unwrap();
    cluster.apply_object(&persistent_volume("local", json!({ "local": { "path": local } })));
    cluster.apply_object(&persistent_volume("host", json!({ "hostPath": { "path": host } })));
    for name in ["local", "host"] {
        cluster.apply_object(&claim(name));
        cluster.bind(name);
    }
    let user = |name: &str, script: &str| {
        let container = with(
            shell("main", &then_forever(script)),
            json!({ "volumeMounts": [{ "name": "l", "mountPath": "/l" }, { "name": "h", "mountPath": "/h" }] }),
        );
        let volumes = json!({ "spec": { "securityContext": { "fsGroup": 4711 }, "volumes": [
            { "name": "l", "persistentVolumeClaim": { "claimName": "local" } },
            { "name": "h", "persistentVolumeClaim": { "claimName": "host" } },
        ] } });
        cluster.create_pod(with(pod(name, &[container]), volumes));
        cluster.wait_pod_ready(name);
        cluster.wait_container(name, "main")
    };
    let first = user("first", "echo kept > /l/file; echo here > /h/file");
    cluster.eventually("it wrote", || host.join("file").exists().then_some(()));
    assert!(cluster.run_in(&first, "id").contains("4711"));
    assert!(cluster.run_in(&first, "stat -c %g /l").starts_with("4711"));
    cluster.kubectl(&["delete", "pod", "first", "--timeout=240s"]);
    assert_eq!(fs::read_to_string(local.join("file")).unwrap(), "kept\n");
    // Its administrator gives the volume more room meanwhile.
    let larger = r#"{"spec":{"capacity":{"storage":"2Gi"}}}"#;
    cluster.kubectl(&["patch", "pv", "local", "--type=merge", "-p", larger]);
    let second = user("second", "true");
    cluster.wait("pvc", "local", "of 2Gi", |claim| claim["status"]["capacity"]["storage"] == "2Gi");
    let grown = format!("MountVolume.NodeExpandVolume succeeded for volume \"local\" {NODE_NAME}");
    for object in ["second", "local"] {
        cluster.wait_event_saying(object, "FileSystemResizeSuccessful", &grown);
    }
    assert_eq!(cluster.run_in(&second, "cat /l/file /h/file"), "kept\nhere\n");
    cluster.kubectl(&["delete", "pod", "second", "--timeout=240s"]);
    assert_eq!(fs::read_to_string(host.join("file")).unwrap(), "here\n");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*cluster.dir.join("kubelet/pods").to_string_lossy()), "{mounts}");
}

/// VOL-07: a claim that is not bound keeps its pod waiting, with the reason.
#[test]
fn a_claim_that_is_not_bound_keeps_its_pod_waiting() {
    let Some(cluster) = Cluster::joined() else { return };
    cluster.apply_object(&claim("open"));
    let container =
        with(shell("main", &then_forever("")), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
    let volumes = json!({ "spec": { "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "open" } }] } });
    cluster.create_pod(with(pod("waiting", &[container]), volumes));
    cluster.wait_event_like("waiting", "FailedMount", |message| message.contains("PVC is not bound"));
    let path = cluster.dir.join("late");
    fs::create_dir_all(&path).unwrap();
    cluster.apply_object(&persistent_volume("open", json!({ "hostPath": { "path": path } })));
    cluster.bind("open");
    cluster.wait_pod_ready("waiting");
    cluster.kubectl(&["delete", "pod", "waiting", "--timeout=240s"]);
}

/// VOL-08: a volume with a claim of the pod's own; a claim of that name that is somebody else's is not used.
#[test]
fn a_volume_may_have_a_claim_of_its_pods_own() {
    let Some(cluster) = Cluster::joined() else { return };
    let template = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": { "storage": "1Gi" } },
    } });
    let user = |name: &str| {
        let script = then_forever("echo kept > /v/file");
        let container = with(shell("main", &script), json!({ "volumeMounts": [{ "name": "own", "mountPath": "/v" }] }));
        let volume = json!([{ "name": "own", "ephemeral": { "volumeClaimTemplate": template } }]);
        cluster.create_pod(with(pod(name, &[container]), json!({ "spec": { "volumes": volume } })));
    };
    for claim in ["first-own", "second-own"] {
        let path = cluster.dir.join(claim);
        fs::create_dir_all(&path).unwrap();
        cluster.apply_object(&persistent_volume(claim, json!({ "hostPath": { "path": path } })));
    }
    user("first");
    cluster.make_own_claim("first", "own", &claim("first-own"));
    cluster.bind("first-own");
    cluster.wait_pod_ready("first");
    cluster.eventually("it wrote", || cluster.dir.join("first-own/file").exists().then_some(()));

    cluster.apply_object(&claim("second-own"));
    cluster.bind("second-own");
    user("second");
    cluster.eventually("it is told why", || {
        let told = cluster.kubectl(&["get", "events", "--field-selector", "involvedObject.name=second"]);
        told.contains("PVC default/second-own was not created for pod default/second (pod is not owner)").then_some(())
    });
    for name in ["first", "second"] {
        cluster.kubectl(&["delete", "pod", name, "--timeout=180s"]);
    }
    assert!(!cluster.dir.join("second-own/file").exists());
    cluster.assert_nothing_was_forbidden();
}

/// A disk of 16 MiB: a file behind a loop device, gone when dropped.
struct Disk(String);

impl Disk {
    fn new(file: &std::path::Path) -> Self {
        fs::File::create(file).unwrap().set_len(16 << 20).unwrap();
        let output = Command::new("losetup").args(["-f", "--show"]).arg(file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// VOL-10, VOL-13, VOL-37, VOL-47, CRI-12: a disk as a device and as a file system, and for one pod alone.
#[test]
fn a_disk_is_given_to_containers_as_it_is_or_formatted() {
    let Some(cluster) = Cluster::joined() else { return };
    let (raw, formatted) = (Disk::new(&cluster.dir.join("raw")), Disk::new(&cluster.dir.join("formatted")));
    let mode = |mode: &str, access: &str| json!({ "spec": { "volumeMode": mode, "accessModes": [access] } });
    let apply = |name: &str, disk: &Disk, patch: Value| {
        cluster.apply_object(&with(persistent_volume(name, json!({ "local": { "path": disk.0 } })), patch.clone()));
        cluster.apply_object(&with(claim(name), patch));
    };
    apply("raw", &raw, mode("Block", "ReadWriteOncePod"));
    apply("formatted", &formatted, mode("Filesystem", "ReadWriteOnce"));
    let user = |name: &str| {
        let container = with(
            forever("main"),
            json!({
                "volumeDevices": [{ "name": "raw", "devicePath": "/dev/xvda" }],
                "volumeMounts": [{ "name": "formatted", "mountPath": "/data" }],
            }),
        );
        let volumes = json!({ "spec": { "volumes": [
            { "name": "raw", "persistentVolumeClaim": { "claimName": "raw" } },
            { "name": "formatted", "persistentVolumeClaim": { "claimName": "formatted" } },
        ] } });
        with(pod(name, &[container]), volumes)
    };
    cluster.create_pod(user("first"));
    cluster.wait_pod_ready("first");
    let main = cluster.wait_container("first", "main");
    let run = |script: &str| cluster.run_in(&main, script);
    assert_eq!(run("test -b /dev/xvda && echo device"), "device\n");
    assert_eq!(run("echo written > /dev/xvda && sync && head -c 7 /dev/xvda"), "written");
    assert_eq!(run("grep ' /data ' /proc/mounts | cut -d' ' -f3; echo kept > /data/file"), "ext4\n");
    let mapped = "MapVolume.MapPodDevice succeeded";
    cluster.wait_event_like("first", "SuccessfulMountVolume", |message| message.starts_with(mapped));
    // The API server lets one pod at a time have such a claim only through the scheduler, which is not asked here.
    cluster.create_pod(user("second"));
    cluster.wait_event_like("second", "FailedMapVolume", |message| message.contains("already in use by another pod"));
    cluster.kubectl(&["delete", "pod", "first", "--timeout=240s"]);
    cluster.wait_pod_ready("second");
    let second = cluster.wait_container("second", "main");
    assert_eq!(cluster.run_in(&second, "head -c 7 /dev/xvda; cat /data/file"), "writtenkept\n");
    cluster.kubectl(&["delete", "pod", "second", "--timeout=240s"]);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*cluster.dir.join("kubelet/plugins").to_string_lossy()), "{mounts}");
    assert_eq!(fs::read(cluster.dir.join("raw")).unwrap()[..7], *b"written");
}

/// VOL-13: a disk with another file system than the volume's is left as it is; the pod and the volume say so.
#[test]
fn a_disk_with_another_file_system_is_neither_mounted_nor_formatted() {
    let Some(cluster) = Cluster::joined() else { return };
    let disk = Disk::new(&cluster.dir.join("disk"));
    let made = Command::new("mkfs.ext4").args(["-q", &disk.0]).status().unwrap();
    assert!(made.success());
    let source = json!({ "local": { "path": disk.0, "fsType": "xfs" } });
    cluster.apply_object(&persistent_volume("other", source));
    cluster.apply_object(&claim("other"));
    let container = with(forever("main"), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
    let volume = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "other" } }]);
    cluster.create_pod(with(pod("user", &[container]), json!({ "spec": { "volumes": volume } })));
    let of_volume = "MountVolume failed for volume \"other\" ";
    cluster.wait_event_like("other", "FailedMountOnFilesystemMismatch", |message| message.starts_with(of_volume));
    let of_pod = "MountVolume.MountDevice failed for volume \"other\" : ";
    cluster.wait_event_like("user", "FailedMount", |message| message.starts_with(of_pod));
    let kind = Command::new("blkid").args(["-o", "value", "-s", "TYPE", &disk.0]).output().unwrap();
    assert_eq!(String::from_utf8(kind.stdout).unwrap(), "ext4\n");
    cluster.kubectl(&["delete", "pod", "user", "--timeout=240s"]);
}

/// VOL-11, VOL-48: a volume of another node, and options where there is nothing to set them on.
#[test]
fn volumes_that_do_not_fit_are_refused_with_the_reason() {
    let Some(cluster) = Cluster::joined() else { return };
    let elsewhere = json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["moon"] }] }]);
    let elsewhere = json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": elsewhere } } } });
    let path = json!({ "hostPath": { "path": "/tmp" } });
    cluster.apply_object(&with(persistent_volume("elsewhere", path.clone()), elsewhere));
    let options = json!({ "spec": { "mountOptions": ["noexec"] } });
    cluster.apply_object(&with(persistent_volume("options", path), options));
    for (name, expected) in [
        ("elsewhere", "MountVolume.NodeAffinity check failed for volume \"elsewhere\" : no matching NodeSelectorTerms"),
        (
            "options",
            "MountVolume.MountOptionSupport check failed for volume \"options\" : mount options are not supported for \
             this volume type",
        ),
    ] {
        cluster.apply_object(&claim(name));
        let container = with(forever("main"), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
        let volume = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": name } }]);
        cluster.create_pod(with(pod(name, &[container]), json!({ "spec": { "volumes": volume } })));
        // The API server may need a moment to learn whose claim it is, and refuses it until then.
        cluster.wait_event_saying(name, "FailedMount", expected);
        cluster.kubectl(&["delete", "pod", name, "--timeout=240s"]);
    }
}

/// A ConfigMap as large as the API server lets it be, of thousands of files, is written whole and changed whole.
#[test]
fn a_config_map_of_a_mebibyte_and_thousands_of_keys_is_written() {
    let Some(cluster) = Cluster::joined() else { return };
    let content = |text: &str| {
        let data: serde_json::Map<String, Value> =
            (0..5000).map(|number| (format!("key-{number:04}"), json!(text.repeat(200)))).collect();
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "big", "namespace": "default" }, "data": data })
    };
    cluster.apply_object(&content("a"));
    let container = with(forever("main"), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
    let volume = json!([{ "name": "v", "configMap": { "name": "big" } }]);
    cluster.create_pod(with(pod("reader", &[container]), json!({ "spec": { "volumes": volume } })));
    cluster.wait_pod_ready("reader");
    let main = cluster.wait_container("reader", "main");
    assert_eq!(
        cluster.run_in(&main, "ls /v | wc -l; cat /v/* | wc -c").split_whitespace().collect::<Vec<_>>(),
        ["5000", "1000000"]
    );
    cluster.apply_object(&content("b"));
    cluster.eventually("the change is seen", || {
        (cluster.run_in(&main, "head -c 1 /v/key-0000; head -c 1 /v/key-4999") == "bb").then_some(())
    });
    cluster.kubectl(&["delete", "pod", "reader", "--timeout=240s"]);
}
