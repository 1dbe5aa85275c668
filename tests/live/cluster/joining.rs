//! A node joins, tells what it is, and stays.

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{NODE_NAME, condition};
use crate::pods::{forever, pod, with};

/// NODE-01, NODE-02, NODE-07, NODE-20, NODE-21, NODE-28, NODE-34, NODE-41, CFG-43, SEC-50.
#[test]
fn a_node_registers_itself_and_keeps_its_lease() {
    let Some(mut cluster) = Cluster::alone() else { return };
    cluster.flags.extend(["--node-labels", "zone=here"].map(str::to_owned));
    cluster.configure(json!({
        "registerWithTaints": [{ "key": "reserved", "value": "yes", "effect": "PreferNoSchedule" }],
        "nodeLeaseDurationSeconds": 8,
    }));
    cluster.start_agent();
    cluster.wait_ready();
    let node = cluster.wait("node", NODE_NAME, "with its images", |node| {
        node["status"]["images"].as_array().is_some_and(|images| !images.is_empty())
    });
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["zone"], &labels["kubernetes.io/hostname"]), (&json!("here"), &json!(NODE_NAME)));
    assert_eq!((&labels["kubernetes.io/os"], &labels["beta.kubernetes.io/os"]), (&json!("linux"), &json!("linux")));
    assert!(node["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "reserved"));
    let status = &node["status"];
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        assert_eq!(condition(&node, kind), "False");
    }
    let address = json!({ "type": "InternalIP", "address": cluster.named("NODE_IP") });
    assert_eq!(status["addresses"], json!([address, { "type": "Hostname", "address": NODE_NAME }]));
    assert_eq!(status["capacity"]["pods"], "110");
    assert!(status["allocatable"]["memory"].is_string() && status["capacity"]["cpu"].is_string());
    assert_eq!(status["daemonEndpoints"]["kubeletEndpoint"]["Port"].to_string(), cluster.named("PORT"));
    assert!(status["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap().starts_with("containerd://"));
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
    cluster.wait_event_like(NODE_NAME, "Starting", |message| message.contains("Starting kubelet"));
    if cluster.named("CGROUP_VERSION") == "1" {
        assert!(cluster.wait_event(NODE_NAME, "CgroupV1").starts_with("cgroup v1 detected."));
    }
}

/// NODE-05, NODE-09: what an operator added stays, what the node is comes back.
#[test]
fn a_node_that_starts_again_keeps_what_others_wrote() {
    let Some(mut cluster) = Cluster::joined_alone() else { return };
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
}

/// NODE-40, NODE-07: with an external cloud provider the node waits for that: its taint says so, and which address it
/// was given.
#[test]
fn a_node_of_a_cloud_waits_for_its_provider() {
    let Some(mut cluster) = Cluster::alone() else { return };
    cluster.flags.extend(["--cloud-provider", "external"].map(str::to_owned));
    cluster.start_agent();
    let node = cluster.wait("node", NODE_NAME, "Ready", |node| condition(node, "Ready") == "True");
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let waits =
        json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule" });
    assert!(taints.contains(&waits), "{taints:?}");
    assert_eq!(node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"], cluster.named("NODE_IP"));
}

/// A node is emptied and taken out by hand as runbooks say, and comes back with its agent, not before.
#[test]
fn a_node_is_drained_deleted_and_joins_again() {
    let Some(mut cluster) = Cluster::joined_alone() else { return };
    let mount = with(forever("main"), json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] }));
    let volumes = json!({ "spec": { "volumes": [{ "name": "scratch", "emptyDir": {} }] } });
    cluster.create_pod(with(pod("with-files", &[mount]), volumes));
    cluster.create_pod(pod("plain", &[forever("main")]));
    cluster.apply(&pod("static", &[forever("main")]));
    let mirror = format!("static-{NODE_NAME}");
    for name in ["with-files", "plain", &mirror] {
        cluster.wait_pod_ready(name);
    }
    let drain = ["drain", NODE_NAME, "--force", "--delete-emptydir-data", "--grace-period=2", "--timeout=240s"];
    cluster.kubectl(&drain);
    assert_eq!(cluster.find("node", NODE_NAME).expect("it is there")["spec"]["unschedulable"], true);
    let left: Vec<_> = cluster.list("pod").iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(left, [json!(mirror)], "a static pod stays");
    cluster.kubectl(&["delete", "node", NODE_NAME]);
    // Its Lease may go with it: one is made for a node alone. The agent goes on asking for both, and makes neither.
    let asked = || cluster.requests().iter().filter(|(_, what, _)| what == "leases").count();
    let before = asked();
    cluster.eventually("the agent asks for its Lease", || (asked() > before + 1).then_some(()));
    assert_eq!(cluster.find("node", NODE_NAME), None, "a node that was taken out stays out");
    let before = cluster.wait_running("static", "main");
    cluster.stop_agent();
    cluster.start_agent();
    cluster.wait_ready();
    let node = cluster.find("node", NODE_NAME).expect("it joined again");
    assert_eq!(node["spec"]["unschedulable"], Value::Null);
    assert_eq!(cluster.wait_running("static", "main").id, before.id);
    cluster.wait_pod_ready(&mirror);
    cluster.create_pod(pod("new", &[forever("main")]));
    cluster.wait_pod_ready("new");
}
