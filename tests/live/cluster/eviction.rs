//! Pods that the node ends to stay alive, or because they are beyond a limit of their own.

use std::time::Duration;

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{NODE_NAME, condition, container_status};
use crate::pods::{forever, pod, shell, then_forever, with};

/// A threshold that is always met: no node has all of its memory left.
const ALL_MEMORY: &str = "99.9%";
/// One that is not met.
const LITTLE_MEMORY: &str = "20Mi";

fn evicted(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "Evicted"
}

fn message(of: &Value) -> &str {
    of["status"]["message"].as_str().unwrap_or_default()
}

/// EVI-23, EVI-24, EVI-25, EVI-26, EVI-47: the pod that wrote too much goes for good; its neighbour stays.
#[test]
fn evi_26_a_pod_beyond_the_size_of_its_volume_is_evicted() {
    let Some(mut cluster) = Cluster::new() else { return };
    cluster.configure(json!({ "volumeStatsAggPeriod": "1s" }));
    cluster.start_agent();
    cluster.wait_ready();
    let with_volume = |name: &str, kib: u32| {
        let script = then_forever(&format!("dd if=/dev/zero of=/scratch/file bs=1024 count={kib}"));
        let mounts = json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] });
        let volumes = json!([{ "name": "scratch", "emptyDir": { "sizeLimit": "2Mi" } }]);
        with(pod(name, &[with(shell("main", &script), mounts)]), json!({ "spec": { "volumes": volumes } }))
    };
    cluster.create_pod(with_volume("modest", 1024));
    cluster.create_pod(with_volume("greedy", 4096));
    let greedy = cluster.wait("pod", "greedy", "evicted", evicted);
    assert_eq!(message(&greedy), "Usage of EmptyDir volume \"scratch\" exceeds the limit \"2Mi\". ");
    assert_eq!(condition(&greedy, "DisruptionTarget"), "absent", "it is the pod's own fault");
    let state = &container_status(&greedy, "main")["state"]["terminated"];
    assert!(state["exitCode"].is_number(), "the container's own end is told: {greedy}");
    cluster.wait_event_saying("greedy", "Evicted", message(&greedy));
    let explained = cluster.explained("default/greedy");
    assert!(explained.contains("evicted for a limit of its own: Usage of EmptyDir volume"), "{explained}");
    cluster.eventually("nothing of it runs", || cluster.containers_of("greedy").is_empty().then_some(()));
    cluster.stop_agent();
    cluster.start_agent();
    cluster.wait_pod_ready("modest");
    cluster.create_pod(pod("later", &[forever("main")]));
    cluster.wait_pod_ready("later");
    assert!(cluster.find("pod", "greedy").is_some_and(|pod| evicted(&pod)), "it is not run again");
    let events = cluster.list("event");
    let about = |event: &&Value| event["reason"] == "Evicted" && event["involvedObject"]["name"] == "greedy";
    let counts: Vec<_> = events.iter().filter(about).map(|event| event["count"].as_i64()).collect();
    assert_eq!(counts, [Some(1)], "one eviction, one Event");
}

/// EVI-11, EVI-13, EVI-15, EVI-20, EVI-23, EVI-24, EVI-25, EVI-32, EVI-35, EVI-50: from the pressure to its end.
#[test]
fn evi_50_a_node_without_memory_evicts_refuses_and_recovers() {
    let Some(mut cluster) = Cluster::joined() else { return };
    let requests = json!({ "resources": { "requests": { "memory": "1Mi" } } });
    cluster.create_pod(pod("asking", &[with(forever("main"), requests)]));
    cluster.wait_pod_ready("asking");
    cluster.stop_agent();
    cluster.configure(json!({
        "evictionHard": { "memory.available": ALL_MEMORY },
        "evictionPressureTransitionPeriod": "5s",
        "nodeStatusUpdateFrequency": "1s",
        "enforceNodeAllocatable": ["none"],
    }));
    cluster.start_agent();
    let gone = cluster.wait("pod", "asking", "evicted", evicted);
    assert!(message(&gone).starts_with("The node was low on resource: memory. Threshold quantity: "), "{gone}");
    assert_eq!(condition(&gone, "DisruptionTarget"), "True");
    cluster.wait_event_saying("asking", "Evicted", message(&gone));
    let explained = cluster.explained("default/asking");
    assert!(
        explained.contains("evicted: memory.available was ") && explained.contains("(hard threshold)"),
        "{explained}"
    );
    assert!(explained.contains("order of the "), "{explained}");
    cluster.wait_event(NODE_NAME, "EvictionThresholdMet");
    cluster.wait("node", NODE_NAME, "short of memory", |node| condition(node, "MemoryPressure") == "True");
    cluster.create_pod(pod("best-effort", &[forever("main")]));
    let refused = cluster.wait("pod", "best-effort", "refused", evicted);
    assert_eq!(message(&refused), "Pod was rejected: The node had condition: [MemoryPressure]. ");
    assert_eq!(condition(&refused, "DisruptionTarget"), "absent");
    cluster.stop_agent();
    cluster.configure(json!({ "evictionHard": { "memory.available": LITTLE_MEMORY } }));
    cluster.start_agent();
    cluster.wait("node", NODE_NAME, "well again", |node| condition(node, "MemoryPressure") == "False");
    cluster.create_pod(pod("later", &[forever("main")]));
    cluster.wait_pod_ready("later");
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(cluster.find("pod", "later").expect("it is there")["status"]["phase"], "Running");
}
