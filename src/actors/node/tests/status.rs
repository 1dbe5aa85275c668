//! Registration and status, as the API server sees them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::server::PlayedServer;
use super::{NODE, Played, played_agent, seconds};
use crate::actors::kit::trace::Cause;
use crate::actors::wiring::start_alone;
use crate::messages::node::node_status::{NodeNews, NodeStatusMsg};
use crate::messages::root::Child;

const POST: &str = "POST /api/v1/nodes";
const GET: &str = "GET /api/v1/nodes/node-1";
const PATCH: &str = "PATCH /api/v1/nodes/node-1/status";

fn fresh() -> Played {
    Played::new(PlayedServer::default(), |_| {})
}

/// A node that was registered by an earlier agent, on another boot, and was ready.
fn known() -> Value {
    json!({
        "metadata": { "name": NODE, "labels": { "kubernetes.io/hostname": "old", "custom": "kept" } },
        "spec": { "taints": [{ "key": "mine", "effect": "NoSchedule" }] },
        "status": {
            "nodeInfo": {
                "bootID": "boot-0", "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "v1.35.0", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": "",
            },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "kubelet is posting ready status", "lastTransitionTime": "2025-12-31T00:00:00Z",
            }],
        },
    })
}

fn condition(node: &Value, kind: &str) -> Value {
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

/// Calls about the Node by the status actor alone: the Lease reads its owner once.
fn node_calls(played: &Played) -> Vec<String> {
    played.server.calls("/nodes")
}

/// NODE-62.
#[tokio::test(start_paused = true)]
async fn a_fresh_node_is_posted_once_whole_and_ready() {
    let played = fresh();
    played.start();
    seconds(3.0).await;
    let calls = node_calls(&played);
    assert_eq!(calls.iter().filter(|call| call.starts_with(POST)).count(), 1, "{calls:?}");
    assert!(!calls.contains(&PATCH.to_owned()), "nothing changed since: {calls:?}");
    let posted = played.server.sent(POST);
    assert_eq!(posted["metadata"]["labels"]["kubernetes.io/hostname"], NODE);
    assert_eq!(condition(&posted, "Ready")["status"], "True");
    assert_eq!(posted["status"]["capacity"]["memory"], "8Gi");
    assert_eq!(posted["status"]["nodeInfo"]["containerRuntimeVersion"], "containerd://2.1.0");
    assert_eq!(posted["status"]["images"], json!([{ "names": ["a:1"], "sizeBytes": 7 }]));
    assert_eq!(posted["status"]["runtimeHandlers"][0]["name"], "runc");
    let status = &played.agent.directory.node_status;
    let startup = status.ask(Cause::outside("test"), Duration::from_secs(1), NodeStatusMsg::Startup).await;
    let startup = startup.expect("answered");
    assert_eq!(startup.registration, Some(Duration::ZERO), "nothing takes time here");
    assert_eq!((startup.post_registration, startup.total), (Some(Duration::ZERO), None));
    let expected = ["Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"];
    assert_eq!(played.events().await, expected);
}

/// SEC-06.
#[tokio::test(start_paused = true)]
async fn a_host_that_may_write_secrets_to_its_swap_says_so_first() {
    let played = Played::new(PlayedServer::default(), |node| node.memory_may_be_swapped = true);
    played.start();
    seconds(1.0).await;
    assert_eq!(played.events().await[..2], ["Starting", "PossibleMemoryBackedVolumesOnDisk"]);
}

/// NODE-29, NODE-32.
#[tokio::test(start_paused = true)]
async fn what_does_not_change_is_not_sent_before_the_report_period() {
    let played = fresh();
    played.start();
    seconds(290.0).await;
    assert!(!node_calls(&played).contains(&PATCH.to_owned()), "{:?}", node_calls(&played));
    // Chance is in the middle: the first report comes a whole period after the node was created.
    seconds(25.0).await;
    assert_eq!(node_calls(&played).iter().filter(|call| **call == PATCH).count(), 1);
    let patch = played.server.sent(PATCH);
    let conditions = patch["status"]["conditions"].as_array().expect("heartbeats").clone();
    assert_eq!(conditions.len(), 4);
    for condition in conditions {
        let fields: Vec<&String> = condition.as_object().expect("a condition").keys().collect();
        assert_eq!(fields, ["lastHeartbeatTime", "type"]);
    }
    assert_eq!(patch.as_object().map(serde_json::Map::len), Some(1), "{patch}");
    let reads = node_calls(&played).into_iter().filter(|call| call == GET).count();
    assert!(reads <= 2, "the Lease alone reads the node, for its owner: {reads}");
    assert!(played.runtime.calls("ListImages").len() <= 11, "images are asked for every thirty seconds");
}

/// NODE-05, NODE-41, NODE-63.
#[tokio::test(start_paused = true)]
async fn a_known_node_is_read_reconciled_and_updated() {
    let played = Played::new(PlayedServer::default().with_node(known()), |_| {});
    played.start();
    seconds(3.0).await;
    let calls: Vec<String> = node_calls(&played).into_iter().filter(|call| call != GET).collect();
    assert_eq!(calls, [POST, PATCH, PATCH], "refused, reconciled, brought up to date");
    let node = played.server.node().expect("it is there");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], NODE);
    assert_eq!(node["metadata"]["labels"]["custom"], "kept");
    assert_eq!(node["spec"]["taints"], json!([{ "key": "mine", "effect": "NoSchedule" }]));
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.0");
    assert_eq!(condition(&node, "Ready")["status"], "True");
    assert_eq!(condition(&node, "Ready")["lastTransitionTime"], "2025-12-31T00:00:00Z", "it was ready all the time");
    assert!(played.events().await.iter().any(|event| event == "Rebooted"), "{:?}", played.events().await);
}

/// CVE-2025-5187, SEC-50: the patches of a registered Node name no owner, neither an added nor a removed one. The only
/// labels in them are those of the host's name and system; a configured label is one of a new Node alone.
#[tokio::test(start_paused = true)]
async fn cve_2025_5187_sec_50_later_patches_set_no_owner_and_only_the_labels_of_the_system() {
    let mut owned = known();
    owned["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "u" }]);
    let played = Played::new(PlayedServer::default().with_node(owned), |settings| {
        settings.identity.labels = [("configured".to_owned(), "later".to_owned())].into();
    });
    played.start();
    seconds(3.0).await;
    // Others change the labels, and take the owner away.
    let mut node = played.server.node().expect("it is there");
    node["metadata"]["labels"]["kubernetes.io/arch"] = "wrong".into();
    node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
    node["metadata"].as_object_mut().expect("metadata").remove("ownerReferences").expect("the agent left it");
    played.server.set_node(node);
    played.runtime.set_no_network(true);
    seconds(12.0).await;
    played.runtime.set_no_network(false);
    seconds(400.0).await;
    let patches = played.server.bodies(PATCH);
    assert!(patches.len() >= 4, "the registration's, the network's and a report: {}", patches.len());
    let may = ["kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"];
    let old = ["beta.kubernetes.io/os", "beta.kubernetes.io/arch"];
    let mut repaired = 0;
    for patch in patches {
        assert!(!patch.to_string().contains("ownerReferences"), "{patch}");
        for label in patch["metadata"]["labels"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            assert!(may.contains(&label.as_str()) || old.contains(&label.as_str()), "{label}");
            repaired += usize::from(label == "kubernetes.io/arch");
        }
    }
    assert!(repaired >= 2, "the registration gives the label, and it is repaired later");
    let node = played.server.node().expect("it is there");
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["custom"], &labels["configured"]), (&json!("kept"), &Value::Null));
}

/// NODE-36.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_make_a_ready_node_unready() {
    let played = Played::new(PlayedServer::default().with_node(known()), |_| {});
    played.runtime.set_silent(true);
    played.start();
    seconds(8.0).await;
    assert!(!node_calls(&played).contains(&PATCH.to_owned()), "nobody knows yet how the runtime is");
    seconds(5.0).await;
    let node = played.server.node().expect("it is there");
    let ready = condition(&node, "Ready");
    assert_eq!(ready["status"], "False", "but not for ever: {ready}");
    let expected = "[container runtime status check may not have completed yet, network state unknown]";
    assert_eq!(ready["message"], expected);
}

/// NODE-06.
#[tokio::test(start_paused = true)]
async fn a_forbidden_create_still_finds_the_node() {
    let played = Played::new(PlayedServer::default().with_node(known()), |_| {});
    played.server.refuse(POST, 403, "Forbidden");
    played.start();
    seconds(3.0).await;
    assert!(node_calls(&played).contains(&PATCH.to_owned()), "{:?}", node_calls(&played));
}

/// NODE-04.
#[tokio::test(start_paused = true)]
async fn registration_is_tried_again_ever_later() {
    let played = fresh();
    for _ in 0..3 {
        played.server.refuse(POST, 500, "InternalError");
    }
    played.start();
    // After 0.1, 0.3, 0.7 and 1.5 seconds.
    for (until, posts) in [(0.05, 0), (0.2, 1), (0.5, 2), (1.0, 3), (1.6, 4), (20.0, 4)] {
        let now = played.agent.trace.clock().uptime().as_secs_f64();
        seconds(until - now).await;
        let count = node_calls(&played).iter().filter(|call| call.starts_with(POST)).count();
        assert_eq!(count, posts, "after {until} s");
    }
}

/// NODE-12, CFG-43.
#[tokio::test(start_paused = true)]
async fn a_node_that_others_register_is_never_created() {
    let played = Played::new(PlayedServer::default(), |settings| settings.register = false);
    played.start();
    seconds(33.0).await;
    assert!(!node_calls(&played).contains(&POST.to_owned()), "{:?}", node_calls(&played));
    played.server.set_node(known());
    seconds(1.0).await;
    let node = played.server.node().expect("it is there");
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.0", "at once, and not a period later");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux", "labels of the system are repaired");
}

/// NODE-30, NODE-33, NODE-37, NODE-41.
#[tokio::test(start_paused = true)]
async fn a_refused_patch_is_tried_on_the_newest_node() {
    let played = fresh();
    played.start();
    seconds(3.0).await;
    played.server.refuse(PATCH, 409, "Conflict");
    played.server.refuse(PATCH, 500, "InternalError");
    let before = node_calls(&played).len();
    played.runtime.set_no_network(true);
    seconds(17.0).await;
    let calls = node_calls(&played).split_off(before);
    assert_eq!(calls, [PATCH, GET, PATCH, GET, PATCH]);
    assert_eq!(played.doubts.load(Ordering::SeqCst), 1, "the second failure in a row");
    let ready = condition(&played.server.node().expect("it is there"), "Ready");
    assert_eq!(ready["status"], "False");
    let expected = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni \
                    plugin not initialized";
    assert_eq!(ready["message"], expected);
    let events = played.events().await;
    assert_eq!(events.iter().filter(|event| *event == "NodeNotReady").count(), 1, "{events:?}");
}

/// NODE-30.
#[tokio::test(start_paused = true)]
async fn an_update_gives_up_after_five_tries_and_comes_again() {
    let played = fresh();
    played.start();
    seconds(3.0).await;
    for _ in 0..5 {
        played.server.refuse(PATCH, 500, "InternalError");
    }
    let before = node_calls(&played).len();
    played.runtime.set_no_network(true);
    seconds(13.0).await;
    let calls = node_calls(&played).split_off(before);
    assert_eq!(calls.iter().filter(|call| **call == PATCH).count(), 5, "{calls:?}");
    seconds(11.0).await;
    let ready = condition(&played.server.node().expect("it is there"), "Ready");
    assert_eq!(ready["status"], "False", "the next update succeeds");
}

/// NODE-31, NODE-41.
#[tokio::test(start_paused = true)]
async fn a_network_that_comes_up_makes_the_node_ready_at_once() {
    let played = fresh();
    played.runtime.set_no_network(true);
    played.start();
    seconds(7.0).await;
    let ready = condition(&played.server.node().expect("registered"), "Ready");
    assert_eq!(ready["status"], "False");
    let before = node_calls(&played).len();
    played.runtime.set_no_network(false);
    seconds(0.3).await;
    assert_eq!(node_calls(&played).split_off(before), [PATCH], "within three tenths of a second");
    assert_eq!(condition(&played.server.node().expect("registered"), "Ready")["status"], "True");
    assert!(played.events().await.iter().any(|event| event == "NodeReady"));
    let looks = played.runtime.calls("Status").len();
    seconds(30.0).await;
    assert!(played.runtime.calls("Status").len() <= looks + 8, "a ready node is looked at in the usual rhythm");
}

#[tokio::test(start_paused = true)]
async fn a_hung_runtime_does_not_hold_up_the_status() {
    let played = fresh();
    played.runtime.set_hung(true);
    played.start();
    seconds(8.0).await;
    let node = played.server.node().expect("registered all the same");
    assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "containerd://Unknown");
}

/// An answer of the runtime is good for half a minute, but not one that lacks something.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_did_not_tell_its_version_is_asked_again_with_the_next_status() {
    let played = fresh();
    played.runtime.refuse_once("Version");
    played.start();
    let version = || played.server.node().expect("registered")["status"]["nodeInfo"]["containerRuntimeVersion"].clone();
    seconds(3.0).await;
    assert_eq!(version(), "containerd://Unknown");
    seconds(10.0).await;
    assert_eq!(version(), "containerd://2.1.0");
}

/// NODE-58.
#[tokio::test(start_paused = true)]
async fn pod_cidrs_reach_the_runtime_once() {
    let played = fresh();
    played.start();
    seconds(3.0).await;
    let mut node = played.server.node().expect("registered");
    node["spec"] = json!({ "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"] });
    played.server.set_node(node);
    seconds(60.0).await;
    assert_eq!(played.runtime.calls("UpdateRuntimeConfig"), ["UpdateRuntimeConfig 10.1.0.0/24,fd00::/64"]);
}

/// NODE-58: what the configuration says counts until the Node says something.
#[tokio::test(start_paused = true)]
async fn a_configured_pod_cidr_reaches_the_runtime_at_the_start() {
    let played = Played::new(PlayedServer::default(), |settings| settings.pod_cidr = "10.9.0.0/24".to_owned());
    played.start();
    seconds(3.0).await;
    assert_eq!(played.runtime.calls("UpdateRuntimeConfig"), ["UpdateRuntimeConfig 10.9.0.0/24"]);
    let mut node = played.server.node().expect("registered");
    node["spec"] = json!({ "podCIDRs": ["10.1.0.0/24"] });
    played.server.set_node(node);
    seconds(60.0).await;
    let expected = ["UpdateRuntimeConfig 10.9.0.0/24", "UpdateRuntimeConfig 10.1.0.0/24"];
    assert_eq!(played.runtime.calls("UpdateRuntimeConfig"), expected);
}

/// NODE-58.
#[tokio::test(start_paused = true)]
async fn a_standalone_agent_tells_the_runtime_its_pod_cidr() {
    let played = played_agent(PlayedServer::default().api(), |settings, adapters| {
        settings.node.pod_cidr = "10.9.0.0/24".to_owned();
        adapters.cluster.api = None;
    });
    let agent = &played.agent;
    played.runtime().refuse_once("UpdateRuntimeConfig");
    start_alone(Child::NodeStatus, agent);
    seconds(1.0).await;
    assert_eq!(played.runtime().calls("UpdateRuntimeConfig").len(), 1);
    start_alone(Child::PodManager, agent);
    start_alone(Child::RuntimeMonitor, agent);
    seconds(60.0).await;
    let again = "a refusal is made good once the runtime is heard";
    assert_eq!(played.runtime().calls("UpdateRuntimeConfig").len(), 2, "{again}");
}

/// NODE-10, NODE-61.
#[tokio::test(start_paused = true)]
async fn cordoning_is_an_event_and_labels_are_repaired() {
    let played = fresh();
    played.start();
    seconds(3.0).await;
    let mut node = played.server.node().expect("registered");
    node["spec"] = json!({ "unschedulable": true });
    node["metadata"]["labels"]["kubernetes.io/arch"] = "wrong".into();
    played.server.set_node(node);
    seconds(12.0).await;
    assert!(played.events().await.iter().any(|event| event == "NodeNotSchedulable"));
    let node = played.server.node().expect("registered");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/arch"], "amd64");
    assert_eq!(node["spec"]["unschedulable"], true, "the specification is others'");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_reported_at_once() {
    let played = fresh();
    played.start();
    seconds(3.0).await;
    let news = NodeNews::ShutdownProblem(Some("node is shutting down".to_owned()));
    let status = &played.agent.directory.node_status;
    status.tell(Cause::outside("test"), NodeStatusMsg::News(news)).expect("room");
    seconds(0.1).await;
    let ready = condition(&played.server.node().expect("registered"), "Ready");
    assert_eq!((ready["status"].as_str(), ready["message"].as_str()), (Some("False"), Some("node is shutting down")));
}

#[tokio::test(start_paused = true)]
async fn the_newest_node_is_told_to_whoever_asks() {
    let played = fresh();
    played.server.refuse(POST, 500, "InternalError");
    let ask = async |played: &Played| -> Option<Arc<Node>> {
        let status = &played.agent.directory.node_status;
        status.ask(Cause::outside("test"), Duration::from_secs(1), NodeStatusMsg::Node).await.expect("answered")
    };
    played.start();
    seconds(0.15).await;
    let own = ask(&played).await.expect("made, although the server does not answer");
    assert_eq!(own.metadata.uid, None);
    seconds(3.0).await;
    let registered = ask(&played).await.expect("registered");
    assert_eq!(registered.metadata.uid.as_deref(), Some("uid-1"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_not_made_again() {
    let played = fresh();
    played.start();
    seconds(3.0).await;
    for _ in 0..20 {
        played.server.refuse(PATCH, 404, "NotFound");
    }
    let before = node_calls(&played).len();
    played.runtime.set_no_network(true);
    seconds(40.0).await;
    let calls = node_calls(&played).split_off(before);
    assert!(calls.iter().all(|call| *call == PATCH) && calls.len() <= 4, "{calls:?}");
}

/// NODE-13, RES-59: an administrator's amount of an extended resource survives restarts of the agent, all of it allocatable;
/// on a new machine of the old name it is nothing, once, until somebody offers it again.
#[tokio::test(start_paused = true)]
async fn extended_resources_stay_unless_the_machine_is_a_new_one() {
    for (devices_lost, left) in [(false, "3"), (true, "0")] {
        let mut node = known();
        node["status"]["capacity"] = json!({ "vendor.com/thing": "3", "cpu": "1" });
        node["status"]["allocatable"] = json!({ "vendor.com/thing": "1", "vendor.com/gone": "2" });
        let played = Played::new(PlayedServer::default().with_node(node), |node| node.devices_lost = devices_lost);
        played.start();
        seconds(30.0).await;
        let status = played.server.node().expect("it is there")["status"].clone();
        let amount = |list: &str, name: &str| status[list][name].as_str().map(str::to_owned);
        assert_eq!(amount("capacity", "vendor.com/thing").as_deref(), Some(left));
        assert_eq!(amount("allocatable", "vendor.com/thing").as_deref(), Some(left));
        assert_eq!((amount("capacity", "cpu").as_deref(), amount("allocatable", "vendor.com/gone")), (Some("2"), None));
    }
}
