//! The devices of claims: how they are.

use std::time::Duration;

use podwright::logic::plugins::claims::health::Health;
use podwright::sim::world::drivers::DRA;
use podwright::sim::{Options, SimPod, World, describe, run, simulate_with};
use serde_json::json;

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

/// The names of the claims that drivers have prepared.
fn prepared(world: &World) -> Vec<String> {
    let claims = world.node().plugins.claims.lock().expect("nobody panicked");
    claims.values().map(|claim| claim.name.clone()).collect()
}

/// A pod that a scheduler gave a claim for its extended resources.
async fn with_extended_claim(world: &World) {
    world.add_claim_driver(DRA);
    world.share_claim("extended", DRA);
    let uid = world.create(&SimPod::of("one", "run")).expect("made");
    let user = json!({ "resource": "pods", "name": "one", "uid": uid.as_str() });
    let given = json!({ "resourceClaimName": "extended", "requestMappings": [] });
    let (claims, pods) =
        ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "/api/v1/namespaces/default/pods");
    for (place, status) in [
        (format!("{claims}/extended"), json!({ "reservedFor": [user] })),
        (format!("{pods}/one/status"), json!({ "extendedResourceClaimStatus": given })),
    ] {
        world.api().admin("PATCH", &place, json!({ "status": status })).expect("it is there");
    }
    world.start_agent();
    world.settle().await;
}

/// RES-48.
#[test]
fn res_48_a_claim_for_extended_resources_counts_while_its_gate_is_on() {
    let prepared_with = |settings| {
        simulate_with(1, Options { settings, ..with_drivers() }, |world| async move {
            with_extended_claim(&world).await;
            let found = prepared(&world);
            let pod = world.api_pod("one").expect("it is there");
            assert_eq!(pod["status"]["phase"], "Running");
            assert_eq!(pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"], "extended", "it is not ours");
            found
        })
    };
    assert_eq!(prepared_with(|_| {}), ["extended"]);
    assert_eq!(prepared_with(|settings| settings.resources.claim_gates.extended_resources = false), [""; 0]);
}
