//! The standard scenario of a node in a cluster: pods of the API server beside static ones, made, changed and deleted
//! while things go wrong.

use std::time::Duration;

use serde_json::json;

use super::scenario::pod as any_pod;
use crate::sim::{SimPod, World};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The ConfigMap that some pods need.
const SETTINGS: &str = "settings";

/// The pods of the scenario, by turns: every kind of the standard one, and such as need objects of the API.
pub fn pod(number: usize) -> SimPod {
    let name = format!("pod-{number}");
    match number % 10 {
        // The status of such a pod shows the request for a disk before and after the pod runs, and not in between.
        8 => SimPod::of(&name, "run")
            .field("resources", json!({ "requests": { "cpu": "10m", "ephemeral-storage": "1Mi" } }))
            .volume("settings", json!({ "configMap": { "name": SETTINGS } })),
        9 => {
            let token = json!({ "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } });
            let secret = json!({ "secret": { "name": "password" } });
            SimPod::of(&name, "run").volume("identity", json!({ "projected": { "sources": [token, secret] } })).grace(3)
        }
        other => SimPod { name, ..any_pod(other) },
    }
}

fn fixed(number: usize) -> SimPod {
    SimPod { name: format!("static-{number}"), ..any_pod([0, 3, 4][number % 3]) }
}

/// Runs the scenario with so many pods for so long, then lets all become quiet and go away.
pub async fn standard(world: World, pods: usize, time: Duration) {
    world.start_agent();
    world.add_hopeless();
    let statics = pods / 3;
    for number in 0..statics {
        world.put(&fixed(number));
    }
    for number in 0..pods {
        drop(world.create(&pod(number)));
        if number % 3 == 2 {
            world.sleep(world.random().between(Duration::ZERO, seconds(4))).await;
        }
    }
    // Pods wait for what they need.
    world.write_data("configmaps", SETTINGS, "level", "1");
    world.write_data("secrets", "password", "password", "aHVudGVyMg==");
    let end = world.node().time.elapsed().max(seconds(1)) + time;
    let mut turn = 0_usize;
    while world.node().time.elapsed() < end {
        world.until_next_deed(seconds(1), seconds(8)).await;
        turn += 1;
        step(&world, pods, statics, turn).await;
    }
    world.calm_down().await;
    world.check_calm().await;
    world.finish_cluster().await;
}

/// One thing that somebody does.
async fn step(world: &World, pods: usize, statics: usize, turn: usize) {
    let random = world.random();
    let below = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap_or_default();
    let number = below(pods);
    let name = pod(number).name;
    match random.below(12) {
        0 | 1 => world.delete_pod(&name, None),
        2 => world.delete_pod(&name, Some(0)),
        3 => {
            world.delete_pod(&name, Some(20));
            world.sleep(random.between(Duration::ZERO, seconds(3))).await;
            world.delete_pod(&name, Some(2));
        }
        4..=6 => drop(world.create(&pod(number))), // It may be there still.
        7 => world.mark_pod(&name, if turn.is_multiple_of(2) { "labels" } else { "annotations" }, &turn.to_string()),
        8 => world.write_data("configmaps", SETTINGS, "level", &turn.to_string()),
        9 if statics > 0 => {
            let number = below(statics);
            world.put(&fixed(number).image(&format!("app:{}", turn + 1)));
        }
        10 if statics > 0 => world.delete(&fixed(below(statics)).name),
        _ if random.chance(0.2) => world.delete_node().await,
        // Somebody takes a mirror away; its pod never notices.
        _ => world.delete_pod(&format!("static-{}-node-1", below(statics.max(1))), None),
    }
}

/// A short fixed story for crashes at each message and kills at each call: start, change, delete, a mirror.
pub async fn short(world: World) {
    world.put(&SimPod::of("fixed", "run"));
    drop(world.create(&SimPod::new("web").init("setup", "exit 0 after 1s").container("main", "run").grace(3)));
    let settings = json!({ "configMap": { "name": SETTINGS } });
    drop(world.create(&SimPod::of("conf", "run").volume("settings", settings)));
    world.start_agent();
    world.sleep(seconds(5)).await;
    world.write_data("configmaps", SETTINGS, "level", "1");
    drop(world.create(&SimPod::of("job", "exit 0 after 2s").restarts("Never")));
    world.mark_pod("web", "labels", "yes");
    world.sleep(seconds(7)).await;
    world.delete_pod("web", None);
    world.delete("fixed");
    world.sleep(seconds(6)).await;
    world.finish_cluster().await;
}
