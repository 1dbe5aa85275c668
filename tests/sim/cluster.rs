//! A node of a cluster: the API server's pods run, and it hears what is so, whatever goes wrong in between.

pub(super) mod absence;
pub(super) mod addresses;
pub(super) mod mirrors;
pub(super) mod restored;
pub(super) mod served;

use std::time::Duration;

use podwright::sim::faults::{parse_list, write_list};
use podwright::sim::scenarios::cluster_scenario;
use podwright::sim::{Crash, Line, Options, Run, SimPod, World, describe, run, simulate_with};
use serde_json::json;

use super::common::{first_telling, seeds, side_by_side};

const FAULTS: [&str; 12] = [
    "api-slow",
    "api-away",
    "api-busy",
    "api-errors",
    "api-conflicts",
    "api-watches",
    "api-stale",
    "api-clocks",
    "api-lost-answers",
    "api-false-gone",
    "clock-steps",
    "resets",
];

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn in_a_cluster() -> Options {
    Options { cluster: true, ..Options::default() }
}

/// The scenario of a cluster with these faults.
fn standard(seed: u64, pods: usize, duration: u64, faults: &str) -> Run<()> {
    standard_with(seed, pods, duration, faults, in_a_cluster(), "")
}

/// The same, with more options, which the command line gives as `more`.
fn standard_with(seed: u64, pods: usize, duration: u64, faults: &str, options: Options, more: &str) -> Run<()> {
    let faults = parse_list(faults).expect("a list of faults");
    let list = write_list(&faults);
    let command = format!("simulate --seed {seed} --pods {pods} --duration {duration} --faults {list} --cluster{more}");
    let options = Options { faults, command, ..options };
    let run = run(seed, options, move |world| cluster_scenario::standard(world, pods, seconds(duration)));
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    run
}

fn short(seed: u64, options: Options, more: &str) -> Run<World> {
    let command = format!("simulate --seed {seed} --short --faults none --cluster{more}");
    let run = run(seed, Options { command, ..options }, |world| async move {
        cluster_scenario::short(world.clone()).await;
        world
    });
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    run
}

#[test]
fn a_cluster_is_served_without_trouble() {
    side_by_side(&seeds(6, 2), |seed| drop(standard(*seed, 10, 40, "none")));
}

/// PAIN-03.
#[test]
fn a_cluster_is_served_under_each_trouble_alone() {
    let runs: Vec<(&str, u64)> = FAULTS.iter().flat_map(|fault| (0..3).map(move |seed| (*fault, seed))).collect();
    side_by_side(&runs, |(fault, seed)| drop(standard(*seed, 10, 40, fault)));
}

#[test]
fn a_cluster_is_served_under_all_trouble_with_its_api_server() {
    side_by_side(&seeds(8, 16), |seed| drop(standard(*seed, 6, 40, "api")));
}

/// Beside the API server the runtime, the disk and the agent itself fail, too.
#[test]
fn a_cluster_is_served_under_all_trouble_at_once() {
    let faults = |seed: u64| match seed % 3 {
        0 => "all,-late-effects",
        1 => "all",
        _ => "api,kills,crashes",
    };
    side_by_side(&seeds(8, 16), |seed| drop(standard(*seed, 6, 30, faults(*seed))));
}

/// The same where the machine loses its power now and then.
#[test]
fn a_cluster_is_served_under_all_trouble_with_losses_of_power() {
    side_by_side(&seeds(6, 0), |seed| drop(standard(*seed, 8, 60, "all,resets,-clock-steps")));
}

/// PAIN-10: the same with what pods need kept on the disk.
#[test]
fn a_cluster_is_served_with_the_offline_store() {
    let faults = |seed: u64| if seed.is_multiple_of(2) { "api,kills,crashes" } else { "none" };
    side_by_side(&seeds(8, 0), |seed| {
        let options = Options { offline: true, ..in_a_cluster() };
        drop(standard_with(*seed, 6, 30, faults(*seed), options, " --offline"));
    });
}

/// Actors whose mailboxes have room for one message miss news of the cluster: they come again.
#[test]
fn a_cluster_is_served_while_mailboxes_are_full() {
    let small = ["ApiSource", "StatusManager", "MirrorManager", "ObjectCache", "NodeStatus"];
    let runs: Vec<(&str, u64)> = small.iter().flat_map(|kind| (0..3).map(move |seed| (*kind, seed))).collect();
    side_by_side(&runs, |(kind, seed)| {
        let options = Options { mailbox: Some(((*kind).to_owned(), 1)), ..in_a_cluster() };
        let faults = if seed.is_multiple_of(2) { "none" } else { "api,kills,crashes" };
        drop(standard_with(*seed, 8, 30, faults, options, &format!(" --mailbox {kind}:1")));
    });
}

/// A call about a mirror that was gone ended after the next one came: that one was never told of.
#[test]
fn a_mirror_is_told_of_although_the_one_before_is_gone() {
    let options = || Options { mailbox: Some(("MirrorManager".to_owned(), 1)), ..in_a_cluster() };
    let more = " --mailbox MirrorManager:1";
    let lines = ["pod {pod}-node-1 is gone", "pods/{pod}-node-1/status: 404", "pods/{pod}-node-1/status: 200"];
    first_telling(1, &lines, |seed| standard_with(seed, 8, 30, "api,kills,crashes", options(), more).story);
}

/// The agent was restarted, and forgot how a pod had ended before the API server showed that it knew: the status said that
/// the pod had failed after it had said that it succeeded.
#[test]
fn an_end_that_was_told_is_not_told_otherwise() {
    let lines = ["pod {pod} is told: Succeeded", "the agent is killed"];
    first_telling(3_712_728_764, &lines, |seed| standard(seed, 6, 30, "api,kills,crashes").story);
}

/// The answer to a mirror's status came after another mirror had taken its place: the agent kept writing to the first.
#[test]
fn a_late_answer_hides_no_mirror() {
    let lines = ["pod {pod}-node-1 is gone", "pods/{pod}-node-1/status: 404", "pods/{pod}-node-1/status: 200"];
    first_telling(3, &lines, |seed| standard(seed, 10, 40, "api-slow").story);
}

/// An agent that started anew listed its pods from a cache older than one of them: the pod was ended, and told as failed.
#[test]
fn the_first_list_of_an_agent_is_not_an_old_one() {
    let lines = [
        "the API server's lists are ",
        "makes the pod {pod}, {uid}",
        "pod {pod} is told: Running",
        "the agent is killed",
    ];
    first_telling(8, &lines, |seed| standard(seed, 10, 40, "all,-late-effects,-clock-steps,-partial-lists").story);
}

#[test]
fn the_same_seed_tells_the_same_story_of_a_cluster() {
    for seed in 0..2 {
        let tell = || -> Vec<Line> { standard(seed, 8, 30, "api,kills,crashes").story };
        let (first, second) = (tell(), tell());
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        assert_eq!(differs.map(|place| (&first[place], &second[place])), None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

/// Those actors that deal with the API server alone; the others fail in the story of a node by itself.
#[test]
fn any_actor_of_the_cluster_may_fail_at_any_message() {
    const KINDS: [&str; 6] = ["ApiSource", "StatusManager", "MirrorManager", "ObjectCache", "NodeStatus", "NodeLease"];
    let turns = short(7, in_a_cluster(), "").value.turns();
    let crashes: Vec<Crash> = KINDS
        .iter()
        .flat_map(|kind| (0..turns[kind].min(12)).map(move |index| (*kind, index)))
        .map(|(kind, index)| Crash { kind: kind.to_owned(), index, after: index % 2 == 1 })
        .collect();
    assert!(crashes.len() > 40, "{}", crashes.len());
    side_by_side(&crashes, |crash| {
        let options = Options { crash: Some(crash.clone()), ..in_a_cluster() };
        let run = short(7, options, &format!(" --crash {crash}"));
        let struck = run.story.iter().any(|line| line.who == "fault" && line.what.contains("panics"));
        assert!(struck, "{crash} did not come about");
    });
}

#[test]
fn the_agent_of_a_cluster_may_be_killed_at_any_call() {
    let run = short(7, in_a_cluster(), "");
    let until_quiet = run.value.node().calls.load(std::sync::atomic::Ordering::Relaxed).min(240);
    let kills: Vec<(u64, bool)> = (0..until_quiet).step_by(3).map(|index| (index, index % 2 == 0)).collect();
    assert!(kills.len() > 60, "{}", kills.len());
    side_by_side(&kills, |(index, after)| {
        let options = Options { kill_at: Some((*index, *after)), ..in_a_cluster() };
        let when = if *after { "after" } else { "before" };
        let run = short(7, options, &format!(" --kill {index}:{when}"));
        assert!(run.value.incarnations() > 1, "call {index} was not reached");
    });
}

/// Nothing of a pod depends on an API server that answers: it goes on, also over restarts of its container, and the
/// agent's.
#[test]
fn pods_run_on_while_the_api_server_is_away() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run")).expect("made");
        world.create(&SimPod::of("again", "exit 1 after 20s below 3")).expect("made");
        world.start_agent();
        world.settle().await;
        let before = world.running();
        world.link().go_away(world.node(), seconds(900));
        world.sleep(seconds(60)).await;
        world.kill_agent();
        world.sleep(seconds(800)).await;
        assert!(world.running().contains("web/main#0"), "{before:?} {:?}", world.running());
        world.sleep(seconds(60)).await;
        let pod = world.api_pod("web").expect("it is there");
        assert_eq!(pod["status"]["phase"], "Running");
        world.finish_cluster().await;
        let stops = world.story().into_iter().filter(|line| line.what.contains("web/main#0 is asked to stop"));
        assert_eq!(stops.count(), 1, "only when it was deleted in the end");
    });
}

/// The statuses of a pod that starts: that it is being made, its address, that it runs. Facts that the runtime alone knows,
/// such as a container's user, come with the last status and not after it.
#[test]
fn a_pod_that_starts_costs_three_patches() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.settle().await;
        let patches = || world.api().asked().get("patch pods").copied().unwrap_or_default();
        let before = patches();
        world.create(&SimPod::of("web", "run")).expect("made");
        world.settle().await;
        world.sleep(seconds(60)).await;
        let status = &world.api_pod("web").expect("it is there")["status"]["containerStatuses"][0];
        assert_eq!((&status["user"]["linux"]["uid"], &status["image"]), (&json!(0), &json!("app:1")));
        assert_eq!(patches() - before, 3);
        world.finish_cluster().await;
    });
}

/// POD-34: that the agent has seen the deletion goes with the end, unless the containers take long.
#[test]
fn a_pod_that_ends_costs_one_patch_or_two_where_it_takes_long() {
    for (behaviour, expected) in [("run stops in 3s", 1), ("run stops in 8s", 2)] {
        simulate_with(1, in_a_cluster(), move |world| async move {
            world.create(&SimPod::of("web", behaviour).grace(20)).expect("made");
            world.start_agent();
            world.settle().await;
            let patches = || world.api().asked().get("patch pods").copied().unwrap_or_default();
            let before = patches();
            world.delete_pod("web", None);
            world.settle().await;
            assert!(world.api_pod("web").is_none());
            assert_eq!(patches() - before, expected, "{behaviour}");
            world.finish_cluster().await;
        });
    }
}

#[test]
fn a_pod_waits_for_its_config_map_and_hears_of_its_changes() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let source = json!({ "configMap": { "name": "settings" } });
        world.create(&SimPod::of("web", "run").volume("settings", source)).expect("made");
        world.start_agent();
        world.sleep(seconds(60)).await;
        assert!(world.running().is_empty());
        world.write_data("configmaps", "settings", "level", "1");
        assert!(world.settle().await < seconds(180));
        assert_eq!(world.running().len(), 1);
        world.finish_cluster().await;
    });
}

#[test]
fn a_pod_of_the_same_name_comes_after_the_first_is_gone() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let first = world.create(&SimPod::of("web", "run stops in 2s").grace(9)).expect("made");
        world.start_agent();
        world.settle().await;
        world.delete_pod("web", None);
        assert!(world.create(&SimPod::of("web", "run")).is_err(), "it is there still");
        world.settle().await;
        let second = world.create(&SimPod::of("web", "run")).expect("made");
        assert_ne!(first, second);
        world.settle().await;
        assert_eq!(world.running().len(), 1);
        world.finish_cluster().await;
    });
}

#[test]
fn a_pod_deleted_by_force_and_made_again_at_once_runs() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run stops in 2s")).expect("made");
        world.start_agent();
        world.settle().await;
        world.delete_pod("web", Some(0));
        world.create(&SimPod::of("web", "run")).expect("the first is gone from the API");
        world.settle().await;
        assert_eq!(world.running().len(), 1);
        world.finish_cluster().await;
    });
}

/// POD-35: a pod that is over its time has failed once its containers have ended, and not while they still take theirs.
#[test]
fn a_pod_has_not_failed_while_its_containers_run() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("late", "run stops in 20s").deadline(5).grace(60)).expect("made");
        world.start_agent();
        let mut seen = vec![];
        for _ in 0..120 {
            world.sleep(Duration::from_millis(500)).await;
            let status = world.api_pod("late").expect("it is there")["status"].clone();
            let phase = status["phase"].as_str().unwrap_or_default().to_owned();
            let running = world.running().contains("late/main#0");
            assert!(phase != "Failed" || !running, "{status}");
            seen.push((phase, running));
        }
        let ran = seen.iter().filter(|(phase, running)| phase == "Running" && *running).count();
        assert!(ran > 40, "it took its time after five seconds: {ran}");
        let status = world.api_pod("late").expect("it is there")["status"].clone();
        assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
        world.finish_cluster().await;
    });
}
