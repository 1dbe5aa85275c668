//! The Node that `PodManager` reads once more, beside the one that its watch has told since.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

use super::{played_agent, seconds};
use crate::actors::kit::trace::Cause;
use crate::actors::played_api::{not_found, serve, whole};
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::root::Child;
use crate::messages::status::status_manager::StatusManagerMsg;

fn node(version: &str, disk: &str) -> serde_json::Value {
    let metadata = json!({ "name": "node-1", "uid": "n", "resourceVersion": version, "labels": { "disk": disk } });
    let has = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    json!({ "metadata": metadata, "status": { "allocatable": has.clone(), "capacity": has } })
}

fn pod(name: &str, disk: &str) -> (PodUid, Arc<Pod>) {
    let pod = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name,
            "annotations": { "kubernetes.io/config.source": "file" },
        },
        "spec": { "nodeSelector": { "disk": disk }, "containers": [{ "name": "main", "image": "a:1" }] },
    });
    (PodUid::from(name), Arc::new(serde_json::from_value(pod).expect("a pod")))
}

/// POD-31: a pod that the Node keeps away has it read once more. An answer from before what the watch has told is of no use:
/// pods are judged by the newest.
#[tokio::test(start_paused = true)]
async fn an_older_node_does_not_replace_a_newer_one() {
    let api = serve(|verb, path, _| match (verb, path.contains("/nodes/")) {
        ("GET", true) => whole(200, &node("9", "slow")),
        _ => not_found(),
    });
    let played = played_agent(api, |_, _| {});
    let (agent, to) = (&played.agent, &played.agent.directory);
    start_alone(Child::EventRecorder, agent);
    start_alone(Child::StatusManager, agent);
    start_alone(Child::PodManager, agent);
    seconds(0.1).await;
    let newest: Node = serde_json::from_value(node("10", "fast")).expect("a Node");
    let taken = agent.trace.clock().stamp();
    let set = |pods: &[(PodUid, Arc<Pod>)]| {
        let pods = pods.iter().cloned().collect();
        PodManagerMsg::SourceSet { source: SourceKind::File, pods, lives: BTreeMap::new() }
    };
    let (elsewhere, here) = (pod("elsewhere", "none"), pod("here", "fast"));
    for message in [
        PodManagerMsg::NodeChanged(Arc::new(newest)),
        PodManagerMsg::Allocated(Arc::default()),
        PodManagerMsg::Relisted { taken, pods: BTreeMap::new(), running: BTreeMap::new() },
        set(std::slice::from_ref(&elsewhere)),
    ] {
        to.pod_manager.tell(Cause::outside("test"), message).expect("room");
    }
    seconds(5.0).await; // The Node is read for the first.
    to.pod_manager.tell(Cause::outside("test"), set(&[elsewhere, here])).expect("room");
    seconds(5.0).await;
    let asked = to.status_manager.ask(Cause::outside("test"), Duration::from_secs(1), StatusManagerMsg::List).await;
    let told: BTreeMap<String, Option<String>> =
        asked.expect("answered").iter().map(|view| (view.uid.to_string(), view.status.reason.clone())).collect();
    let expected = [("elsewhere", Some("NodeAffinity")), ("here", None)];
    assert_eq!(told, expected.map(|(name, reason)| (name.to_owned(), reason.map(str::to_owned))).into());
}
