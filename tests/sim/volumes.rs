//! Pods with volumes: there before the containers, gone after them, whatever fails in between.

use std::time::Duration;

use podwright::sim::faults::parse_list;
use podwright::sim::{Options, SimPod, describe, run, simulate};
use serde_json::json;

use crate::common::{seeds, side_by_side};

fn pod(name: &str) -> SimPod {
    let about = json!({ "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "metadata.name" } }] } });
    SimPod::of(name, "run").volume("cache", json!({ "emptyDir": {} })).volume("about", about)
}

/// VOL-04, VOL-06: what is mounted for a pod goes with it, also when the agent was killed meanwhile.
#[test]
fn volumes_come_before_containers_and_go_after_them() {
    simulate(1, |world| async move {
        world.put(&pod("web"));
        world.start_agent();
        world.settle().await;
        assert_eq!(world.running().len(), 1);
        world.kill_agent();
        world.delete("web");
        world.start_agent();
        world.finish().await;
        assert!(world.running().is_empty());
    });
}

/// A full disk, lost answers, a dying runtime, and every actor crashed now and then.
#[test]
fn nothing_of_a_pods_volumes_is_left_whatever_goes_wrong() {
    side_by_side(&seeds(24, 8), |seed| {
        for faults in ["disk", "disk,crashes,kills", "lost-answers,runtime-restarts,disk"] {
            let faults = parse_list(faults).expect("a list of faults");
            let options = Options { faults, ..Options::default() };
            let run = run(*seed, options, |world| async move {
                world.start_agent();
                for name in ["a", "b", "c"] {
                    world.put(&pod(name));
                    world.sleep(Duration::from_secs(7)).await;
                }
                world.delete("b");
                world.sleep(Duration::from_secs(20)).await;
                world.finish().await;
            });
            assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
        }
    });
}
