//! Claims: volumes that outlive pods.

use std::fs;

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::NODE_NAME;
use crate::pods::{pod, shell, then_forever, with};

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

/// VOL-07, VOL-08, VOL-20.
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
    cluster.kubectl(&["delete", "pod", "first", "--timeout=60s"]);
    assert_eq!(fs::read_to_string(local.join("file")).unwrap(), "kept\n");
    let second = user("second", "true");
    assert_eq!(cluster.run_in(&second, "cat /l/file /h/file"), "kept\nhere\n");
    cluster.kubectl(&["delete", "pod", "second", "--timeout=60s"]);
    assert_eq!(fs::read_to_string(host.join("file")).unwrap(), "here\n");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*cluster.dir.join("kubelet/pods").to_string_lossy()), "{mounts}");
    cluster.assert_nothing_was_forbidden();
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
    assert!(cluster.wait_event("waiting", "FailedMount").contains("PVC is not bound"));
    let path = cluster.dir.join("late");
    fs::create_dir_all(&path).unwrap();
    cluster.apply_object(&persistent_volume("open", json!({ "hostPath": { "path": path } })));
    cluster.bind("open");
    cluster.wait_pod_ready("waiting");
    cluster.kubectl(&["delete", "pod", "waiting", "--timeout=60s"]);
}
