//! ConfigMaps, Secrets, tokens and services in containers.

use podwright::cri::{PodSandboxFilter, RuntimeService};
use serde_json::{Value, json};

use super::Cluster;
use crate::node::cgroups;
use crate::pods::{forever, pod, with};

fn config_map(name: &str, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "default" }, "data": data })
}

fn secret(name: &str, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "default" }, "stringData": data })
}

/// VOL-17, VOL-23, VOL-24, VOL-25, CRI-13, VOL-26, VOL-27, VOL-33, VOL-50, SEC-06, SEC-40, SEC-50.
#[test]
fn containers_see_objects_and_what_becomes_of_them() {
    let Some(mut cluster) = Cluster::new() else { return };
    // Nothing but a change that is heard of leads to new files within the test's patience.
    cluster.configure(json!({ "syncFrequency": "1h" }));
    cluster.start_agent();
    cluster.wait_ready();
    cluster.apply_object(&config_map("settings", json!({ "colour": "red", "shape": "round" })));
    cluster.apply_object(&secret("login", json!({ "user": "me", "password": "geheim" })));
    let container = with(
        forever("main"),
        json!({
            "envFrom": [{ "prefix": "CM_", "configMapRef": { "name": "settings" } },
                        { "secretRef": { "name": "absent", "optional": true } }],
            "env": [{ "name": "PASSWORD", "valueFrom": { "secretKeyRef": { "name": "login", "key": "password" } } }],
            "volumeMounts": [
                { "name": "settings", "mountPath": "/settings" },
                { "name": "settings", "mountPath": "/one", "subPath": "colour" },
                { "name": "login", "mountPath": "/login" },
                { "name": "later", "mountPath": "/later" },
                { "name": "all", "mountPath": "/all" },
            ],
        }),
    );
    let volumes = json!([
        { "name": "settings", "configMap": { "name": "settings" } },
        { "name": "login", "secret": { "secretName": "login", "defaultMode": 0o400, "items": [{ "key": "user", "path": "deep/name" }] } },
        { "name": "later", "configMap": { "name": "later", "optional": true } },
        { "name": "all", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token", "expirationSeconds": 600, "audience": "someone" } },
            { "secret": { "name": "login", "items": [{ "key": "password", "path": "password" }] } },
            { "configMap": { "name": "settings", "items": [{ "key": "shape", "path": "shape" }] } },
            { "downwardAPI": { "items": [
                { "path": "name", "fieldRef": { "fieldPath": "metadata.name" } },
                { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
            ] } },
        ] } },
    ]);
    cluster.create_pod(with(pod("reader", &[container]), json!({ "spec": { "volumes": volumes } })));
    cluster.wait_pod_ready("reader");
    let main = cluster.wait_container("reader", "main");
    let read = |script: &str| cluster.run_in(&main, script);
    assert_eq!(read("echo $CM_colour $CM_shape $PASSWORD $KUBERNETES_SERVICE_PORT"), "red round geheim 443\n");
    assert_eq!(
        read("cat /settings/colour /one /login/deep/name /all/password /all/shape /all/name"),
        "redredmegeheimroundreader"
    );
    assert_eq!(read("ls /later; stat -c %a /login/..data/deep/name"), "400\n");
    assert_eq!(read("cut -d. -f1 /all/token | tr -d '\\n' | wc -c | awk '{ print ($1 > 20) }'"), "1\n");
    assert!(read("cat /var/run/secrets/kubernetes.io/serviceaccount/ca.crt").contains("BEGIN CERTIFICATE"));
    assert!(read("mount | grep -c '/login .*tmpfs\\|tmpfs on /login'").starts_with('1'), "secrets stay out of disks");
    // Changes follow; what is mounted by a path of its own does not (VOL-33).
    cluster.apply_object(&config_map("settings", json!({ "colour": "blue", "shape": "square", "new": "1" })));
    cluster.apply_object(&config_map("later", json!({ "there": "now" })));
    cluster.eventually("the new colour", || (read("cat /settings/colour") == "blue").then_some(()));
    cluster.eventually("the later object", || (read("cat /later/there 2>/dev/null || true") == "now").then_some(()));
    cluster.eventually("the new shape", || (read("cat /all/shape /settings/new") == "square1").then_some(()));
    assert_eq!(read("cat /one"), "red");
    cluster.kubectl(&["label", "pod", "reader", "mood=green"]);
    cluster.eventually("the new label", || read("cat /all/labels").contains("mood=\"green\"").then_some(()));
    cluster.kubectl(&["delete", "pod", "reader", "--timeout=180s"]);
    assert!(!cluster.log().contains("geheim"), "a secret is not for logs");
}

/// VOL-13, PAIN-20, VOL-03, PAIN-21: a pod whose objects are missing waits, says for what, and runs once they come.
#[test]
fn a_pod_waits_for_its_objects_and_says_so() {
    let Some(cluster) = Cluster::joined() else { return };
    let container = with(
        forever("main"),
        json!({ "env": [{ "name": "KEY", "valueFrom": { "configMapKeyRef": { "name": "soon", "key": "key" } } }] }),
    );
    cluster.create_pod(pod("variable", &[container]));
    let mounting = with(forever("main"), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
    let volumes = json!({ "spec": { "volumes": [{ "name": "v", "secret": { "secretName": "soon" } }] } });
    cluster.create_pod(with(pod("volume", &[mounting]), volumes));
    cluster.wait_event_saying(
        "volume",
        "FailedMount",
        "MountVolume.SetUp failed for volume \"v\" : secret \"soon\" not found",
    );
    // The pod itself says so, too, for whoever looks at it later (PAIN-20).
    let says = |pod: &Value, what: &str| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["message"].as_str().is_some_and(|message| message.contains(what)))
    };
    cluster.wait("pod", "volume", "says what it waits for", |pod| {
        says(pod, "waits for its volumes: MountVolume.SetUp failed for volume \"v\" : secret \"soon\" not found")
    });
    cluster.wait("pod", "variable", "waiting for its variable", |pod| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    });
    cluster.apply_object(&config_map("soon", json!({ "key": "here" })));
    cluster.apply_object(&secret("soon", json!({ "a": "b" })));
    cluster.wait_pod_ready("variable");
    let ready = cluster.wait_pod_ready("volume");
    assert!(!says(&ready, "waits for"), "{ready:#}");
    let main = cluster.wait_container("variable", "main");
    assert_eq!(cluster.run_in(&main, "echo $KEY"), "here\n");
}

/// CRI-37: a runtime class picks the handler that makes the pod's sandbox; a class that is not there keeps the pod waiting.
#[test]
fn a_runtime_class_picks_the_handler() {
    let Some(cluster) = Cluster::joined() else { return };
    let class = |name: &str, handler: &str| json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": name }, "handler": handler });
    let of_class =
        |name: &str, class: &str| with(pod(name, &[forever("main")]), json!({ "spec": { "runtimeClassName": class } }));
    cluster.apply_object(&class("second", "other"));
    cluster.apply_object(&class("broken", "nobody-knows-it"));
    cluster.create_pod(of_class("special", "second"));
    cluster.create_pod(of_class("lost", "broken"));
    cluster.create_pod(pod("plain", &[forever("main")]));
    for (name, handler) in [("special", "other"), ("plain", "")] {
        cluster.wait_pod_ready(name);
        let main = cluster.wait_container(name, "main");
        assert_eq!(cluster.run_in(&main, "echo here"), "here\n");
        let uid = main.labels["io.kubernetes.pod.uid"].clone();
        let sandboxes = cluster.cri(async |cri| cri.list_pod_sandboxes(&PodSandboxFilter::default()).await);
        let own = sandboxes.iter().find(|one| one.metadata.uid == uid).expect("its sandbox is there");
        assert_eq!(own.runtime_handler, handler, "{name}");
        // The handlers differ in where their runtime keeps its containers.
        let kept = cluster.dir.join(if handler.is_empty() { "state/runc" } else { "state/runc-other" });
        assert!(kept.join("k8s.io").join(main.id.as_str()).exists(), "{name} is not in {}", kept.display());
    }
    cluster.wait_event_like("lost", "FailedCreatePodSandBox", |message| message.contains("nobody-knows-it"));
    cluster.kubectl(&["delete", "runtimeclass", "broken"]);
    cluster.apply_object(&class("broken", "other"));
    cluster.wait_pod_ready("lost");
}

/// CRI-07, CRI-37: what a runtime class takes for itself is the pod's, beyond what its containers may have.
#[test]
fn the_overhead_of_a_runtime_class_is_added_to_its_pods() {
    let Some(cluster) = Cluster::joined() else { return };
    let overhead = json!({ "podFixed": { "cpu": "150m", "memory": "40Mi" } });
    cluster.apply_object(&json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "heavy" },
        "handler": "other", "overhead": overhead,
    }));
    let same = json!({ "cpu": "100m", "memory": "24Mi" });
    let main = with(forever("main"), json!({ "resources": { "limits": same, "requests": same } }));
    cluster.create_pod(with(pod("large", &[main]), json!({ "spec": { "runtimeClassName": "heavy" } })));
    cluster.wait_pod_ready("large");
    let main = cluster.wait_container("large", "main");
    let uid = &main.labels["io.kubernetes.pod.uid"];
    let limits = |path: &str| (cgroups::quota(&cluster, path).0, cgroups::memory(&cluster, path));
    assert_eq!(limits(&format!("/kubepods/pod{uid}")), ("25000".into(), Some(64 << 20)));
    assert_eq!(limits(&format!("/kubepods/pod{uid}/{}", main.id)), ("10000".into(), Some(24 << 20)));
}
