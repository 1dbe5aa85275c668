//! In-place resize of pods, as `kubectl patch --subresource resize` asks for it and as the kernel then has it.

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{condition, container_status};
use crate::node::cgroups;
use crate::pods::{forever, pod, shell, then_forever, with};

fn sized(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": cpu, "memory": memory }, "limits": { "cpu": cpu, "memory": memory } })
}

fn resize(cluster: &Cluster, name: &str, resources: &Value) {
    let patch = json!({ "spec": { "containers": [{ "name": "main", "resources": resources }] } }).to_string();
    cluster.kubectl(&["patch", "pod", name, "--subresource", "resize", "-p", &patch]);
}

/// Quota in µs and memory limit in bytes, as the kernel has them.
fn limits(cluster: &Cluster, path: &str) -> (String, String) {
    let memory = cgroups::memory(cluster, path).expect("the memory has a limit");
    (cgroups::quota(cluster, path).0, memory.to_string())
}

fn shares(cluster: &Cluster, path: &str) -> Option<String> {
    // The weights of version 2 are the runtime's own choice.
    (cluster.named("CGROUP_VERSION") == "1").then(|| cgroups::shares(cluster, path))
}

fn events(cluster: &Cluster, name: &str, reason: &str) -> usize {
    let of = format!("involvedObject.name={name},reason={reason}");
    let list: Value =
        serde_json::from_str(&cluster.kubectl(&["get", "events", "--field-selector", &of, "-o", "json"])).unwrap();
    list["items"].as_array().map_or(0, Vec::len)
}

/// POD-26, CRI-35, RES-55, RES-57.
#[test]
fn a_running_container_is_resized_in_place() {
    let Some(mut cluster) = Cluster::joined() else { return };
    let main = with(forever("main"), json!({ "resources": sized("100m", "64Mi") }));
    cluster.create_pod(pod("web", &[main]));
    cluster.wait_pod_ready("web");
    let before = cluster.wait_container("web", "main");
    let of_pod = format!("/kubepods/pod{}", before.labels["io.kubernetes.pod.uid"]);
    let of_main = format!("{of_pod}/{}", before.id);
    assert_eq!(limits(&cluster, &of_main), ("10000".to_owned(), (64 << 20).to_string()));

    resize(&cluster, "web", &sized("200m", "128Mi"));
    let shown = cluster.wait("pod", "web", "resized", |pod| {
        container_status(pod, "main")["resources"] == sized("200m", "128Mi")
            && condition(pod, "PodResizeInProgress") == "absent"
            && condition(pod, "PodResizePending") == "absent"
    });
    assert_eq!(container_status(&shown, "main")["allocatedResources"], sized("200m", "128Mi")["requests"]);
    assert_eq!(container_status(&shown, "main")["restartCount"], 0);
    for path in [&of_main, &of_pod] {
        assert_eq!(limits(&cluster, path), ("20000".to_owned(), (128 << 20).to_string()), "{path}");
        assert!(shares(&cluster, path).is_none_or(|shares| shares == "204"), "{path}");
    }
    assert_eq!(cluster.wait_container("web", "main").id, before.id, "the very same container");
    let started = cluster.wait_event("web", "ResizeStarted");
    assert!(started.starts_with("Pod resize started: {\"containers\":[{\"name\":\"main\""), "{started}");
    cluster.wait_event("web", "ResizeCompleted");

    // And back, which the kernel allows only because so little is used.
    resize(&cluster, "web", &sized("100m", "32Mi"));
    cluster.wait("pod", "web", "made smaller", |pod| {
        container_status(pod, "main")["resources"] == sized("100m", "32Mi")
            && condition(pod, "PodResizeInProgress") == "absent"
    });
    for path in [&of_main, &of_pod] {
        assert_eq!(limits(&cluster, path), ("10000".to_owned(), (32 << 20).to_string()), "{path}");
    }
    // A restart of the agent changes nothing of it.
    cluster.kill_agent();
    cluster.start_agent();
    cluster.create_pod(pod("later", &[forever("main")]));
    cluster.wait_pod_ready("later");
    assert_eq!(cluster.wait_container("web", "main").id, before.id);
    assert_eq!(limits(&cluster, &of_main), ("10000".to_owned(), (32 << 20).to_string()));
}

/// POD-26: a policy that asks for it has the container restarted, once.
#[test]
fn a_resize_policy_restarts_its_container() {
    let Some(cluster) = Cluster::joined() else { return };
    let policy = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
    let main = with(forever("main"), json!({ "resources": sized("100m", "64Mi"), "resizePolicy": policy }));
    cluster.create_pod(pod("web", &[main]));
    cluster.wait_pod_ready("web");
    let before = cluster.wait_container("web", "main");
    resize(&cluster, "web", &sized("100m", "96Mi"));
    let shown = cluster.wait("pod", "web", "restarted", |pod| {
        let status = container_status(pod, "main");
        status["restartCount"] == 1 && status["resources"] == sized("100m", "96Mi") && status["ready"] == true
    });
    assert_eq!(condition(&shown, "PodResizePending"), "absent");
    let after = cluster.wait_container("web", "main");
    assert_ne!(after.id, before.id);
    let of_pod = format!("/kubepods/pod{}", before.labels["io.kubernetes.pod.uid"]);
    assert_eq!(limits(&cluster, &format!("{of_pod}/{}", after.id)).1, (96 << 20).to_string());
    assert_eq!(limits(&cluster, &of_pod).1, (96 << 20).to_string());
    let said = cluster.wait_event("web", "Killing");
    assert_eq!(said, "Container main resize requires restart");
}

/// RES-56: what finds no room waits and says so; as soon as another pod is gone, it is made.
#[test]
fn a_resize_without_room_waits_for_another_pods_end() {
    let Some(cluster) = Cluster::joined() else { return };
    let node = cluster.find("node", crate::harness::NODE_NAME).expect("it is there");
    let cpus = node["status"]["allocatable"]["cpu"].as_str().expect("a quantity").to_owned();
    let milli = cpus
        .strip_suffix('m')
        .map_or_else(|| cpus.parse::<u64>().expect("a number") * 1000, |milli| milli.parse().expect("a number"));
    let asks = |milli: u64| json!({ "requests": { "cpu": format!("{milli}m") } });
    cluster.create_pod(pod("large", &[with(forever("main"), json!({ "resources": asks(milli - 500) }))]));
    cluster.create_pod(pod("web", &[with(forever("main"), json!({ "resources": asks(100) }))]));
    for name in ["large", "web"] {
        cluster.wait_pod_ready(name);
    }
    let before = cluster.wait_container("web", "main");
    resize(&cluster, "web", &asks(1000));
    let shown = cluster.wait("pod", "web", "waiting", |pod| condition(pod, "PodResizePending") == "True");
    let told = shown["status"]["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .find(|one| one["type"] == "PodResizePending");
    let told = told.expect("it is there");
    assert_eq!(told["reason"], "Deferred");
    assert_eq!(told["observedGeneration"], shown["metadata"]["generation"]);
    assert!(told["message"].as_str().is_some_and(|text| text.starts_with("Node didn't have enough resource: cpu")));
    assert_eq!(container_status(&shown, "main")["allocatedResources"]["cpu"], "100m");
    cluster.wait_event("web", "ResizeDeferred");
    cluster.kubectl(&["delete", "pod", "large", "--timeout=180s"]);
    cluster.wait("pod", "web", "resized", |pod| {
        container_status(pod, "main")["resources"]["requests"]["cpu"] == "1"
            && condition(pod, "PodResizePending") == "absent"
    });
    assert_eq!(cluster.wait_container("web", "main").id, before.id);
    assert_eq!(events(&cluster, "web", "ResizeDeferred"), 1);
}

/// RES-58: memory that is used is not taken away; the pod says so, and what is asked comes about once it is free.
#[test]
fn memory_in_use_is_not_taken_away() {
    let Some(cluster) = Cluster::joined() else { return };
    // The shell keeps what it has read until the file is gone.
    let greedy = then_forever("x=$(head -c 50000000 /dev/zero | tr '\\0' 'a')");
    let main = with(shell("main", &greedy), json!({ "resources": sized("500m", "256Mi") }));
    cluster.create_pod(pod("greedy", &[main]));
    cluster.wait_pod_ready("greedy");
    let running = cluster.wait_container("greedy", "main");
    let path = format!("/kubepods/pod{}/{}", running.labels["io.kubernetes.pod.uid"], running.id);
    cluster.eventually("it uses its memory", || (cgroups::memory_used(&cluster, &path) > 45_000_000).then_some(()));
    resize(&cluster, "greedy", &sized("500m", "16Mi"));
    let shown = cluster.wait("pod", "greedy", "told why", |pod| {
        let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["type"] == "PodResizeInProgress" && one["reason"] == "Error")
    });
    assert_eq!(container_status(&shown, "main")["restartCount"], 0);
    cluster.wait_event_like("greedy", "ResizeError", |message| message.contains("cannot decrease memory limits"));
    assert_eq!(limits(&cluster, &path).1, (256 << 20).to_string());
    resize(&cluster, "greedy", &sized("500m", "192Mi"));
    cluster.wait("pod", "greedy", "resized", |pod| {
        container_status(pod, "main")["resources"]["limits"]["memory"] == "192Mi"
            && condition(pod, "PodResizeInProgress") == "absent"
    });
    assert_eq!(limits(&cluster, &path).1, (192 << 20).to_string());
}

fn resize_part(cluster: &Cluster, name: &str, part: Value) {
    let patch = json!({ "spec": part }).to_string();
    cluster.kubectl(&["patch", "pod", name, "--subresource", "resize", "-p", &patch]);
}

fn is_settled(pod: &Value) -> bool {
    condition(pod, "PodResizeInProgress") == "absent" && condition(pod, "PodResizePending") == "absent"
}

/// POD-21, POD-26, CRI-35: a sidecar is resized while it runs; one whose policy asks for it is made anew, alone.
#[test]
fn a_sidecar_is_resized_in_place() {
    let Some(cluster) = Cluster::joined() else { return };
    let policy = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
    let side = |name: &str, more: Value| {
        with(with(forever(name), json!({ "restartPolicy": "Always", "resources": sized("100m", "32Mi") })), more)
    };
    let sidecars = [side("side", json!({})), side("anew", json!({ "resizePolicy": policy }))];
    let main = with(forever("main"), json!({ "resources": sized("100m", "32Mi") }));
    cluster.create_pod(with(pod("web", &[main]), json!({ "spec": { "initContainers": sidecars } })));
    cluster.wait_pod_ready("web");
    let before = ["side", "anew", "main"].map(|name| cluster.wait_container("web", name));
    let of_pod = format!("/kubepods/pod{}", before[0].labels["io.kubernetes.pod.uid"]);
    assert_eq!(limits(&cluster, &of_pod), ("30000".to_owned(), (96 << 20).to_string()));
    let new = |name: &str| json!({ "name": name, "resources": sized("200m", "64Mi") });
    resize_part(&cluster, "web", json!({ "initContainers": [new("side"), new("anew")] }));
    let shown = cluster.wait("pod", "web", "resized", |pod| {
        ["side", "anew"].iter().all(|name| container_status(pod, name)["resources"] == sized("200m", "64Mi"))
            && container_status(pod, "anew")["restartCount"] == 1
            && is_settled(pod)
    });
    assert_eq!(container_status(&shown, "side")["allocatedResources"], sized("200m", "64Mi")["requests"]);
    for (name, expected) in [("side", 0), ("main", 0), ("anew", 1)] {
        assert_eq!(container_status(&shown, name)["restartCount"], expected, "{name}");
    }
    let after = ["side", "anew", "main"].map(|name| cluster.wait_container("web", name));
    assert_eq!((&after[0].id, &after[2].id), (&before[0].id, &before[2].id), "the very same containers");
    assert_ne!(after[1].id, before[1].id);
    for one in &after[..2] {
        let expected = ("20000".to_owned(), (64 << 20).to_string());
        assert_eq!(limits(&cluster, &format!("{of_pod}/{}", one.id)), expected, "{}", one.metadata.name);
    }
    assert_eq!(limits(&cluster, &of_pod), ("50000".to_owned(), (160 << 20).to_string()));
}

/// POD-26, RES-57: a pod that has resources as a whole gets others, and its containers without limits of their own with it.
#[test]
fn a_whole_pod_is_resized_in_place() {
    let Some(cluster) = Cluster::joined() else { return };
    let own = with(forever("own"), json!({ "resources": sized("50m", "16Mi") }));
    let whole = json!({ "spec": { "resources": sized("200m", "64Mi") } });
    cluster.create_pod(with(pod("web", &[forever("main"), own]), whole));
    cluster.wait_pod_ready("web");
    let before = ["main", "own"].map(|name| cluster.wait_container("web", name));
    let of_pod = format!("/kubepods/pod{}", before[0].labels["io.kubernetes.pod.uid"]);
    for (cpu, memory, quota, bytes) in [("400m", "128Mi", "40000", 128 << 20), ("100m", "48Mi", "10000", 48 << 20)] {
        resize_part(&cluster, "web", json!({ "resources": sized(cpu, memory) }));
        let shown = cluster
            .wait("pod", "web", "resized", |pod| pod["status"]["resources"] == sized(cpu, memory) && is_settled(pod));
        assert_eq!(shown["status"]["allocatedResources"], sized(cpu, memory)["requests"]);
        let expected = (quota.to_owned(), i64::to_string(&bytes));
        assert_eq!(limits(&cluster, &of_pod), expected);
        assert_eq!(limits(&cluster, &format!("{of_pod}/{}", before[0].id)), expected, "it has the pod's");
        let own = limits(&cluster, &format!("{of_pod}/{}", before[1].id));
        assert_eq!(own, ("5000".to_owned(), (16 << 20).to_string()), "it has its own");
    }
    let after = ["main", "own"].map(|name| cluster.wait_container("web", name).id);
    assert_eq!(after, before.map(|one| one.id));
    cluster.wait_event("web", "ResizeCompleted");
}
