//! The standard scenario of a node with drivers beside the agent: pods that ask for what drivers bring, made and deleted while
//! things go wrong.

use std::time::Duration;

use serde_json::json;

use crate::logic::resources::device_manager::devices::PluginOptions;
use crate::sim::world::drivers::{DISK, DRA, GPU, NIC, SHARE};
use crate::sim::{SimPod, World};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The drivers of both scenarios.
fn begin(world: &World) {
    world.add_device_plugin(GPU, &["a@0", "b@0", "c@1", "d@1"], PluginOptions { pre_start: true, preferred: true });
    world.add_registered_plugin(NIC, &["eth1", "eth2"], PluginOptions::default());
    world.add_csi_driver(DISK, true);
    world.add_csi_driver(SHARE, false);
    world.add_claim_driver(DRA);
    world.share_claim("shared", DRA);
    ["data-0", "data-1"].iter().for_each(|name| world.add_volume(name, DISK));
    world.add_volume("data-2", SHARE);
    world.add_block_volume("disk", DISK);
    world.add_volume_for_one_pod("single", DISK);
}

/// The pods of the scenario, by turns.
pub fn pod(number: usize) -> SimPod {
    let name = format!("pod-{number}");
    let inline = json!({ "csi": { "driver": SHARE, "volumeAttributes": { "of": name } } });
    match number % 12 {
        0 => SimPod::of(&name, "run").device(GPU, 1).persistent("data-0").grace(3),
        1 => SimPod::of(&name, "run").claim(DRA),
        2 => SimPod::of(&name, "run").persistent("data-0").persistent("data-1").block("disk"),
        3 => SimPod::of(&name, "exit 0 after 5s").device(GPU, 1).restarts("Never"),
        4 => SimPod::new(&name)
            .init("setup", "exit 0 after 2s")
            .container("main", "run")
            .device(NIC, 1)
            .persistent("single")
            .grace(2),
        5 => SimPod::of(&name, "run").shared_claim("shared").grace(2),
        6 => SimPod::of(&name, "run").volume("own", inline).device(GPU, 2),
        7 => SimPod::of(&name, "exit 1 after 4s").shared_claim("shared").persistent("data-2"),
        8 => SimPod::of(&name, "exit 0 after 4s").restarts("Never").claim(DRA).persistent("data-1"),
        9 => SimPod::of(&name, "run").device(NIC, 1).container("side", "run").device(GPU, 1).persistent("single"),
        10 => SimPod::of(&name, "exit 1 after 4s").device(GPU, 1).block("disk"),
        _ => SimPod::of(&name, "run").volume("own", inline).persistent("data-2"),
    }
}

/// Runs the scenario with so many pods for so long, then lets all become quiet and go away.
pub async fn standard(world: World, pods: usize, time: Duration) {
    begin(&world);
    world.start_agent();
    world.sleep(seconds(3)).await;
    world.add_hopeless();
    for number in 0..pods {
        drop(world.create(&pod(number)));
        world.sleep(world.random().between(Duration::ZERO, seconds(3))).await;
    }
    let end = world.node().time.elapsed().max(seconds(1)) + time;
    let mut second = None;
    while world.node().time.elapsed() < end {
        world.until_next_deed(seconds(1), seconds(8)).await;
        let number = usize::try_from(world.random().below(pods as u64)).unwrap_or_default();
        let name = pod(number).name;
        match world.random().below(8) {
            0 | 1 => world.delete_pod(&name, None),
            2 => world.delete_pod(&name, Some(0)),
            3 => {
                second = match second {
                    None => Some(world.add_second_driver(if world.random().chance(0.5) { DRA } else { DISK })),
                    Some(endpoint) => {
                        world.remove_driver(&endpoint);
                        None
                    }
                };
            }
            4 => {
                let volumes = ["data-0", "data-1", "data-2", "disk", "single"];
                world.grow_volume(volumes[usize::try_from(world.random().below(5)).unwrap_or_default()]);
            }
            _ => drop(world.create(&pod(number))), // It may be there still, or have no place here.
        }
    }
    world.finish_cluster().await;
}

/// A short fixed story for crashes at each message and kills at each call.
pub async fn short(world: World) {
    begin(&world);
    drop(world.create(&pod(1)));
    world.start_agent();
    world.sleep(seconds(4)).await;
    drop(world.create(&pod(0)));
    drop(world.create(&pod(4)));
    drop(world.create(&pod(5)));
    drop(world.create(&pod(6)));
    world.sleep(seconds(6)).await;
    [GPU, DISK, DRA].iter().for_each(|name| world.kill_driver(name));
    world.delete_pod(&pod(0).name, None);
    world.delete_pod(&pod(1).name, None);
    world.sleep(seconds(2)).await;
    [GPU, DISK, DRA].iter().for_each(|name| world.start_driver(name));
    world.delete_pod(&pod(4).name, Some(0));
    world.grow_volume("data-2");
    drop(world.create(&pod(7)));
    drop(world.create(&pod(9)));
    world.sleep(seconds(5)).await;
    world.finish_cluster().await;
}
