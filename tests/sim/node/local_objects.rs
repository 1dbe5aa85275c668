//! ConfigMaps of a standalone node's own folder (`--local-objects`): they come, change, break and go, whoever fails meanwhile.

use std::time::Duration;

use podwright::actors::settings::Settings;
use podwright::logic::manifest::references::References;
use podwright::sim::{Crash, Fault, Options, SimPod, World, describe, run};
use serde_json::json;

use crate::common::{seeds, side_by_side};

const SEED: u64 = 5;

fn with_objects(settings: &mut Settings) {
    settings.sources.references = References::Local;
}

/// A pod that names a ConfigMap by a volume.
fn reader(name: &str, of: &str) -> SimPod {
    SimPod::of(name, "run").volume("settings", json!({ "configMap": { "name": of } }))
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn runs(world: &World, pod: &str) -> bool {
    world.running().iter().any(|label| label.starts_with(&format!("{pod}-")))
}

/// A pod waits for its object and runs with it; a file that breaks gives what it gave before, one that goes gives nothing.
async fn story(world: World) {
    world.put(&reader("first", "settings"));
    world.start_agent();
    pass(60).await;
    assert!(!runs(&world, "first"), "there is no such object");
    world.write_config_map("settings", "level", "1");
    // The folder is read every 20 s, though no hint of a change comes; a mount that failed is tried again within 2 minutes.
    pass(180).await;
    assert!(runs(&world, "first"), "{:?}", world.running());
    world.write_object_file("settings", "{");
    pass(60).await;
    world.put(&reader("second", "settings"));
    pass(180).await;
    assert!(runs(&world, "second"), "a broken file gives what it gave before");
    world.remove_object_file("settings");
    pass(60).await;
    world.put(&reader("third", "settings"));
    pass(60).await;
    assert!(!runs(&world, "third"), "its object is gone");
    assert!(runs(&world, "first") && runs(&world, "second"), "who runs, runs on");
    world.write_config_map("settings", "level", "2");
    pass(180).await;
    assert!(runs(&world, "third"), "{:?}", world.running());
    world.finish().await;
}

/// PAIN-38.
#[test]
fn local_objects_come_break_and_go() {
    side_by_side(&seeds(4, 2), |seed| {
        for faults in [[].into(), [Fault::Watches].into()] {
            let ended = run(*seed, Options { settings: with_objects, faults, ..Options::default() }, story);
            assert!(ended.violations.is_empty(), "{}", describe(&ended.violations, &ended.story));
        }
    });
}

/// Each of the first turns of the actors on the way of an object fails, before and after it.
#[test]
fn whoever_fails_an_object_reaches_its_pod() {
    let crashes: Vec<Crash> = ["LocalObjects", "ObjectCache", "VolumeManager"]
        .into_iter()
        .flat_map(|kind| (0..8).map(move |index| (kind, index)))
        .flat_map(|(kind, index)| [false, true].map(|after| Crash { kind: kind.to_owned(), index, after }))
        .collect();
    side_by_side(&crashes, |crash| {
        let options = Options { settings: with_objects, crash: Some(crash.clone()), ..Options::default() };
        let ended = run(SEED, options, story);
        assert!(ended.violations.is_empty(), "{crash}: {}", describe(&ended.violations, &ended.story));
    });
}
