//! The standard scenario over seeds and kinds of trouble.

use podwright::sim::Options;

use crate::common::{seeds, side_by_side, standard, standard_telling, standard_with};

const ALONE: [&str; 18] = [
    "refusals",
    "lost-answers",
    "hangs",
    "late-effects",
    "slow",
    "events",
    "pulls",
    "disk",
    "cgroups",
    "removals",
    "unmounts",
    "watches",
    "sandboxes",
    "runtime-restarts",
    "clock-steps",
    "kills",
    "crashes",
    "partial-lists",
];

/// Those that came later, so that `all` tells its stories still.
const LATER: [&str; 7] =
    ["stale-lists", "oom-kills", "unknown-containers", "full-images", "torn-writes", "half-volumes", "resets"];

#[test]
fn invariants_hold_without_trouble() {
    side_by_side(&seeds(12, 0), |seed| standard(*seed, 8, 40, "none"));
}

/// PAIN-03.
#[test]
fn invariants_hold_under_each_trouble_alone() {
    let runs: Vec<(&str, u64)> = ALONE.iter().flat_map(|fault| (0..8).map(move |seed| (*fault, seed))).collect();
    side_by_side(&runs, |(fault, seed)| standard(*seed, 8, 40, fault));
}

#[test]
fn invariants_hold_under_each_later_trouble_alone() {
    let runs: Vec<(&str, u64)> = LATER.iter().flat_map(|fault| (0..8).map(move |seed| (*fault, seed))).collect();
    side_by_side(&runs, |(fault, seed)| standard(*seed, 6, 40, fault));
}

/// The machine loses its power now and then, and the rest goes wrong as well.
#[test]
fn invariants_hold_under_all_trouble_with_losses_of_power() {
    side_by_side(&seeds(12, 0), |seed| standard(*seed, 8, 60, "all,resets"));
}

/// POD-07.
#[test]
fn invariants_hold_under_all_trouble_at_once() {
    // The late effects of a killed agent's calls hide nothing in one half of the runs.
    let faults = |seed: u64| if seed.is_multiple_of(2) { "all" } else { "all,-late-effects" };
    side_by_side(&seeds(40, 200), |seed| standard(*seed, 5, 25, faults(*seed)));
}

/// CRI-28: a relist that begins before a look and ends after it shows a later time, and is not taken for older.
#[test]
fn a_slow_relist_that_shows_a_later_time_than_a_look_is_not_lost() {
    let lines = ["ListPodSandbox hangs", "{pod}-node-1/main#0 runs"];
    standard_telling(3_038_944_231, 5, 25, "all,-late-effects,-partial-lists", &lines);
}

/// The agent's actors of one kind miss news when their mailboxes hold a message or two: they come again.
#[test]
fn invariants_hold_while_mailboxes_are_full() {
    let small = [("PodWorker", 1), ("PodManager", 1), ("StatusManager", 1), ("Pleg", 2), ("Prober", 1)];
    let runs: Vec<(&str, usize, u64)> =
        small.iter().flat_map(|(kind, bound)| (0..20).map(move |seed| (*kind, *bound, seed))).collect();
    side_by_side(&runs, |(kind, bound, seed)| {
        let options = Options { mailbox: Some(((*kind).to_owned(), *bound)), ..Options::default() };
        let faults = if seed.is_multiple_of(2) { "none" } else { "all,-late-effects" };
        standard_with(*seed, 8, 40, faults, options, &format!(" --mailbox {kind}:{bound}"));
    });
}

/// CRI-30: a look at the runtime from before `PodManager` failed showed a container as made that its worker had
/// started since: the new worker made a second one.
#[test]
fn a_look_from_before_pod_manager_failed_counts_for_nothing() {
    let lines =
        ["{pod}-node-1/main#0 is made", "!{pod}-node-1/main#0 runs", "PodManager panics", "{pod}-node-1/main#0 runs"];
    standard_telling(1107, 8, 90, "all,-clock-steps,-partial-lists", &lines);
}

/// Init containers are removed before a new sandbox, and with them went the memory of how often they had started: the
/// status told a higher restart count than the container had.
#[test]
fn an_init_containers_restart_count_outlives_its_instances() {
    let lines = ["{pod}-node-1/setup#0 is removed", "sandbox {pod}-node-1#1 is ready", "{pod}-node-1/setup#1 runs"];
    standard_telling(132_124_437, 5, 25, "all,-late-effects,-clock-steps,-partial-lists", &lines);
}

/// An agent was killed while it started a container; the start came late, when the next agent had already made another
/// instance: both ran.
#[test]
fn a_start_that_comes_late_finds_nothing_to_start() {
    let lines = ["the agent is killed", "StartContainer takes effect although its caller left", "main#0 runs"];
    standard_telling(1_168_655_890, 5, 25, "all,-clock-steps,-partial-lists", &lines);
}

/// A container was made, never started, and removed; nobody remembered it once `PodManager` had failed: the restart count
/// told of the pod fell back.
#[test]
fn a_container_that_was_only_made_is_no_restart() {
    let lines = [
        "{pod}-node-1/main#0 is made",
        "!{pod}-node-1/main#0 runs",
        "{pod}-node-1/main#0 is removed",
        "PodManager panics",
        "{pod}-node-1/main#",
    ];
    standard_telling(100_372, 8, 90, "all,-clock-steps,-partial-lists", &lines);
}

/// A pod was wanted again, by an agent that knew nothing of its end and was just stopping it: when it went for good, it
/// was given its own time once more, and that was taken for a grace period that grew.
#[test]
fn a_pod_wanted_again_is_given_its_time_anew() {
    let lines = [
        "deletes {pod}",
        "the agent is killed",
        "wants {pod}, {uid}",
        "{pod}-node-1/main#0 is asked to stop",
        "deletes {pod}",
    ];
    standard_telling(500_600, 8, 90, "all,-late-effects,-clock-steps,-partial-lists", &lines);
}

/// A worker failed between making and starting a container; the start came late, when the next worker had begun to remove
/// what it took for half-made: a container of a pod that never restarts was killed and run again.
#[test]
fn a_container_just_made_gets_time_to_start_after_all() {
    let lines =
        ["{pod}-node-1/main#0 is made", "!{pod}-node-1/main#0 runs", "PodWorker panics", "{pod}-node-1/main#0 runs"];
    standard_telling(8_000_642, 16, 60, "all,-clock-steps,-partial-lists", &lines);
}

/// A pod was wanted again just as the last of it was removed, and its new worker got a look from before: the pod seemed to
/// have ended, for ever.
#[test]
fn a_pod_that_comes_back_trusts_no_look_from_before_it_went() {
    let lines = [
        "deletes {pod}",
        "sandbox of {pod}-node-1 is removed",
        "wants {pod}, {uid}",
        "sandbox {pod}-node-1#0 is ready",
    ];
    standard_telling(9_001_570, 16, 60, "all,-late-effects,-clock-steps,-partial-lists", &lines);
}

/// The last of a pod's former life was removed while its manifest was deleted, and began anew before the agent knew of
/// the deletion: that was taken for a pod that came back although nobody wants it.
#[test]
fn a_pod_comes_back_until_its_deletion_is_known() {
    let lines = [
        "sandbox of {pod}-node-1 is removed",
        "!sandbox {pod}-node-1#0 is ready",
        "deletes {pod}",
        "!wants {pod}",
        "sandbox {pod}-node-1#0 is ready",
    ];
    standard_telling(9_003_241, 16, 60, "all,-late-effects,-clock-steps,-partial-lists", &lines);
}
