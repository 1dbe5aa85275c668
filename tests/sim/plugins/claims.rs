//! The devices of claims: how they are.

use std::time::Duration;

use podwright::logic::plugins::claims::health::Health;
use podwright::sim::world::drivers::DRA;
use podwright::sim::{SimPod, World, describe, run};

use super::with_drivers;

/// The health of the claim's device, as the pod's status says it.
fn health(world: &World) -> String {
    let pod = world.api_pod("one").expect("it is there");
    let entry = &pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0];
    assert_eq!(entry["name"], "claim:own", "{pod}");
    entry["resources"][0]["health"].as_str().expect("one is named").to_owned()
}

/// RES-51: a status follows the word of the driver. An update of the driver changes nothing, where a second instance is there
/// before the first one goes, nor does a restart of the agent. Nobody can say while there is no driver.
#[test]
fn res_51_a_status_says_how_the_device_of_a_claim_is() {
    let run = run(1, with_drivers(), |world| async move {
        let first = world.add_claim_driver(DRA);
        world.create(&SimPod::of("one", "run").claim(DRA)).expect("made");
        world.start_agent();
        world.settle().await;
        assert_eq!(health(&world), "Healthy");
        world.set_claims_health(Health::Unhealthy);
        world.settle().await;
        assert_eq!(health(&world), "Unhealthy");
        world.add_second_driver(DRA);
        world.settle().await;
        world.kill_instance(&first);
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!(health(&world), "Unhealthy", "the second instance says so");
        world.remove_driver(&first);
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!(health(&world), "Unhealthy", "the second instance still says so");
        world.settle().await;
        world.kill_driver(DRA);
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!(health(&world), "Unknown", "nobody says it any more");
        world.start_driver(DRA);
        world.settle().await;
        world.kill_agent();
        world.set_claims_health(Health::Healthy);
        world.start_agent();
        world.settle().await;
        assert_eq!(health(&world), "Healthy");
    });
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
}
