//! The API server's store was restored from a copy: everything is as it was then, with the versions of then. The list
//! is the truth, although it is older than what the agent has seen.

use podwright::sim::{SimPod, World, simulate_with};
use serde_json::{Value, json};

use crate::pods::resize::{in_a_cluster, seconds};

const MIRROR: &str = "fixed-node-1";
const NODE: &str = "/api/v1/nodes/node-1";

/// Changes after which it takes many more until versions are as high again.
fn age(world: &World) {
    for turn in 0..2000 {
        world.mark_pod("web", "annotations", &turn.to_string());
    }
}

fn phase(world: &World, pod: &str) -> Value {
    world.api_pod(pod).map(|pod| pod["status"]["phase"].clone()).unwrap_or_default()
}

fn image(world: &World, pod: &str) -> Value {
    world.api_pod(pod).map(|pod| pod["spec"]["containers"][0]["image"].clone()).unwrap_or_default()
}

/// PAIN-03: the copy is of before a pod ran, and of before a static pod was edited.
#[test]
fn after_a_restore_pods_are_told_of_anew() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.put(&SimPod::of("fixed", "run"));
        world.start_agent();
        world.settle().await;
        world.stop_agent();
        world.create(&SimPod::of("web", "run")).expect("made");
        let copy = world.api().copy();
        world.start_agent();
        world.put(&SimPod::of("fixed", "run").image("app:2"));
        world.settle().await;
        age(&world);
        world.settle().await;
        assert_eq!((phase(&world, "web"), image(&world, MIRROR)), (json!("Running"), json!("app:2")));
        world.link().go_away(world.node(), seconds(5));
        world.api().restore(&copy);
        assert_eq!((phase(&world, "web"), image(&world, MIRROR)), (json!("Pending"), json!("app:1")));
        world.sleep(seconds(120)).await;
        assert_eq!((phase(&world, "web"), phase(&world, MIRROR)), (json!("Running"), json!("Running")));
        assert_eq!(image(&world, MIRROR), "app:2", "it has its own mirror again");
        world.finish_cluster().await;
    });
}

/// PAIN-03, NODE-03: what is changed of the Node after that counts, for pods, too.
#[test]
fn after_a_restore_the_node_is_what_is_listed() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run")).expect("made");
        world.start_agent();
        world.settle().await;
        let copy = world.api().copy();
        age(&world);
        let label = |value: &str| {
            let patch = json!({ "metadata": { "labels": { "disk": value } } });
            world.api().admin("PATCH", NODE, patch).expect("it is there");
        };
        label("slow");
        world.sleep(seconds(30)).await;
        world.link().go_away(world.node(), seconds(5));
        world.api().restore(&copy);
        world.sleep(seconds(60)).await;
        label("fast");
        world.sleep(seconds(10)).await;
        let choosy = SimPod::of("choosy", "run").own_field("nodeSelector", json!({ "disk": "fast" }));
        world.create(&choosy).expect("made");
        world.settle().await;
        assert_eq!(phase(&world, "choosy"), "Running");
        world.finish_cluster().await;
    });
}
