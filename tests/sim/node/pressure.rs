//! Pressure that grows: leaks, fork bombs, floods of files and logs; and evictions that meet trouble on their way.

use std::sync::atomic::Ordering;
use std::time::Duration;

use podwright::actors::settings::Settings;
use podwright::sim::node::NODE_NAME;
use podwright::sim::node::appetites::Beside;
use podwright::sim::{Options, SimPod, World, run, simulate_with};
use serde_json::json;

use super::short::{A_ROUND, GIB, condition, evictions, in_a_cluster, is_evicted, seconds, status, watched};
use crate::common::started;

/// Waits until the status says that a pod was evicted, two minutes at most.
async fn evicted(world: &World, pod: &str) {
    for _ in 0..1200 {
        if is_evicted(world, pod) {
            return;
        }
        world.sleep(Duration::from_millis(100)).await;
    }
    panic!("{pod} is never evicted: {}", status(world, pod));
}

/// A pod that takes more and more is evicted, with this in its message; the other one stays. The condition comes and goes,
/// and a new pod runs.
fn grows(does: &'static str, kind: &'static str, low: &'static str, signal: &'static str) {
    simulate_with(1, in_a_cluster(watched), move |world| async move {
        started(&world, &[SimPod::of("modest", "run")]).await;
        world.create(&SimPod::of("greedy", does)).expect("made");
        evicted(&world, "greedy").await;
        let told = status(&world, "greedy");
        let message = told["message"].as_str().expect("it says why");
        assert!(message.starts_with(low), "{message}");
        world.sleep(seconds(12)).await;
        assert_eq!(condition(&world, kind), "True", "within the transition period");
        assert_eq!((evictions(&world, "greedy"), world.evictions_counted()), (1, vec![signal]));
        world.delete_pod("greedy", None);
        world.sleep(seconds(60)).await;
        assert_eq!(condition(&world, kind), "False");
        assert!(!is_evicted(&world, "modest"), "one was enough");
        world.create(&SimPod::of("later", "run")).expect("made");
        world.settle().await;
        assert!(world.running().iter().any(|name| name.contains("later")), "{:?}", world.running());
        world.finish_cluster().await;
    });
}

/// EVI-08, EVI-11, EVI-18, EVI-50.
#[test]
fn evi_18_a_flood_of_files_ends_with_its_pod() {
    let low = "The node was low on resource: inodes. Threshold quantity: 50, available: ";
    grows("run litters 20", "DiskPressure", low, "nodefs.inodesFree");
}

/// EVI-10, EVI-11, EVI-19, EVI-50.
#[test]
fn evi_19_a_fork_bomb_ends_with_its_pod() {
    let low = "The node was low on resource: pids. Threshold quantity: 3276, available: ";
    grows("run forks 700", "PIDPressure", low, "pid.available");
}

/// EVI-18, EVI-30: the removal of the dead container gives back what its layer took.
#[test]
fn evi_18_a_layer_that_fills_the_disk_ends_with_its_pod() {
    let low = "The node was low on resource: ephemeral-storage. Threshold quantity: 10737418400, available: ";
    grows("run fills 1073741824", "DiskPressure", low, "nodefs.available");
}

/// EVI-18: logs that nobody rotates.
#[test]
fn evi_18_a_flood_of_logs_ends_with_its_pod() {
    let unrotated = |settings: &mut Settings| {
        watched(settings);
        settings.logs.rotation = None;
    };
    simulate_with(1, in_a_cluster(unrotated), |world| async move {
        started(&world, &[SimPod::of("modest", "run writes 1000")]).await;
        world.put_beside(Beside { bytes: 40 * GIB, ..Beside::default() });
        world.create(&SimPod::of("flood", "run writes 1610612736")).expect("made");
        evicted(&world, "flood").await;
        world.sleep(seconds(60)).await;
        assert!(!is_evicted(&world, "modest"), "one was enough");
        world.delete_pod("flood", None);
        world.sleep(seconds(60)).await;
        assert_eq!(condition(&world, "DiskPressure"), "False");
        world.finish_cluster().await;
    });
}

/// PAIN-27: a leak is seen within a second of the crossing, whenever it crosses.
#[test]
fn pain_27_a_leak_is_stopped_within_a_second_of_the_crossing() {
    for mib in [40_u64, 150, 700] {
        let took = simulate_with(1, in_a_cluster(watched), move |world| async move {
            started(&world, &[SimPod::of("modest", "run")]).await;
            world.create(&SimPod::of("leak", &format!("run leaks {}", mib << 20))).expect("made");
            let is_running = |world: &World| world.running().iter().any(|name| name.contains("leak"));
            while !is_running(&world) {
                world.sleep(Duration::from_millis(10)).await;
            }
            let since = world.node().time.elapsed();
            while is_running(&world) {
                world.sleep(Duration::from_millis(10)).await;
                assert!(world.node().time.elapsed() < since + seconds(600), "it is never stopped");
            }
            let took = world.node().time.elapsed().saturating_sub(since);
            world.sleep(A_ROUND).await;
            assert!(is_evicted(&world, "leak") && !is_evicted(&world, "modest"));
            world.delete_pod("leak", None);
            world.finish_cluster().await;
            took
        });
        // The fixed figures hold some megabytes already.
        let crossing = Duration::from_millis(7 * 1024 * 1000 / mib);
        assert!(
            took < crossing + seconds(1),
            "{mib} MiB a second: stopped after {took:?}, crossed before {crossing:?}"
        );
    }
}

/// EVI-49: memory that is swapped out is neither used nor available.
#[test]
fn evi_49_swap_plays_no_part() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("swapped", "run"), SimPod::of("greedy", "run")]).await;
        world.use_memory("swapped", GIB);
        world.swap_out("swapped", 20 * GIB);
        world.sleep(seconds(60)).await;
        assert_eq!((world.running().len(), condition(&world, "MemoryPressure").as_str()), (2, "False"));
        world.use_memory("greedy", 13 * GIB / 2);
        world.sleep(A_ROUND).await;
        assert!(is_evicted(&world, "greedy") && !is_evicted(&world, "swapped"), "it ranks by memory alone");
        world.delete_pod("greedy", None);
        world.finish_cluster().await;
    });
}

/// EVI-16, EVI-37: a pod whose end the runtime never tells holds up the node for its kill (10 s) and half a minute.
#[test]
fn evi_37_a_pod_that_does_not_die_holds_up_no_other_eviction() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("undead", "run"), SimPod::of("second", "run"), SimPod::of("third", "run")]).await;
        // Its own end hangs; those that begin later do not.
        world.hang(Some("StopContainer"));
        world.use_memory("undead", 5 * GIB);
        world.use_memory("second", 3 * GIB);
        world.sleep(seconds(15)).await;
        world.hang(None);
        let reasons = world.event_reasons("undead");
        assert!(reasons.contains(&"ExceededGracePeriod".to_owned()), "{reasons:?}");
        assert!(!is_evicted(&world, "second"), "the end of the first one is still waited for");
        world.sleep(seconds(40)).await;
        assert!(is_evicted(&world, "second"), "{}", status(&world, "second"));
        world.sleep(seconds(60)).await;
        assert!(!is_evicted(&world, "third"), "that was enough");
        assert_eq!(evictions(&world, "undead"), 1);
        world.sleep(seconds(300)).await;
        assert!(is_evicted(&world, "undead"), "{}", status(&world, "undead"));
        world.delete_pod("undead", None);
        world.delete_pod("second", None);
        world.finish_cluster().await;
    });
}

/// The agent is killed at each of the calls between the decision and the end of the pod: the next one decides anew, and
/// the pod goes.
#[test]
fn an_agent_that_is_killed_while_it_evicts_leaves_nothing_undone() {
    let story = |options: Options| {
        simulate_with(3, options, |world| async move {
            started(&world, &[SimPod::of("greedy", "run"), SimPod::of("modest", "run")]).await;
            world.use_memory("greedy", 15 * GIB / 2);
            while world.evictions_counted().is_empty() {
                world.sleep(Duration::from_millis(1)).await;
            }
            let decided = world.node().calls.load(Ordering::Relaxed);
            world.sleep(seconds(60)).await;
            // As upstream, an agent that finds the container dead and no status of an eviction runs the pod again.
            let again = world.running().iter().any(|name| name.contains("greedy") && name.ends_with("#1"));
            assert!(is_evicted(&world, "greedy") || again, "{}", status(&world, "greedy"));
            assert!(!is_evicted(&world, "modest"));
            assert!(evictions(&world, "greedy") <= 2, "one for each agent");
            world.delete_pod("greedy", None);
            world.finish_cluster().await;
            (decided, world.incarnations())
        })
    };
    let (decided, _) = story(in_a_cluster(watched));
    let mut killed = 0;
    for call in decided - 2..decided + 10 {
        for after in [false, true] {
            let (_, incarnations) = story(Options { kill_at: Some((call, after)), ..in_a_cluster(watched) });
            killed += u64::from(incarnations > 1);
        }
    }
    assert!(killed >= 20, "the agent was killed in {killed} runs");
}

/// A disk on which nothing can be written: what runs goes on, no pod is refused for good, and all run once there is room.
#[test]
fn a_disk_without_room_for_state_loses_nothing() {
    simulate_with(1, in_a_cluster(watched), |world| async move {
        started(&world, &[SimPod::of("before", "run")]).await;
        world.refuse_writes(true);
        let asks = json!({ "requests": { "cpu": "100m", "memory": "64Mi" } });
        world.create(&SimPod::of("meanwhile", "run").field("resources", asks)).expect("made");
        world.sleep(seconds(90)).await;
        assert_eq!(status(&world, "meanwhile")["phase"], "Pending", "{}", status(&world, "meanwhile"));
        assert_eq!(world.running().len(), 1, "{:?}", world.running());
        world.kill_agent();
        world.sleep(seconds(60)).await;
        assert_eq!(world.running().len(), 1, "the next agent stops nothing: {:?}", world.running());
        assert_eq!(status(&world, "meanwhile")["phase"], "Pending");
        world.refuse_writes(false);
        world.settle().await;
        assert_eq!(world.running().len(), 2, "{:?}", world.running());
        world.finish_cluster().await;
    });
}

/// The same seed tells the same story, growth and evictions included.
#[test]
fn pressure_is_told_alike_twice() {
    let story = || {
        let run = run(7, in_a_cluster(watched), |world| async move {
            started(&world, &[SimPod::of("leak", "run leaks 268435456"), SimPod::of("bomb", "run forks 900")]).await;
            world.sleep(seconds(120)).await;
            assert!(world.event_reasons(NODE_NAME).contains(&"EvictionThresholdMet".to_owned()));
        });
        assert_eq!(run.violations, []);
        run.story.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(story(), story());
}
