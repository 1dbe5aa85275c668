//! Devices of device plugins: given to one container at a time, over crashes of plugin and agent.

use std::time::Duration;

use podwright::sim::world::drivers::GPU;
use podwright::sim::{SimPod, World, simulate_with};
use serde_json::{Value, json};

use super::with_drivers;
use crate::common::started;

fn status(world: &World, pod: &str) -> Value {
    world.api_pod(pod).map_or(Value::Null, |pod| pod["status"].clone())
}

/// RES-39, RES-41.
#[test]
fn pods_have_a_device_each_and_one_too_many_is_refused() {
    simulate_with(1, with_drivers(), |world| async move {
        world.add_device_plugin(GPU, &["a", "b"], Default::default());
        started(&world, &[]).await;
        world.sleep(Duration::from_secs(10)).await; // The Node tells of the devices by now.
        for name in ["one", "two"] {
            world.create(&SimPod::of(name, "run").device(GPU, 1)).expect("made");
        }
        world.settle().await;
        let mut given = [world.devices_of("one"), world.devices_of("two")].concat();
        given.sort();
        assert_eq!(given, [format!("{GPU}=a"), format!("{GPU}=b")]);
        world.create(&SimPod::of("three", "run").device(GPU, 1)).expect("made");
        world.settle().await;
        let refused = status(&world, "three");
        assert_eq!((&refused["phase"], &refused["reason"]), (&json!("Failed"), &json!("UnexpectedAdmissionError")));
        let why = format!("requested number of devices unavailable for {GPU}. Requested: 1, Available: 0");
        let message = format!("Pod was rejected: Allocate failed due to {why}, which is unexpected");
        assert_eq!(refused["message"], json!(message));
        world.delete_pod("one", None);
        world.delete_pod("three", None);
        world.settle().await;
        world.create(&SimPod::of("four", "run").device(GPU, 1)).expect("made");
        world.settle().await;
        assert_eq!(world.devices_of("four").len(), 1);
        world.finish_cluster().await;
    });
}
