//! Settings that change while the agent runs, among crashes of those that act on them.

use std::time::Duration;

use podwright::logic::logs::log_rotation::RotationPolicy;
use podwright::messages::root::LiveSettings;
use podwright::sim::{Crash, Options, SimPod, World, describe, run, simulate, simulate_with};

use super::short::{in_a_cluster, is_evicted, watched};
use crate::common::{side_by_side, started};

const MIB: u64 = 1 << 20;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn smaller_logs(live: &mut LiveSettings) {
    let policy = RotationPolicy { bytes_max: 2 * MIB, files_max: 3, workers: 1, interval: seconds(10) };
    live.log_rotation = Some(policy);
}

fn largest_log(world: &World) -> u64 {
    world.node().disk.lock().expect("no test panicked").writing.largest
}

/// A log of a megabyte a second, whose bound falls from 10 MiB to 2 MiB after three seconds.
async fn story(world: World) -> u64 {
    world.put(&SimPod::of("web", "run writes 1000000"));
    world.start_agent();
    world.sleep(seconds(3)).await;
    world.reload(smaller_logs).await;
    world.sleep(seconds(120)).await;
    let largest = largest_log(&world);
    world.finish().await;
    largest
}

#[test]
fn an_actor_that_restarts_after_a_reload_has_the_new_settings() {
    let crash = |index| Crash { kind: "LogRotator".to_owned(), index, after: index % 2 == 1 };
    let crashes: Vec<Option<Crash>> = (0..40).map(crash).map(Some).chain([None]).collect();
    side_by_side(&crashes, |crash| {
        let options = Options { crash: crash.clone(), ..Options::default() };
        let run = run(1, options, story);
        assert!(run.violations.is_empty(), "{crash:?}: {}", describe(&run.violations, &run.story));
        // It grows on while an actor that failed is away.
        assert!(run.value <= 8 * MIB, "{} bytes, after {crash:?}", run.value);
    });
}

/// The message itself is lost with the actor that it was for.
#[test]
fn an_actor_that_fails_at_the_reload_begins_with_the_new_settings() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run writes 1000000"));
        world.start_agent();
        world.sleep(seconds(3)).await;
        world.crash_next("LogRotator");
        world.reload(smaller_logs).await;
        world.sleep(seconds(120)).await;
        assert!(largest_log(&world) <= 8 * MIB, "{} bytes", largest_log(&world));
        world.finish().await;
    });
}

#[test]
fn logs_of_pods_that_run_already_are_rotated_once_that_is_asked_for() {
    let options = Options { settings: |settings| settings.logs.rotation = None, ..Options::default() };
    simulate_with(1, options, |world| async move {
        world.put(&SimPod::of("web", "run writes 1000000"));
        world.start_agent();
        world.sleep(seconds(30)).await;
        assert_eq!(largest_log(&world), 0, "nobody looks at logs");
        world.reload(smaller_logs).await;
        world.sleep(seconds(120)).await;
        // The first look finds what grew in half a minute; without rotation it would be five times that.
        let largest = largest_log(&world);
        assert!((20 * MIB..=50 * MIB).contains(&largest), "{largest} bytes");
        world.finish().await;
    });
}

/// PAIN-35.
#[test]
fn thresholds_that_come_with_a_reload_evict() {
    for crashes in [false, true] {
        simulate_with(1, in_a_cluster(|_| {}), move |world| async move {
            started(&world, &[SimPod::of("modest", "run"), SimPod::of("greedy", "run forks 700")]).await;
            world.sleep(seconds(120)).await;
            assert!(!is_evicted(&world, "greedy"), "there is no threshold yet");
            if crashes {
                world.crash_next("EvictionManager");
            }
            let mut settings = world.agent().expect("runs").agent.settings.clone();
            watched(&mut settings);
            world.reload(|live| live.eviction = settings.live().eviction).await;
            world.sleep(seconds(120)).await;
            assert!(is_evicted(&world, "greedy") && !is_evicted(&world, "modest"));
            world.finish_cluster().await;
        });
    }
}
