//! What stands for static pods in the API server, and what pods are told that this node cannot take.

use std::time::Duration;

use podwright::sim::{SimPod, World, simulate_with};
use serde_json::{Value, json};

use super::resize::in_a_cluster;

const MIRROR: &str = "fixed-node-1";

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A static pod runs and has its mirror.
async fn mirrored(world: &World) {
    world.put(&SimPod::of("fixed", "run"));
    world.start_agent();
    world.settle().await;
    assert!(world.api_pod(MIRROR).is_some());
}

fn forget_mirror(world: &World) {
    world.delete_pod(MIRROR, Some(0));
}

/// POD-06, SEC-50: nobody owns a mirror once the Node is gone: none is made, however often it is taken away; the static pod
/// runs on, and has its mirror again when the node joins again.
#[test]
fn no_mirror_is_made_for_a_node_that_is_gone() {
    simulate_with(1, in_a_cluster(), |world| async move {
        mirrored(&world).await;
        world.api().admin("DELETE", "/api/v1/nodes/node-1", Value::Null).expect("it is there");
        world.sleep(seconds(2)).await;
        forget_mirror(&world);
        world.sleep(seconds(120)).await;
        assert!(world.api_pod(MIRROR).is_none(), "{:?}", world.api_pod(MIRROR));
        assert!(world.running().contains("fixed-node-1/main#0"));
        world.kill_agent();
        world.start_agent();
        world.settle().await;
        assert!(world.api_pod(MIRROR).is_some());
        world.finish_cluster().await;
    });
}

/// POD-06: a mirror that somebody takes away from a node that is there comes back.
#[test]
fn a_mirror_is_made_again_while_its_node_is_there() {
    simulate_with(1, in_a_cluster(), |world| async move {
        mirrored(&world).await;
        forget_mirror(&world);
        world.sleep(seconds(120)).await;
        assert!(world.api_pod(MIRROR).is_some());
        world.finish_cluster().await;
    });
}

/// POD-06, POD-31: a static pod that the node refuses has a mirror, too, which says why; one that ran as another version has
/// a new one.
#[test]
fn a_refused_static_pod_says_so_in_its_mirror() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let elsewhere = || SimPod::of("fixed", "run").own_field("nodeSelector", json!({ "disk": "fast" }));
        let refused = |mirror: Option<&Value>| {
            let status = &mirror.expect("it has a mirror")["status"];
            (status["phase"].clone(), status["reason"].clone(), status["message"].clone())
        };
        let expected = || {
            let message =
                "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            (json!("Failed"), json!("NodeAffinity"), json!(message))
        };
        world.put(&elsewhere());
        world.start_agent();
        world.sleep(seconds(30)).await;
        assert_eq!(refused(world.api_pod(MIRROR).as_deref()), expected());
        world.delete("fixed");
        world.sleep(seconds(60)).await;
        assert!(world.api_pod(MIRROR).is_none(), "nobody wants it any more");
        world.put(&SimPod::of("fixed", "run"));
        world.sleep(seconds(30)).await;
        let before = world.api_pod(MIRROR).expect("it has a mirror")["metadata"]["uid"].clone();
        world.put(&elsewhere());
        world.sleep(seconds(90)).await;
        assert_eq!(refused(world.api_pod(MIRROR).as_deref()), expected());
        assert_ne!(world.api_pod(MIRROR).expect("as before")["metadata"]["uid"], before);
        assert!(world.running().is_empty());
        world.delete("fixed");
        world.sleep(seconds(60)).await;
    });
}
