//! The Lease, as the API server sees it.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::server::PlayedServer;
use super::{NODE, Played, seconds};
use crate::actors::kit::trace::Cause;
use crate::messages::node::node_status::{NodeNews, NodeStatusMsg};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn played() -> Played {
    Played::new(PlayedServer::default(), |_| {})
}

/// NODE-34.
#[tokio::test(start_paused = true)]
async fn a_lease_is_created_with_its_owner_and_then_put_once_a_period() {
    let played = played();
    played.start();
    seconds(5.0).await;
    let lease = played.server.lease().expect("created");
    assert_eq!(lease["spec"]["holderIdentity"], NODE);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(
        lease["metadata"]["ownerReferences"],
        json!([{ "apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "uid-1" }])
    );
    let before = played.server.calls("leases").len();
    seconds(102.0).await;
    let renewals = played.server.calls("leases").split_off(before);
    // Ten seconds and half of four hundredths of them, each.
    assert_eq!(renewals, vec![format!("PUT {LEASES}/{NODE}"); 10]);
    let renewed = played.server.lease().expect("renewed")["spec"]["renewTime"].clone();
    assert!(renewed.as_str().is_some_and(|time| time.starts_with("2026-01-01T00:01:4")), "{renewed}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_waits_for_the_node_that_owns_it() {
    let played = played();
    for _ in 0..4 {
        played.server.refuse("POST /api/v1/nodes", 500, "InternalError");
    }
    played.start();
    seconds(1.0).await;
    assert_eq!(played.server.lease(), None, "there is no node yet");
    seconds(3.0).await;
    assert!(played.server.node().is_some());
    assert!(played.server.lease().is_some(), "as soon as there is a node, not a period later");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_read_and_renewed() {
    let played = played();
    played.start();
    seconds(5.0).await;
    played.server.touch_lease();
    let before = played.server.calls("leases").len();
    seconds(7.0).await;
    let calls = played.server.calls("leases").split_off(before);
    let lease = format!("{LEASES}/{NODE}");
    assert_eq!(calls, [format!("PUT {lease}"), format!("GET {lease}"), format!("PUT {lease}")]);
}

/// NODE-33.
#[tokio::test(start_paused = true)]
async fn repeated_failures_cast_doubt_on_the_connections() {
    let played = played();
    played.start();
    seconds(5.0).await;
    played.server.refuse(&format!("PUT {LEASES}"), 500, "InternalError");
    seconds(10.0).await;
    assert_eq!(played.doubts.load(Ordering::SeqCst), 0, "one failure is none");
    played.server.refuse(&format!("PUT {LEASES}"), 500, "InternalError");
    played.server.refuse(&format!("PUT {LEASES}"), 500, "InternalError");
    seconds(10.0).await;
    assert_eq!(played.doubts.load(Ordering::SeqCst), 1);
}

/// NODE-35: who watches over nodes must not take this one for dead before it is.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_node_is_shut_down() {
    let played = played();
    played.start();
    seconds(5.0).await;
    let news = NodeNews::ShutdownProblem(Some("node is shutting down".to_owned()));
    let status = &played.agent.directory.node_status;
    status.tell(Cause::outside("test"), NodeStatusMsg::News(news)).expect("room");
    let before = played.server.calls("leases").len();
    seconds(40.8).await;
    assert_eq!(played.server.calls("leases").split_off(before), vec![format!("PUT {LEASES}/{NODE}"); 4]);
    let node = played.server.node().expect("registered");
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "False"), "{conditions:?}");
}
