//! Every kind of actor fails at every message of a short story, before and after it; and the agent is killed at every
//! call to the outside.

use std::time::Duration;

use podwright::actors::tree::TREE;
use podwright::messages::root::Child;
use podwright::sim::{Crash, Options, SimPod, describe, simulate};

use crate::common::{short, side_by_side};

const SEED: u64 = 7;

/// Actors whose messages are counted in the story without faults. `Root` is left out: its end is the agent's.
fn turns() -> Vec<(&'static str, u64)> {
    let run = short(SEED, Options::default(), "");
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    let turns: Vec<_> = run.value.turns().into_iter().filter(|(kind, _)| *kind != "Root").collect();
    let kinds: Vec<_> = turns.iter().map(|(kind, _)| *kind).collect();
    let expected = [
        "EventRecorder",
        "FileSource",
        "ImageManager",
        "Pleg",
        "PodManager",
        "PodWorker",
        "Prober",
        "ResourceManager",
        "RuntimeMonitor",
        "StatusManager",
        "UserNamespaces",
        "VolumeManager",
    ];
    for kind in expected {
        assert!(kinds.contains(&kind), "{kind} has no turn in the short story: {turns:?}");
    }
    turns
}

/// PAIN-42.
#[test]
fn any_actor_may_fail_at_any_message() {
    let crashes: Vec<Crash> = turns()
        .into_iter()
        .flat_map(|(kind, count)| (0..count).map(move |index| (kind, index)))
        .flat_map(|(kind, index)| [false, true].map(|after| Crash { kind: kind.to_owned(), index, after }))
        .collect();
    assert!(crashes.len() > 300, "{}", crashes.len());
    side_by_side(&crashes, |crash| {
        let options = Options { crash: Some(crash.clone()), ..Options::default() };
        let run = short(SEED, options, &format!(" --crash {crash}"));
        assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
        let struck = run.story.iter().any(|line| line.who == "fault" && line.what.contains("panics"));
        assert!(struck, "{crash} did not come about");
    });
}

#[test]
fn the_agent_may_be_killed_at_any_call() {
    let run = short(SEED, Options::default(), "");
    let calls = run.value.node().calls.load(std::sync::atomic::Ordering::Relaxed);
    let kills: Vec<(u64, bool)> = (0..calls).flat_map(|index| [(index, false), (index, true)]).collect();
    assert!(kills.len() > 300, "{}", kills.len());
    side_by_side(&kills, |(index, after)| {
        let options = Options { kill_at: Some((*index, *after)), ..Options::default() };
        let when = if *after { "after" } else { "before" };
        let run = short(SEED, options, &format!(" --kill {index}:{when}"));
        assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
        assert!(run.value.incarnations() > 1, "call {index} was not reached");
    });
}

/// Root restarts a child as often as its budget allows. The next failure ends Root, which is the end of the process; the
/// service manager starts the agent again, and the containers have run on.
#[test]
fn a_child_that_fails_more_often_than_its_budget_ends_the_agent() {
    simulate(SEED, |world| async move {
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.settle().await;
        let running = world.running();
        let told = |who: &str, what: &str| {
            let story = world.story();
            story.iter().filter(|line| line.who == who && line.what.contains(what)).count()
        };
        let spec = TREE.iter().find(|spec| spec.child == Child::RuntimeMonitor).expect("in the table");
        let budget = usize::try_from(spec.failures_max).expect("few");
        for failure in 1..=budget + 1 {
            world.crash_next("RuntimeMonitor");
            world.sleep(Duration::from_secs(6)).await; // The monitor polls every 5 s: all failures are within a minute.
            assert_eq!(told("fault", "RuntimeMonitor panics"), failure);
            let ends = usize::from(failure > budget);
            assert_eq!(told("agent", "ends by itself"), ends, "failure {failure} of {budget}");
        }
        assert_eq!(world.incarnations(), 2);
        world.settle().await;
        assert_eq!(world.running(), running, "containers do not notice");
        world.finish().await;
    });
}
