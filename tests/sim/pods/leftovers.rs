//! Remains of pods that have ended: who waits for them, who removes them, and when.

use std::time::Duration;

use podwright::logic::volumes::order::{VolumePlace, plugin};
use podwright::sim::node::disk::LOGS_KEPT_MAX;
use podwright::sim::{Options, SimPod, World, describe, run, simulate_with};
use serde_json::json;

use super::resize::{in_a_cluster, seconds};
use crate::common::started;

fn pod() -> SimPod {
    SimPod::of("web", "run stops in 1s").volume("cache", json!({ "emptyDir": {} })).grace(5)
}

/// How many sandboxes the runtime holds.
fn sandboxes(world: &World) -> usize {
    world.node().containers.lock().expect("no panic before").sandboxes.len()
}

fn containers(world: &World) -> usize {
    world.node().containers.lock().expect("no panic before").containers.len()
}

fn logs(world: &World) -> usize {
    world.node().disk.lock().expect("no panic before").logs.len()
}

/// The agent's words about pods that wait.
async fn waits(world: &World) -> Vec<String> {
    let views = world.statuses().await.expect("the agent answers");
    views.iter().flat_map(|view| view.waits()).collect()
}

/// A pod is deleted and goes from the API although the runtime hangs in this call; then another one has its name.
async fn replaced_while_removal_hangs(world: &World, call: &'static str) {
    started(world, &[pod()]).await;
    world.hang(Some(call));
    world.delete_pod("web", None);
    world.sleep(seconds(10)).await;
    assert!(world.api_pod("web").is_none(), "{call}: {:?}", world.api_pod("web"));
    world.create(&pod()).expect("the name is free");
}

/// POD-14, POD-36, CRI-20: a sandbox that cannot be removed keeps neither the pod's object nor another pod of its name; the
/// status says that it is still to be removed, and it is tried until it is gone.
#[test]
fn a_sandbox_that_cannot_be_removed_holds_up_nobody() {
    simulate_with(1, in_a_cluster(), |world| async move {
        replaced_while_removal_hangs(&world, "RemovePodSandbox").await;
        world.sleep(seconds(10)).await;
        assert_eq!((world.running().len(), sandboxes(&world)), (1, 2));
        assert_eq!(waits(&world).await, ["has ended, waits for what is left of it to be removed"]);
        world.hang(None);
        world.settle().await;
        assert_eq!((world.running().len(), sandboxes(&world)), (1, 1));
        world.finish_cluster().await;
    });
}

/// CRI-20, PAIN-14: a removal that has failed is not forgotten with the agent that tried it: the next one goes on, for a pod
/// that nobody knows by then, and another of its name runs meanwhile.
#[test]
fn a_removal_that_fails_is_gone_on_with_by_the_next_agent() {
    for what in ["RemovePodSandbox", "RemoveContainer"] {
        simulate_with(1, in_a_cluster(), move |world| async move {
            replaced_while_removal_hangs(&world, what).await;
            world.kill_agent();
            world.sleep(seconds(120)).await;
            assert_eq!((world.running().len(), sandboxes(&world)), (1, 2), "{what}");
            world.hang(None);
            world.sleep(seconds(120)).await;
            assert_eq!((world.running().len(), sandboxes(&world), containers(&world)), (1, 1, 1), "{what}");
            world.finish_cluster().await;
        });
    }
}

/// POD-09: an edited manifest is not held up by what is left of the pod that it was before.
#[test]
fn an_edited_static_pod_does_not_wait_for_what_is_left_of_the_one_before() {
    simulate_with(1, Options::default(), |world| async move {
        world.put(&pod());
        world.start_agent();
        world.settle().await;
        world.hang(Some("RemoveContainer"));
        world.put(&pod().image("app:2"));
        world.sleep(seconds(15)).await;
        assert_eq!((world.running().len(), containers(&world)), (1, 2));
        world.hang(None);
        world.settle().await;
        assert_eq!((world.running().len(), containers(&world)), (1, 1));
        world.finish().await;
    });
}

/// Its volumes hang as they are unmounted: the pod is in the API for as long.
async fn stays_until_unmounted(world: &World) {
    world.sleep(seconds(100)).await;
    assert!(world.api_pod("web").is_some());
    world.hang_volume(None);
    world.sleep(seconds(60)).await;
    assert!(world.api_pod("web").is_none());
    world.finish_cluster().await;
}

/// POD-36, VOL-04: until its volumes are unmounted the pod stays in the API. That holds for an agent that was started since,
/// too, when the runtime holds nothing of the pod any more.
#[test]
fn a_pod_stays_in_the_api_until_its_volumes_are_unmounted() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod()]).await;
        world.hang_volume(Some("tear down cache"));
        world.delete_pod("web", None);
        world.sleep(seconds(20)).await;
        assert_eq!((sandboxes(&world), world.api_pod("web").is_some()), (0, true), "its removal waits for no volume");
        world.kill_agent();
        stays_until_unmounted(&world).await;
    });
}

/// POD-36: the same of a pod whose containers somebody removed while the agent was away.
#[test]
fn a_pod_that_was_removed_from_the_runtime_stays_in_the_api_until_its_volumes_are_unmounted() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod()]).await;
        world.stop_agent();
        world.remove_from_runtime("web");
        world.delete_pod("web", None);
        world.hang_volume(Some("tear down cache"));
        world.start_agent();
        stays_until_unmounted(&world).await;
    });
}

/// POD-36: the agent's word that such a pod stays in the API goes with the pod.
#[test]
fn a_pod_that_stays_in_the_api_is_told_of_no_longer_than_it_stays() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod()]).await;
        world.stop_agent();
        world.remove_from_runtime("web");
        world.delete_pod("web", None);
        world.fail("tear down", 1000);
        world.start_agent();
        world.sleep(seconds(60)).await;
        let note = || {
            let actors = world.agent().expect("an agent").agent.trace.actors();
            actors.into_iter().find(|actor| actor.kind == "PodManager").and_then(|actor| actor.note)
        };
        assert!(note().is_some_and(|note| note.starts_with("web_default stays in the API: ")), "{:?}", note());
        world.delete_pod("web", Some(0));
        world.sleep(seconds(60)).await;
        assert_eq!(note(), None);
        world.fail("tear down", 0);
        world.finish_cluster().await;
    });
}

/// POD-36, VOL-13: a volume of such a pod that is busy for a moment is asked after as soon as it is tried again.
#[test]
fn a_pod_that_was_removed_from_the_runtime_goes_soon_after_its_busy_volume() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod()]).await;
        world.stop_agent();
        world.remove_from_runtime("web");
        world.delete_pod("web", None);
        world.fail("tear down", 1);
        world.start_agent();
        world.sleep(seconds(5)).await;
        assert!(world.api_pod("web").is_none());
        world.finish_cluster().await;
    });
}

/// POD-36: the invariant `gone-first` sees a volume that is there when its pod is taken from the API: here of a pod that names none,
/// so that the agent does not look for it.
#[test]
fn a_volume_that_outlives_its_pods_object_breaks_gone_first() {
    let run = run(1, in_a_cluster(), |world| async move {
        let uid = world.create(&SimPod::of("web", "run")).expect("made");
        world.start_agent();
        world.settle().await;
        let place = VolumePlace { uid, plugin: plugin::EMPTY_DIR.to_owned(), name: "x".to_owned(), is_device: false };
        world.node().disk.lock().expect("no panic before").volumes.insert(place);
        world.delete_pod("web", None);
        world.sleep(seconds(60)).await;
    });
    let broken: Vec<(&str, &str)> = run.violations.iter().map(|one| (one.name, one.how.as_str())).collect();
    let expected = "web is taken from the API while a volume of it is there";
    assert_eq!(broken, [("gone-first", expected)], "{}", describe(&run.violations, &run.story));
}

/// CRI-20: dead containers of a pod that is gone stay for as long as `--minimum-container-ttl-duration` says, and hold up
/// nobody; sandboxes that hold one stay with it.
#[test]
fn dead_containers_of_a_deleted_pod_are_kept_where_that_is_asked_for() {
    let options =
        Options { settings: |settings| settings.runtime.garbage.age_min = Duration::from_secs(120), ..in_a_cluster() };
    simulate_with(1, options, |world| async move {
        world.create(&pod()).expect("made");
        world.start_agent();
        world.sleep(seconds(20)).await;
        world.delete_pod("web", None);
        world.sleep(seconds(20)).await;
        assert!(world.api_pod("web").is_none());
        assert_eq!((containers(&world), sandboxes(&world)), (1, 1));
        world.kill_agent();
        world.sleep(seconds(40)).await;
        assert_eq!((containers(&world), sandboxes(&world)), (1, 1), "80 s after it was made");
        world.sleep(seconds(60)).await;
        assert_eq!((containers(&world), sandboxes(&world)), (0, 0));
        world.finish_cluster().await;
    });
}

/// POD-33: logs of a deleted pod are there for a minute after its end, and not much longer; on a full disk not so long. An
/// agent that was started since goes by what the disk says.
#[test]
fn logs_outlive_their_pod_by_a_minute() {
    for (is_full, restarts) in [(false, false), (true, false), (false, true)] {
        simulate_with(1, in_a_cluster(), move |world| async move {
            world.node().images.lock().expect("no panic before").disk_is_full = is_full;
            started(&world, &[pod()]).await;
            world.delete_pod("web", None);
            world.sleep(seconds(10)).await;
            assert!(world.api_pod("web").is_none());
            assert_eq!((containers(&world), logs(&world)), (0, 1));
            if restarts {
                world.kill_agent();
            }
            world.sleep(seconds(45)).await;
            assert_eq!(logs(&world), usize::from(!is_full), "restarted {restarts}");
            world.sleep(LOGS_KEPT_MAX).await;
            assert_eq!(logs(&world), 0);
            world.finish_cluster().await;
        });
    }
}
