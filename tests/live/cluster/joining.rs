//! A node joins, tells what it is, and stays.

use serde_json::json;

use super::Cluster;
use crate::harness::{NODE_NAME, condition};

/// NODE-01, NODE-02, NODE-20, NODE-49.
#[test]
fn a_node_registers_itself_and_keeps_its_lease() {
    let Some(mut cluster) = Cluster::new() else { return };
    cluster.flags.extend(["--node-labels", "zone=here"].map(str::to_owned));
    cluster.configure(json!({
        "registerWithTaints": [{ "key": "reserved", "value": "yes", "effect": "PreferNoSchedule" }],
        "nodeLeaseDurationSeconds": 8,
    }));
    cluster.start_agent();
    cluster.wait_ready();
    let node = cluster.find("node", NODE_NAME).expect("it registered");
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["zone"], &labels["kubernetes.io/hostname"]), (&json!("here"), &json!(NODE_NAME)));
    assert_eq!((&labels["kubernetes.io/os"], &labels["beta.kubernetes.io/os"]), (&json!("linux"), &json!("linux")));
    assert!(node["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "reserved"));
    let status = &node["status"];
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        assert_eq!(condition(&node, kind), "False");
    }
    assert_eq!(status["capacity"]["pods"], "110");
    assert!(status["allocatable"]["memory"].is_string() && status["capacity"]["cpu"].is_string());
    assert_eq!(status["daemonEndpoints"]["kubeletEndpoint"]["Port"].to_string(), cluster.named("PORT"));
    assert!(status["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap().starts_with("containerd://"));
    assert!(!status["images"].as_array().unwrap().is_empty());
    let lease = || {
        let text = cluster.try_kubectl(&["-n", "kube-node-lease", "get", "lease", NODE_NAME, "-o", "json"]).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok()
    };
    let first = cluster.eventually("a Lease", &lease);
    assert_eq!(
        (&first["spec"]["holderIdentity"], &first["spec"]["leaseDurationSeconds"]),
        (&json!(NODE_NAME), &json!(8))
    );
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Node");
    cluster.eventually("the Lease is renewed", || {
        lease().filter(|now| now["spec"]["renewTime"] != first["spec"]["renewTime"])
    });
    assert!(cluster.wait_event(NODE_NAME, "Starting").contains("Starting kubelet"));
    cluster.assert_nothing_was_forbidden();
}

/// NODE-03, NODE-06: what an operator added stays, what the node is comes back.
#[test]
fn a_node_that_starts_again_keeps_what_others_wrote() {
    let Some(mut cluster) = Cluster::joined() else { return };
    cluster.kubectl(&["label", "node", NODE_NAME, "team=blue", "kubernetes.io/arch=wrong", "--overwrite"]);
    cluster.kubectl(&["taint", "node", NODE_NAME, "mine=1:PreferNoSchedule"]);
    cluster.kubectl(&["cordon", NODE_NAME]);
    cluster.stop_agent();
    cluster.start_agent();
    let node = cluster.wait("node", NODE_NAME, "as its machine is", |node| {
        node["metadata"]["labels"]["kubernetes.io/arch"] != "wrong"
    });
    assert_eq!(node["metadata"]["labels"]["team"], "blue");
    assert_eq!(node["spec"]["unschedulable"], true);
    assert!(node["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "mine"));
    cluster.assert_nothing_was_forbidden();
}
