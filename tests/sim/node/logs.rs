//! Logs that containers write to: kept within their bound, at no cost where nobody writes.

use std::time::Duration;

use podwright::sim::faults::crashes::Crash;
use podwright::sim::faults::parse_list;
use podwright::sim::{Options, SimPod, World, describe, run, simulate, simulate_with};

use crate::common::{seeds, side_by_side};

/// `containerLogMaxSize` and `containerLogMaxFiles` of the simulated agent.
const BYTES_MAX: u64 = 10 << 20;
const FILES_MAX: usize = 5;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The most that a log ever held, how often logs were looked at, and how many files there are.
fn logs(world: &World) -> (u64, u64, usize) {
    let disk = world.node().disk.lock().expect("no test panicked");
    (disk.writing.largest, disk.writing.looks, disk.logs.values().map(std::collections::BTreeSet::len).sum())
}

/// CRI-27, PAIN-24: a log that grows fast is rotated, compressed and thrown away in time.
#[test]
fn a_log_that_is_written_to_stays_within_its_bound() {
    for (rate, rotations) in [(100_000, 3), (5_000_000, 100), (30_000_000, 600)] {
        simulate(1, move |world| async move {
            world.put(&SimPod::of("web", &format!("run writes {rate}")));
            world.start_agent();
            world.sleep(seconds(400)).await;
            let (largest, looks, files) = logs(&world);
            assert!(largest >= BYTES_MAX, "{largest} bytes at {rate} a second: there was nothing to rotate");
            // Bytes that are written while the runtime opens the next one come on top.
            let bound = BYTES_MAX + BYTES_MAX / 4 + rate / 2;
            assert!(largest <= bound, "{largest} bytes at {rate} a second, {looks} looks");
            assert!(looks >= rotations, "{looks} looks");
            assert!(files <= FILES_MAX, "{files} files of one log");
            world.finish().await;
        });
    }
}

/// At rest nothing is done for logs.
#[test]
fn a_log_that_nobody_writes_to_is_left_alone() {
    simulate(1, |world| async move {
        for number in 0..20 {
            world.put(&SimPod::of(&format!("web-{number}"), "run"));
        }
        world.start_agent();
        world.settle().await;
        world.sleep(seconds(30)).await;
        let before = logs(&world).1;
        world.sleep(seconds(3600)).await;
        assert_eq!(logs(&world).1, before);
        world.finish().await;
    });
}

/// A runtime that never answers about a log is soon asked again.
#[test]
fn a_log_that_the_runtime_hangs_over_is_kept_small_soon_after() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run writes 4000000"));
        world.start_agent();
        world.sleep(seconds(20)).await;
        world.hang(Some("ReopenContainerLog"));
        world.sleep(seconds(15)).await;
        world.hang(None);
        world.sleep(seconds(30)).await;
        world.node().disk.lock().expect("no test panicked").writing.largest = 0;
        world.sleep(seconds(200)).await;
        let largest = logs(&world).0;
        assert!(largest <= BYTES_MAX * 2, "{largest} bytes");
        world.finish().await;
    });
}

/// Lists that hang keep no `LogRotator` that failed from its work: it hears of the pods as they were last seen.
#[test]
fn a_log_is_kept_small_by_a_rotator_that_failed_while_lists_hang() {
    let crash = Crash { kind: "LogRotator".to_owned(), index: 150, after: true };
    simulate_with(1, Options { crash: Some(crash), ..Options::default() }, |world| async move {
        world.put(&SimPod::of("web", "run writes 4000000"));
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.hang(Some("ListContainers"));
        let failures = || world.story().iter().filter(|line| line.what.starts_with("LogRotator panics")).count();
        assert_eq!(failures(), 0, "it is to fail while lists hang");
        world.sleep(seconds(70)).await;
        assert_eq!(failures(), 1);
        world.hang(None);
        // Had nobody looked meanwhile, a look after all lists have ended would see it all.
        let before = logs(&world).1;
        world.sleep(seconds(150)).await;
        let (largest, looks, _) = logs(&world);
        assert!(looks > before, "nobody looks any more");
        assert!(largest <= BYTES_MAX * 2, "{largest} bytes");
        world.finish().await;
    });
}

/// Under any faults meanwhile, nothing is left, and once it is over the bound holds again.
#[test]
fn logs_are_kept_small_again_after_all_trouble() {
    side_by_side(&seeds(10, 4), |seed| {
        let options = Options { faults: parse_list("all").expect("a list"), ..Options::default() };
        let run = run(*seed, options, |world| async move {
            world.put(&SimPod::of("fast", "run writes 4000000"));
            world.put(&SimPod::of("ends", "exit 1 after 20s writes 3000000"));
            world.start_agent();
            world.sleep(seconds(90)).await;
            world.stop_faults();
            world.settle().await;
            // A pod whose look hangs is not known of until the call's deadline, which is two minutes.
            world.sleep(seconds(150)).await;
            world.node().disk.lock().expect("no test panicked").writing.largest = 0;
            world.sleep(seconds(120)).await;
            let largest = logs(&world).0;
            world.finish().await;
            largest
        });
        assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
        assert!(run.value <= BYTES_MAX * 2, "{} bytes, seed {seed}\n{}", run.value, describe(&[], &run.story));
    });
}
