//! The scenario of drivers over seeds, kinds of trouble, crashes at each message and kills at each call.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use podwright::sim::faults::{parse_list, write_list};
use podwright::sim::scenarios::plugin_scenario;
use podwright::sim::{Crash, Options, Run, World, describe, run};

use super::with_drivers;
use crate::common::{seeds, side_by_side};

const SEED: u64 = 7;
const FAULTS: [&str; 6] =
    ["plugin-errors", "plugin-lost-answers", "plugin-hangs", "plugin-slow", "plugin-restarts", "plugin-devices"];

/// The scenario with these faults.
fn standard(seed: u64, pods: usize, seconds: u64, faults: &str) {
    let faults = parse_list(faults).expect("a list of faults");
    let command =
        format!("simulate --seed {seed} --pods {pods} --duration {seconds} --faults {} --plugins", write_list(&faults));
    let options = Options { faults, command, ..with_drivers() };
    let time = Duration::from_secs(seconds);
    let run = run(seed, options, move |world| plugin_scenario::standard(world, pods, time));
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
}

fn short(options: Options, more: &str) -> Run<World> {
    let command = format!("simulate --seed {SEED} --short --faults none --plugins{more}");
    let run = run(SEED, Options { command, ..options }, |world| async move {
        plugin_scenario::short(world.clone()).await;
        world
    });
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    run
}

#[test]
fn invariants_of_drivers_hold_without_trouble() {
    side_by_side(&seeds(4, 0), |seed| standard(*seed, 12, 40, "none"));
}

/// RES-48, VOL-45.
#[test]
fn invariants_of_drivers_hold_under_each_trouble_alone() {
    let others = ["kills", "crashes", "lost-answers", "late-effects,kills", "resets"];
    let all = FAULTS.iter().chain(&others);
    let runs: Vec<(&str, u64)> = all.flat_map(|fault| (0..2).map(move |seed| (*fault, seed))).collect();
    side_by_side(&runs, |(fault, seed)| standard(*seed, 12, 40, fault));
}

#[test]
fn invariants_of_drivers_hold_under_all_trouble_at_once() {
    side_by_side(&seeds(8, 4), |seed| standard(*seed, 12, 40, "all,plugins,-clock-steps"));
}

/// VOL-45, RES-48: what drivers did is gone with the machine's power, and done again before any container needs it.
#[test]
fn invariants_of_drivers_hold_under_all_trouble_with_losses_of_power() {
    side_by_side(&seeds(4, 0), |seed| standard(*seed, 12, 60, "all,plugins,resets,-clock-steps"));
}

/// The actors of the protocols, and how many messages each has in the story without faults.
fn turns() -> BTreeMap<&'static str, u64> {
    let run = short(with_drivers(), "");
    let mut turns = run.value.turns();
    let kinds = ["AllocationManager", "ClaimManager", "CsiManager", "DevicePlugins", "PluginWatcher", "VolumeManager"];
    turns.retain(|kind, _| kinds.contains(kind));
    assert_eq!(turns.len(), kinds.len(), "each has a turn in the short story: {turns:?}");
    turns
}

/// One of so many parts of the items: another one for each source tree, so that all are seen in turn; all of them in a soak.
fn part<T>(items: Vec<T>, parts: usize) -> Vec<T> {
    let first = usize::try_from(seeds(0, 1)[0] % parts as u64).expect("few parts");
    let is_soak = std::env::var("PODWRIGHT_SOAK").is_ok();
    let is_in = |index: usize| is_soak || index % parts == first;
    items.into_iter().enumerate().filter(|(index, _)| is_in(*index)).map(|(_, item)| item).collect()
}

/// PAIN-42.
#[test]
fn any_actor_of_drivers_may_fail_at_any_message() {
    let crashes: Vec<Crash> = turns()
        .into_iter()
        .flat_map(|(kind, count)| (0..count).map(move |index| (kind, index)))
        .flat_map(|(kind, index)| [false, true].map(|after| Crash { kind: kind.to_owned(), index, after }))
        .collect();
    assert!(crashes.len() > 250, "{}", crashes.len());
    side_by_side(&part(crashes, 5), |crash| {
        let options = Options { crash: Some(crash.clone()), ..with_drivers() };
        let run = short(options, &format!(" --crash {crash}"));
        let struck = run.story.iter().any(|line| line.who == "fault" && line.what.contains("panics"));
        assert!(struck, "{crash} did not come about");
    });
}

#[test]
fn the_agent_may_be_killed_at_calls_around_drivers() {
    let run = short(with_drivers(), "");
    let calls = run.value.node().calls.load(Ordering::Relaxed);
    let kills: Vec<(u64, bool)> = (0..calls).flat_map(|index| [(index, false), (index, true)]).collect();
    assert!(kills.len() > 600, "{}", kills.len());
    side_by_side(&part(kills, 23), |(index, after)| {
        let options = Options { kill_at: Some((*index, *after)), ..with_drivers() };
        let when = if *after { "after" } else { "before" };
        let run = short(options, &format!(" --kill {index}:{when}"));
        assert!(run.value.incarnations() > 1, "call {index} was not reached");
    });
}
