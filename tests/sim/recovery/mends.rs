//! The knowledge that single parts of the agent need after they began anew, and the images kept from garbage collection.

use std::time::Duration;

use podwright::sim::{Options, SimPod, World, simulate, simulate_with};
use serde_json::json;

use crate::common::times_of;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn in_a_cluster() -> Options {
    Options { cluster: true, ..Options::default() }
}

/// POD-10, CRI-20: what ended while neither the agent nor the API server was there is known when both are back: dead
/// containers of pods that may be wanted stay until it is known which ones are.
#[test]
fn both_halves_of_a_pod_are_told_how_they_ended_after_a_boot_without_the_api_server() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let pod = SimPod::of("job", "exit 3 after 20s").container("other", "exit 0 after 200s").restarts("Never");
        world.create(&pod).expect("made");
        world.start_agent();
        world.sleep(seconds(10)).await;
        assert_eq!(world.running().len(), 2);
        world.stop_agent();
        world.link().go_away(world.node(), seconds(1200));
        world.sleep(seconds(60)).await;
        world.start_agent();
        world.sleep(seconds(1150)).await;
        let left = world.node().containers.lock().expect("no panic before").containers.len();
        assert_eq!(left, 2, "dead ones of a pod that may be wanted");
        world.sleep(seconds(120)).await;
        let status = world.api_pod("job").expect("it is there")["status"].clone();
        let codes: Vec<_> = (0..2).map(|index| &status["containerStatuses"][index]["state"]["terminated"]).collect();
        assert_eq!(codes.iter().map(|end| &end["exitCode"]).collect::<Vec<_>>(), [&json!(3), &json!(0)], "{status}");
        assert_eq!(status["phase"], "Failed");
        world.finish_cluster().await;
    });
}

/// PAIN-10, POD-26: a pod that is wanted by the offline store's word has what it was given, not what it asked for in vain;
/// also when the one who knows the pods began anew.
#[test]
fn a_recalled_pod_has_what_it_was_given() {
    let options = Options { offline: true, ..in_a_cluster() };
    simulate_with(1, options, |world| async move {
        let little = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "200m" } });
        world.create(&SimPod::of("web", "run").field("resources", little)).expect("made");
        world.start_agent();
        world.settle().await;
        assert_eq!(world.in_force("web", "main").map(|has| has.0), Some(102));
        world.resize_pod("web", "main", &json!({ "requests": { "cpu": "64" }, "limits": { "cpu": "64" } }));
        world.sleep(seconds(90)).await;
        assert_eq!(world.in_force("web", "main").map(|has| has.0), Some(102), "the node has no 64 processors");
        world.link().go_away(world.node(), seconds(1200));
        world.reset_machine();
        world.sleep(seconds(300)).await;
        assert_eq!(world.in_force("web", "main").map(|has| has.0), Some(102), "recalled");
        world.crash_next("PodManager");
        for _ in 0..3000 {
            world.sleep(Duration::from_millis(20)).await;
            assert_eq!(world.in_force("web", "main").map(|has| has.0), Some(102), "recalled once more");
        }
        assert_eq!(times_of(&world, "PodManager panics").len(), 1);
        world.finish_cluster().await;
    });
}

/// CRI-30: nobody tells of a pod that vanished while the one who looks at the runtime began anew; it is looked for.
#[test]
fn a_pod_that_vanishes_while_pleg_begins_anew_is_made_again() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.settle().await;
        world.crash_next("Pleg");
        while times_of(&world, "Pleg panics").is_empty() {
            world.sleep(Duration::from_millis(1)).await;
        }
        {
            let mut containers = world.node().containers.lock().expect("no panic before");
            containers.containers.clear();
            containers.sandboxes.clear();
        }
        assert!(world.settle().await < seconds(60), "it is not found by chance");
        assert_eq!(world.running().len(), 1);
        world.finish().await;
    });
}

/// POD-14, VOL-15: a pod whose volume cannot be unmounted keeps nothing of its own but the volume's part of the disk, and
/// that goes when it can; also when the agent was replaced meanwhile.
#[test]
fn a_pod_whose_volume_does_not_unmount_leaves_nothing_in_the_end() {
    for restart in [false, true] {
        simulate(1, move |world| async move {
            world.put(&SimPod::of("web", "run").volume("data", json!({ "emptyDir": {} })).grace(2));
            world.start_agent();
            world.settle().await;
            world.hang_volume(Some("tear down data"));
            world.delete("web");
            world.sleep(seconds(120)).await;
            if restart {
                world.kill_agent();
            }
            world.sleep(seconds(600)).await;
            assert!(world.running().is_empty());
            assert_eq!(world.node().disk.lock().expect("no panic before").volumes.len(), 1, "it is there still");
            world.hang_volume(None);
            world.finish().await;
        });
    }
}

/// RES-62: a container that the kernel kills for its memory says so, and is started again.
#[test]
fn a_container_that_takes_too_much_memory_is_told_so_and_started_again() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.settle().await;
        let id = {
            let containers = world.node().containers.lock().expect("no panic before");
            containers.containers.keys().next().cloned().expect("one runs")
        };
        world.node().kill_for_memory(&id);
        world.settle().await;
        let views = world.statuses().await.expect("the agent answers");
        let status = &views[0].status.container_statuses.as_ref().expect("told")[0];
        let last = status.last_state.clone().and_then(|last| last.terminated).expect("it ended");
        assert_eq!((last.exit_code, last.reason.as_deref()), (137, Some("OOMKilled")));
        assert!(status.restart_count == 1 && status.state.clone().is_some_and(|state| state.running.is_some()));
        world.finish().await;
    });
}

/// A node on which a pod used an image that nobody needs any more, and whose disk is full from now on; when the image went.
async fn node_with_an_unused_image(world: &World) {
    world.put(&SimPod::of("first", "run").image("data:1").grace(2));
    world.start_agent();
    world.settle().await;
    world.delete("first");
    world.settle().await;
    world.sleep(seconds(200)).await;
    world.fill_images(true);
}

/// EVI-40, EVI-42.
/// CRI-26: an image that nobody uses goes when the disk is full; one that containers have, or have mounted, stays.
#[test]
fn a_full_disk_takes_unused_images_and_no_mounted_ones() {
    simulate(1, |world| async move {
        let volume = json!({ "image": { "reference": "mounted:1", "pullPolicy": "IfNotPresent" } });
        world.put(&SimPod::of("web", "run").volume("data", volume));
        node_with_an_unused_image(&world).await;
        world.sleep(seconds(900)).await;
        let names: Vec<String> = world.node().images.lock().expect("no panic before").present.keys().cloned().collect();
        assert_eq!(names, ["app:1", "mounted:1"]);
        assert_eq!(times_of(&world, "image data:1 is removed").len(), 1);
        world.finish().await;
    });
}

/// EVI-40: an image that a pod was given stays although the disk is full, and no container has it yet: it would be made in
/// vain.
#[test]
fn an_image_that_a_pod_was_given_stays_until_its_container_is_made() {
    for wait in [0, 60, 120, 180, 240, 300] {
        simulate(1, move |world| async move {
            node_with_an_unused_image(&world).await;
            world.sleep(seconds(wait)).await;
            world.hang(Some("CreateContainer"));
            world.put(&SimPod::of("second", "run").image("data:1"));
            world.sleep(seconds(10)).await; // The image is pulled, where it has gone by now.
            let before = times_of(&world, "image data:1 is removed").len();
            world.sleep(seconds(90)).await;
            assert_eq!(times_of(&world, "image data:1 is removed").len(), before, "after {wait} s");
            world.hang(None);
            world.settle().await;
            world.finish().await;
        });
    }
}

/// The actor's word on itself.
fn note(world: &World, actor: &str) -> Option<String> {
    let agent = world.agent().expect("it runs");
    agent.agent.trace.actors().into_iter().find(|one| &*one.name == actor).expect("it is there").note
}

/// VOL-50: the agent forgets objects of a pod that nobody knows any more. Their watches would end by themselves, when nobody
/// has asked for minutes; what they hold, Secrets too, would stay for ever.
#[test]
fn objects_of_a_pod_that_nobody_knows_are_let_go_of() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.write_data("configmaps", "settings", "level", "1");
        let source = json!({ "configMap": { "name": "settings" } });
        world.create(&SimPod::of("web", "run").volume("settings", source).grace(2)).expect("made");
        world.start_agent();
        world.settle().await;
        let all = "1 objects referred to, 1 of them watched";
        assert_eq!(note(&world, "ObjectCache").as_deref(), Some(all));
        world.crash_next("PodManager");
        world.delete_pod("web", Some(0));
        world.settle().await;
        assert_eq!(times_of(&world, "PodManager panics").len(), 1);
        assert_eq!(note(&world, "ObjectCache"), None);
        world.finish_cluster().await;
    });
}

/// CRI-29: an outage of the runtime that breaks more attempts to open its event stream than are borne turns nothing off for
/// long: with the first relist after it the stream is open again, and relists are rare.
#[test]
fn an_outage_of_the_runtime_costs_its_event_stream_no_more_than_the_outage() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.settle().await;
        world.restart_runtime(seconds(9));
        world.sleep(seconds(14)).await;
        let before = world.turns()["Pleg"];
        world.sleep(seconds(40)).await;
        let turns = world.turns()["Pleg"] - before;
        assert!(turns < 20, "{turns} turns in 40 s: a relist each second, not an event stream");
        world.finish().await;
    });
}
