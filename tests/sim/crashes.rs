//! Every kind of actor fails at every message of a short story, before and after it; and the agent is killed at every
//! call to the outside.

use podwright::sim::{Crash, Options, describe};

use super::common::{short, side_by_side};

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
