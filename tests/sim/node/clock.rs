//! A wall clock that somebody sets back or ahead while pods run. Random steps are the fault `clock-steps`.

use std::time::Duration;

use podwright::sim::{SimPod, World, simulate};
use serde_json::json;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn times_of(world: &World, begin: &str, end: &str) -> Vec<Duration> {
    let fits = |what: &str| what.contains(begin) && what.ends_with(end);
    world.story().into_iter().filter(|line| fits(&line.what)).map(|line| line.at).collect()
}

/// Waits for the line; when it came first.
async fn until(world: &World, begin: &str, end: &str) -> Duration {
    for _ in 0..2000 {
        if let Some(at) = times_of(world, begin, end).first() {
            return *at;
        }
        world.sleep(Duration::from_millis(100)).await;
    }
    panic!("no {begin}…{end}: {:#?}", world.story());
}

/// CRI-14, POD-19, POD-20: one step between two instances of a container, another across a restart of the agent. Nothing runs
/// twice and no init container again; each wait between an end and the next start is the one that is due.
#[test]
fn a_clock_that_is_set_starts_nothing_twice() {
    for (first, second) in [(-HOUR, -24 * HOUR), (24 * HOUR, -HOUR), (-3 * SECOND, -15 * SECOND)] {
        simulate(1, move |world| async move {
            world.put(&SimPod::new("web").init("setup", "exit 0 after 1s").container("main", "run"));
            world.put(&SimPod::of("crash", "exit 1 after 2s"));
            world.start_agent();
            until(&world, "web-node-1/main#0", " runs").await;
            until(&world, "crash-node-1/main#1", " runs").await;
            world.node().step_clock(first);
            until(&world, "crash-node-1/main#2", " runs").await;
            world.stop_agent();
            world.node().step_clock(second);
            world.sleep(Duration::from_millis(100)).await;
            world.start_agent();
            for (number, due) in [(2, 10), (3, 20), (4, 40), (5, 80)] {
                let runs = until(&world, &format!("crash-node-1/main#{number}"), " runs").await;
                let ended = until(&world, &format!("crash-node-1/main#{} ends", number - 1), "").await;
                let wait = runs - ended;
                assert!(wait >= seconds(due) && wait < seconds(due + 8), "{number}: {wait:?}, {first} {second}");
            }
            for again in ["setup#1", "main#1"] {
                let begin = format!("web-node-1/{again}");
                assert!(times_of(&world, &begin, " runs").is_empty(), "{again}: {first} {second}");
            }
            world.finish().await;
        });
    }
}

/// PRB-04: the initial delay is measured from the start, whatever the clock shows since.
#[test]
fn a_clock_that_is_set_holds_up_no_probe() {
    for step in [-24 * HOUR, 24 * HOUR] {
        simulate(1, move |world| async move {
            let exec = json!({ "command": ["/ok"] });
            let probe = json!({ "exec": exec, "periodSeconds": 5, "initialDelaySeconds": 20 });
            world.put(&SimPod::of("web", "run").field("readinessProbe", probe));
            world.start_agent();
            world.sleep(seconds(12)).await;
            world.node().step_clock(step);
            world.sleep(seconds(18)).await;
            let (began, probed) = (times_of(&world, "/main#0", " runs"), times_of(&world, "/main#0", " runs /ok"));
            // The status tells a start in whole seconds.
            assert!((19..=20).contains(&(probed[0] - began[0]).as_secs()), "{step}");
            world.finish().await;
        });
    }
}

/// POD-25, POD-07: a pod whose time was over by a clock that was ahead has failed, and that is final although the clock is right
/// again: also for a worker that begins anew, alone or with all others.
#[test]
fn a_pod_whose_time_was_over_stays_failed_whatever_begins_anew() {
    for parts in [&["PodWorker"][..], &["PodManager"], &["StatusManager", "PodManager"]] {
        simulate(1, move |world| async move {
            world.put(&SimPod::of("web", "run").deadline(100));
            world.start_agent();
            until(&world, "web-node-1/main#0", " runs").await;
            world.node().step_clock(HOUR);
            until(&world, "sandbox web-node-1#0 is stopped", "").await;
            world.node().step_clock(-HOUR);
            for part in parts {
                world.crash_next(part);
                world.sleep(seconds(300)).await;
                assert_eq!(times_of(&world, &format!("{part} panics"), "").len(), 1, "{parts:?}");
            }
            let views = world.statuses().await.expect("the agent answers");
            let status = &views[0].status;
            let end = (status.phase.as_deref(), status.reason.as_deref());
            assert_eq!(end, (Some("Failed"), Some("DeadlineExceeded")), "{parts:?}");
            assert!(times_of(&world, "web-node-1/main#1", " runs").is_empty(), "{parts:?}");
            // That was its first life's end.
            world.delete("web");
            world.put(&SimPod::of("web", "run").deadline(100));
            world.sleep(seconds(60)).await;
            assert_eq!(world.running().len(), 1, "{parts:?}");
            world.finish().await;
        });
    }
}
