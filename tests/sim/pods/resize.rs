//! In-place resize (POD-26, CRI-35): what somebody asks for by way of the API server comes into force while containers run,
//! waits for room, or is told why it cannot; whatever fails in between.

use std::pin::Pin;
use std::time::Duration;

use podwright::sim::faults::{parse_list, write_list};
use podwright::sim::{Crash, Options, Run, SimPod, World, describe, run, simulate_with};
use serde_json::{Value, json};

use crate::common::{seeds, side_by_side, started};

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn in_a_cluster() -> Options {
    Options { cluster: true, ..Options::default() }
}

pub fn sized(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": cpu, "memory": memory }, "limits": { "cpu": cpu, "memory": memory } })
}

/// A pod whose one container may use so much.
pub fn pod(name: &str, cpu: &str, memory: &str) -> SimPod {
    SimPod::of(name, "run").field("resources", sized(cpu, memory))
}

pub fn reason(world: &World, pod: &str, condition: &str) -> Option<String> {
    let condition = world.condition(pod, condition)?;
    Some(condition["reason"].as_str().unwrap_or_default().to_owned())
}

fn checkpoint(world: &World, name: &str) -> String {
    let disk = world.node().disk.lock().expect("not poisoned");
    String::from_utf8(disk.checkpoints.get(name).cloned().unwrap_or_default()).expect("text")
}

/// POD-26, CRI-35, RES-57: no restart, the runtime and the kernel have it, the status says so, and so do Events.
#[test]
fn a_running_container_gets_what_its_pod_asks_for() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "128Mi")]).await;
        assert_eq!(world.in_force("web", "main"), Some((512, 50_000, 128 << 20)));
        world.resize_pod("web", "main", &sized("1", "256Mi"));
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert_eq!(world.in_force("web", "main"), Some((1024, 100_000, 256 << 20)));
        assert!(world.running().contains("web/main#0"), "it was not restarted");
        let object = world.api_pod("web").expect("it is there");
        let status = &object["status"]["containerStatuses"][0];
        assert_eq!(status["resources"], sized("1", "256Mi"));
        assert_eq!(status["allocatedResources"], sized("1", "256Mi")["requests"]);
        assert_eq!(object["status"]["resources"], sized("1", "256Mi"));
        assert_eq!(
            (world.condition("web", "PodResizePending"), world.condition("web", "PodResizeInProgress")),
            (None, None)
        );
        let reasons = world.event_reasons("web");
        for wanted in ["ResizeStarted", "ResizeCompleted"] {
            assert_eq!(reasons.iter().filter(|reason| *reason == wanted).count(), 1, "{wanted} in {reasons:?}");
        }
        for file in ["allocated_pods_state", "actuated_pods_state"] {
            let text = checkpoint(&world, file);
            assert!(text.contains("256Mi") && !text.contains("128Mi"), "{file}: {text}");
        }
        world.finish_cluster().await;
        world.sleep(seconds(70)).await; // Housekeeping.
        assert!(!checkpoint(&world, "allocated_pods_state").contains("256Mi"), "what is gone is forgotten");
    });
}

#[test]
fn a_container_whose_policy_says_so_is_restarted_once_with_what_it_was_given() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let policy = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
        started(&world, &[pod("web", "500m", "128Mi").field("resizePolicy", policy)]).await;
        world.resize_pod("web", "main", &sized("1", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(world.in_force("web", "main"), Some((1024, 100_000, 128 << 20)));
        assert!(world.running().contains("web/main#0"), "CPU needs no restart");
        world.resize_pod("web", "main", &sized("1", "256Mi"));
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert_eq!(world.in_force("web", "main"), Some((1024, 100_000, 256 << 20)));
        assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["web/main#1"]);
        world.finish_cluster().await;
    });
}

/// RES-56: what finds no room waits, and gets it as soon as another pod is gone.
#[test]
fn a_resize_without_room_waits_until_another_pod_is_gone() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "128Mi"), pod("large", "1200m", "128Mi")]).await;
        world.resize_pod("web", "main", &sized("1", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(world.in_force("web", "main"), Some((512, 50_000, 128 << 20)));
        let told = world.condition("web", "PodResizePending").expect("it waits");
        assert_eq!((&told["reason"], &told["observedGeneration"]), (&json!("Deferred"), &json!(2)));
        let message = "Node didn't have enough resource: cpu, requested: 1000, used: 1200, capacity: 2000";
        assert_eq!(told["message"], message);
        world.settle().await;
        let before = world.node().time.elapsed();
        world.delete_pod("large", None);
        while world.in_force("web", "main") != Some((1024, 100_000, 128 << 20)) {
            world.sleep(Duration::from_millis(500)).await;
            assert!(world.node().time.elapsed() - before < seconds(30), "room is given at once");
        }
        world.settle().await;
        assert_eq!(reason(&world, "web", "PodResizePending"), None);
        let reasons = world.event_reasons("web");
        assert_eq!(reasons.iter().filter(|reason| *reason == "ResizeDeferred").count(), 1, "{reasons:?}");
        world.finish_cluster().await;
    });
}

/// Which generation of the pod its status says was observed.
fn observed(world: &World) -> Value {
    world.api_pod("web").expect("it is there")["status"]["observedGeneration"].clone()
}

/// Looks at the pod again and again: once its status says that the generation was observed, it says what came of it.
async fn watch_observed(world: &World, generation: i64, is_told: impl Fn(&Value) -> bool) {
    let mut seen = 0;
    for _ in 0..4000 {
        let pod = world.api_pod("web").expect("it is there");
        if pod["status"]["observedGeneration"] == generation {
            assert!(is_told(&pod["status"]), "{}", pod["status"]);
            seen += 1;
        }
        world.sleep(Duration::from_millis(2)).await;
    }
    assert!(seen > 100, "{seen}");
}

fn pending<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind)
}

/// POD-28, RES-56: the status, and each condition that has one, say which generation was acted on or judged: also where the
/// resize has to wait, is never made, or was taken back.
#[test]
fn a_status_says_which_generation_was_judged() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "128Mi")]).await;
        assert_eq!(observed(&world), 1);
        world.resize_pod("web", "main", &sized("9", "128Mi"));
        let waits =
            |status: &Value| pending(status, "PodResizePending").is_some_and(|it| it["observedGeneration"] == 2);
        watch_observed(&world, 2, waits).await;
        world.resize_pod("web", "main", &sized("500m", "128Mi"));
        watch_observed(&world, 3, |status| pending(status, "PodResizePending").is_none()).await;
        world.resize_pod("web", "main", &sized("1", "128Mi"));
        let is_made = |status: &Value| {
            let given = &status["containerStatuses"][0]["allocatedResources"];
            pending(status, "PodResizeInProgress").is_some() || *given == sized("1", "128Mi")["requests"]
        };
        watch_observed(&world, 4, is_made).await;
        world.settle().await;
        let status = world.api_pod("web").expect("it is there")["status"].clone();
        for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
            assert_eq!(pending(&status, kind).expect("it has it")["observedGeneration"], 4, "{kind}");
        }
        world.finish_cluster().await;
    });
}

/// POD-28: what was asked for, taken back, and asked for again between two looks of the agent is another generation all the
/// same.
#[test]
fn a_generation_that_asks_for_nothing_new_is_observed_too() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "128Mi")]).await;
        for round in 0..2 {
            world.link().go_away(world.node(), seconds(30));
            world.resize_pod("web", "main", &sized("700m", "128Mi"));
            world.resize_pod("web", "main", &sized(if round == 0 { "500m" } else { "9" }, "128Mi"));
            world.api().compact();
            world.sleep(seconds(120)).await;
            assert_eq!(observed(&world), 3 + 2 * round);
        }
        let told = world.condition("web", "PodResizePending").expect("it waits");
        assert_eq!(told["observedGeneration"], 5);
        world.finish_cluster().await;
    });
}

/// RES-56: taken back while it waits, it is as if it had never been asked for.
#[test]
fn a_resize_that_is_taken_back_waits_no_more() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "128Mi")]).await;
        world.resize_pod("web", "main", &sized("9", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(reason(&world, "web", "PodResizePending").as_deref(), Some("Deferred"), "also more than there is");
        world.resize_pod("web", "main", &sized("500m", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(world.condition("web", "PodResizePending"), None);
        assert_eq!(observed(&world), 3);
        world.finish_cluster().await;
    });
}

#[test]
fn a_resize_that_this_node_never_makes_is_told_as_infeasible() {
    let options = Options { settings: |settings| settings.resources.resize.cpus_pinned = true, ..in_a_cluster() };
    simulate_with(1, options, |world| async move {
        started(&world, &[pod("web", "500m", "128Mi")]).await;
        world.resize_pod("web", "main", &sized("1", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(reason(&world, "web", "PodResizePending").as_deref(), Some("Infeasible"));
        assert!(world.event_reasons("web").contains(&"ResizeInfeasible".to_owned()));
        world.kill_agent();
        world.sleep(seconds(30)).await;
        assert_eq!(reason(&world, "web", "PodResizePending").as_deref(), Some("Infeasible"));
        let reasons = world.event_reasons("web");
        assert_eq!(reasons.iter().filter(|reason| *reason == "ResizeInfeasible").count(), 1, "{reasons:?}");
        world.finish_cluster().await;
    });
}

/// RES-58.
#[test]
fn memory_is_not_taken_from_a_container_that_uses_it() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "256Mi")]).await;
        world.use_memory("web", 200 << 20);
        world.resize_pod("web", "main", &sized("500m", "128Mi"));
        world.sleep(seconds(20)).await;
        assert_eq!(world.in_force("web", "main"), Some((512, 50_000, 256 << 20)));
        let told = world.condition("web", "PodResizeInProgress").expect("it goes on");
        assert_eq!((&told["reason"], &told["observedGeneration"]), (&json!("Error"), &json!(2)));
        let message = "cannot decrease memory limits: [attempting to set pod memory limit (134217728) below current usage \
                       (209715200), attempting to set container \"main\" memory limit (134217728) below current usage \
                       (209715200)]";
        assert_eq!(told["message"], message);
        world.use_memory("web", 1 << 20);
        world.sleep(seconds(30)).await;
        world.settle().await;
        assert_eq!(world.in_force("web", "main"), Some((512, 50_000, 128 << 20)));
        let reasons = world.event_reasons("web");
        assert_eq!(reasons.iter().filter(|reason| *reason == "ResizeError").count(), 1, "{reasons:?}");
        assert!(reasons.contains(&"ResizeCompleted".to_owned()));
        world.finish_cluster().await;
    });
}

/// RES-58, CRI-34: the runtime counts the sandbox of the pod, too.
#[test]
fn the_runtime_tells_the_memory_of_a_pod_under_the_gate_for_its_figures() {
    let options = Options { settings: |settings| settings.statistics.from_runtime = true, ..in_a_cluster() };
    simulate_with(1, options, |world| async move {
        started(&world, &[pod("web", "500m", "256Mi")]).await;
        world.use_memory("web", 200 << 20);
        world.resize_pod("web", "main", &sized("500m", "128Mi"));
        world.sleep(seconds(20)).await;
        let told = world.condition("web", "PodResizeInProgress").expect("it goes on");
        let message = "cannot decrease memory limits: [attempting to set pod memory limit (134217728) below current usage \
                       (210763776), attempting to set container \"main\" memory limit (134217728) below current usage \
                       (209715200)]";
        assert_eq!(told["message"], message);
        world.use_memory("web", 1 << 20);
        world.sleep(seconds(30)).await;
        world.settle().await;
        assert_eq!(world.in_force("web", "main"), Some((512, 50_000, 128 << 20)));
        world.finish_cluster().await;
    });
}

/// The allocation counts after a restart, even when other resources are asked for meanwhile; a pod that was resized while
/// no agent ran is resized then, and no container is restarted for any of it.
#[test]
fn a_restart_of_the_agent_is_not_to_be_seen() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "128Mi"), pod("large", "1200m", "128Mi")]).await;
        world.resize_pod("web", "main", &sized("1", "128Mi"));
        world.sleep(seconds(10)).await;
        let since = world.condition("web", "PodResizePending").expect("it waits")["lastTransitionTime"].clone();
        world.kill_agent();
        world.sleep(seconds(30)).await;
        world.settle().await;
        assert_eq!(world.condition("web", "PodResizePending").expect("it waits still")["lastTransitionTime"], since);
        assert_eq!(world.in_force("web", "main"), Some((512, 50_000, 128 << 20)));
        world.stop_agent();
        world.resize_pod("large", "main", &sized("600m", "128Mi"));
        world.sleep(seconds(5)).await;
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert_eq!(world.in_force("large", "main"), Some((614, 60_000, 128 << 20)));
        assert_eq!(world.in_force("web", "main"), Some((1024, 100_000, 128 << 20)), "there is room now");
        assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["large/main#0", "web/main#0"]);
        world.finish_cluster().await;
    });
}

/// SEC-58: a file that cannot be believed costs nobody anything.
#[test]
fn sec_58_a_checkpoint_that_cannot_be_believed_is_set_aside() {
    simulate_with(1, in_a_cluster(), |world| async move {
        started(&world, &[pod("web", "500m", "128Mi")]).await;
        world.stop_agent();
        for file in ["allocated_pods_state", "actuated_pods_state"] {
            let mut disk = world.node().disk.lock().expect("not poisoned");
            let bytes = disk.checkpoints.get_mut(file).expect("it was written");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.settle().await;
        assert!(world.running().contains("web/main#0"));
        assert!(checkpoint(&world, "actuated_pods_state.corrupt").contains("128Mi"), "people may look at it");
        world.resize_pod("web", "main", &sized("1", "128Mi"));
        world.sleep(seconds(10)).await;
        assert_eq!(world.in_force("web", "main"), Some((1024, 100_000, 128 << 20)));
        assert!(world.running().contains("web/main#0"));
        world.finish_cluster().await;
    });
}

// ------------------------------------------------------------ trouble

/// A story of resizes, which leaves nothing.
pub type Story = fn(World) -> Pin<Box<dyn Future<Output = ()>>>;

/// Three pods; one grows, one shrinks, one is restarted for it, and the agent is restarted in between.
async fn story(world: World) {
    let policy = json!([{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }]);
    for pod in [
        pod("grows", "200m", "64Mi"),
        pod("shrinks", "800m", "256Mi").sidecar("side", "run"),
        pod("restarts", "300m", "64Mi").field("resizePolicy", policy),
    ] {
        world.create(&pod).expect("made");
    }
    world.start_agent();
    world.sleep(seconds(15)).await;
    wait_for_containers(&world, 4).await;
    world.resize_pod("grows", "main", &sized("1", "512Mi"));
    world.sleep(seconds(3)).await;
    world.resize_pod("shrinks", "main", &sized("100m", "32Mi"));
    world.resize_pod("restarts", "main", &sized("400m", "64Mi"));
    world.sleep(seconds(6)).await;
    world.kill_agent();
    world.resize_pod("grows", "main", &sized("1100m", "256Mi"));
    world.sleep(seconds(10)).await;
    world.calm_down().await;
    world.finish_cluster().await;
}

/// A pod that was not yet let in when another grew would find no room, and that would be right.
pub async fn wait_for_containers(world: &World, count: usize) {
    for _ in 0..60 {
        if world.running().len() >= count {
            break;
        }
        world.sleep(seconds(5)).await;
    }
}

fn short(seed: u64, options: Options, more: &str) -> Run<World> {
    run_story("resize.rs", |world| Box::pin(story(world)), seed, options, more)
}

/// Runs a story of this file of tests; none of it may break anything.
fn run_story(file: &str, story: Story, seed: u64, options: Options, more: &str) -> Run<World> {
    let command = format!("tests/sim/pods/{file}, the story of seed {seed}{more}");
    let run = run(seed, Options { command, ..options }, move |world| async move {
        story(world.clone()).await;
        world
    });
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    run
}

/// Any actor that has to do with resizes fails at every `step`th of its messages, the one that keeps them four times as often.
pub fn with_crashes(file: &str, story: Story, step: u64) {
    const KINDS: [&str; 4] = ["AllocationManager", "PodWorker", "PodManager", "StatusManager"];
    let turns = run_story(file, story, 7, in_a_cluster(), "").value.turns();
    let crashes: Vec<Crash> = KINDS
        .iter()
        .flat_map(|kind| (0..turns[kind]).map(move |index| (*kind, index)))
        .filter(|(kind, index)| index.is_multiple_of(if *kind == "AllocationManager" { step / 4 } else { step }))
        .map(|(kind, index)| Crash { kind: kind.to_owned(), index, after: index % 2 == 1 })
        .collect();
    assert!(crashes.len() > 30, "{}", crashes.len());
    side_by_side(&crashes, |crash| {
        let options = Options { crash: Some(crash.clone()), ..in_a_cluster() };
        drop(run_story(file, story, 7, options, &format!(" with crash {crash}")));
    });
}

/// The agent is killed at every `step`th of its calls.
pub fn with_kills(file: &str, story: Story, step: usize) {
    let run = run_story(file, story, 7, in_a_cluster(), "");
    let calls = run.value.node().calls.load(std::sync::atomic::Ordering::Relaxed);
    let kills: Vec<(u64, bool)> = (0..calls).step_by(step).map(|index| (index, index % 2 == 0)).collect();
    assert!(kills.len() > 30, "{}", kills.len());
    side_by_side(&kills, |(index, after)| {
        let options = Options { kill_at: Some((*index, *after)), ..in_a_cluster() };
        drop(run_story(file, story, 7, options, &format!(" killed at call {index}")));
    });
}

/// All that can go wrong does.
pub fn with_trouble(file: &str, story: Story) {
    let lists = ["api,kills,crashes", "all,-late-effects", "disk,cgroups,kills", "all"];
    side_by_side(&seeds(8, 8), |seed| {
        let list = lists[usize::try_from(seed % 4).expect("small")];
        let faults = parse_list(list).expect("a list of faults");
        let more = format!(" with faults {}", write_list(&faults));
        drop(run_story(file, story, *seed, Options { faults, ..in_a_cluster() }, &more));
    });
}

#[test]
fn any_actor_may_fail_at_any_message_of_a_resize() {
    with_crashes("resize.rs", |world| Box::pin(story(world)), 4);
}

#[test]
fn the_agent_may_be_killed_at_any_call_of_a_resize() {
    with_kills("resize.rs", |world| Box::pin(story(world)), 5);
}

/// POD-26.
#[test]
fn resizes_come_about_under_all_trouble() {
    with_trouble("resize.rs", |world| Box::pin(story(world)));
}

#[test]
fn the_same_seed_tells_the_same_story_of_resizes() {
    let tell = || {
        let faults = parse_list("api,kills,crashes").expect("a list of faults");
        short(3, Options { faults, ..in_a_cluster() }, "").story
    };
    let (first, second) = (tell(), tell());
    let differs = first.iter().zip(&second).position(|(one, other)| one != other);
    assert_eq!(differs.map(|place| (&first[place], &second[place])), None);
}
