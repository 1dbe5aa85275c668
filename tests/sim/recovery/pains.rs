//! Troubles that people have with a kubelet (PAIN), and that do not happen here. Times are virtual, so they are the
//! same on every machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use podwright::messages::status::status_manager::PodView;
use podwright::sim::scenarios::scenario;
use podwright::sim::{Options, SimPod, World, simulate, simulate_with};
use serde_json::{Value, json};

use crate::pods::resize::{in_a_cluster, seconds};

/// A condition of the Node, as status and message.
fn node_condition(world: &World, kind: &str) -> (String, String) {
    let node = world.api().get("nodes", "", "node-1").expect("there is a Node");
    let found = node["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind);
    let text = |field: &str| found.map_or("", |one| one[field].as_str().unwrap_or_default()).to_owned();
    (text("status"), text("message"))
}

async fn view(world: &World, name: &str) -> Option<PodView> {
    let views = world.statuses().await?;
    views.into_iter().find(|view| view.pod.metadata.name.as_deref() == Some(name))
}

/// The runtime answers again: the Node is ready, and nothing else has gone wrong.
async fn finish_heard(world: &World) {
    world.hang(None);
    world.settle().await;
    assert_eq!(node_condition(world, "Ready").0, "True");
    world.finish_cluster().await;
}

/// PAIN-01: the runtime never answers about one pod's containers: the node is ready all the time, that pod says what it
/// waits for, and others start, restart and end as ever.
#[test]
fn a_pod_that_the_runtime_does_not_answer_for_is_alone() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("stuck", "exit 1 after 20s below 3")).expect("made");
        world.create(&SimPod::of("again", "exit 1 after 60s below 1")).expect("made");
        world.create(&SimPod::of("goes", "run").grace(3)).expect("made");
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.stick(Some("stuck"));
        let mut told = String::new();
        for second in 0..400 {
            world.sleep(seconds(1)).await;
            assert_eq!(node_condition(&world, "Ready").0, "True", "after {second} s");
            match second {
                40 => drop(world.create(&SimPod::of("late", "run")).expect("made")),
                80 => world.delete_pod("goes", None),
                // Past the time in which the end of its container was seen, and a call counts as one that hangs.
                100 => told = view(&world, "stuck").await.expect("it is known").waits().join("; "),
                _ => {}
            }
        }
        assert!(told.contains("has not answered ContainerStatus since"), "{told:?}");
        let running: Vec<String> = world.running().into_iter().collect();
        assert_eq!(running, ["again/main#1", "late/main#0"]);
        assert!(world.api_pod("goes").is_none());
        world.stick(None);
        world.settle().await;
        assert!(world.running().contains("stuck/main#3"), "{:?}", world.running());
        world.finish_cluster().await;
    });
}

/// NODE-38, NODE-39: a call that hangs is not waited for. The Node says after half a minute that the runtime is silent, in
/// upstream's words and with the call's name. It is ready again once the runtime is heard.
#[test]
fn a_runtime_that_gives_no_status_is_down_within_three_quarters_of_a_minute() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run")).expect("made");
        world.start_agent();
        world.settle().await;
        world.hang(Some("Status"));
        world.sleep(seconds(24)).await;
        assert_eq!(node_condition(&world, "Ready").0, "True", "a short silence is borne");
        world.sleep(seconds(21)).await;
        let (ready, message) = node_condition(&world, "Ready");
        let told = message.starts_with("container runtime is down: Status has not answered since 20");
        assert!(ready == "False" && told, "{ready} {message}");
        assert!(world.running().contains("web/main#0"), "nothing is ended for it");
        finish_heard(&world).await;
    });
}

/// NODE-38: the same of the look at all pods, three minutes after the last one, although a call's own limit is two.
#[test]
fn a_runtime_that_lists_nothing_is_told_of_three_minutes_after_its_last_list() {
    let options = Options { settings: |settings| settings.runtime.evented = false, ..in_a_cluster() };
    simulate_with(1, options, |world| async move {
        world.start_agent();
        world.sleep(seconds(60)).await;
        world.hang(Some("ListContainers"));
        world.sleep(seconds(175)).await;
        assert_eq!(node_condition(&world, "Ready").0, "True");
        world.sleep(seconds(18)).await;
        let (ready, message) = node_condition(&world, "Ready");
        let expected = "PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s: ListContainers: no \
                        answer within 120s";
        assert_eq!((ready.as_str(), message.as_str()), ("False", expected));
        finish_heard(&world).await;
    });
}

/// PAIN-02, NODE-38: where the runtime answers about no pod at all, the Node says so: for how long, and which call it
/// was.
#[test]
fn a_node_whose_runtime_lists_nothing_says_which_call_hangs() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run")).expect("made");
        world.start_agent();
        world.settle().await;
        world.hang(Some("ListContainers"));
        world.sleep(seconds(400)).await;
        let (ready, message) = node_condition(&world, "Ready");
        assert_eq!(ready, "False", "{message}");
        for word in ["PLEG is not healthy: pleg was last seen active ", "; threshold is ", "ListContainers: no answer"]
        {
            assert!(message.contains(word), "{word:?} in {message:?}");
        }
        assert!(world.running().contains("web/main#0"), "nothing is ended for it");
        finish_heard(&world).await;
    });
}

/// PAIN-04, in small; `simulate --churn 20000` is the same with its memory measured. Nothing of a pod that is gone is known to
/// anybody who keeps something for each pod.
#[test]
fn pods_that_come_and_go_leave_nobody_behind() {
    simulate(1, |world| async move {
        scenario::churn(world.clone(), 300, |_| {}).await;
        world.sleep(seconds(120)).await;
        let agent = world.agent().expect("it runs");
        let actors = agent.agent.trace.actors();
        assert_eq!(actors.iter().filter(|actor| actor.kind == "PodWorker").count(), 0);
        assert!(world.statuses().await.expect("it answers").is_empty());
    });
}

/// When the first line of the story after `since` tells of this.
fn time_of(world: &World, since: Duration, words: &[&str]) -> Duration {
    let lines = world.story();
    let mut found = lines.iter().filter(|line| line.at >= since && words.iter().all(|word| line.what.contains(word)));
    found.next().unwrap_or_else(|| panic!("nothing of {words:?}")).at
}

/// PAIN-07: a static pod that is edited is asked to stop at once, and its next version runs within a second of its end.
#[test]
fn an_edited_static_pod_runs_within_a_second_of_the_old_ones_end() {
    for seed in 0..10 {
        simulate(seed, |world| async move {
            world.put(&SimPod::of("etcd", "run stops in 3s"));
            world.start_agent();
            world.settle().await;
            world.sleep(seconds(30)).await;
            let edited = world.node().time.elapsed();
            world.put(&SimPod::of("etcd", "run stops in 1s"));
            world.settle().await;
            let asked = time_of(&world, edited, &["etcd-node-1/main#0 is asked to stop"]);
            let over = time_of(&world, edited, &["sandbox etcd-node-1", "is stopped"]);
            let runs = time_of(&world, edited, &["etcd-node-1/main", "runs"]);
            assert!(asked - edited < seconds(1), "it is asked to stop after {:?}", asked - edited);
            assert!(runs - over < seconds(1), "the next one runs {:?} after the last one's end", runs - over);
            world.finish().await;
        });
    }
}

static CHANGED: AtomicBool = AtomicBool::new(false);

/// PAIN-17: what runs was admitted once. Neither a label that is gone, nor a node that has room for fewer, nor a new taint
/// ends it, whatever starts anew.
#[test]
fn a_restart_rejects_nothing_that_runs() {
    let options = Options {
        settings: |settings| {
            if CHANGED.load(Ordering::Relaxed) {
                settings.node.status.capacity.max_pods = 1;
            }
        },
        ..in_a_cluster()
    };
    simulate_with(1, options, |world| async move {
        let node = "/api/v1/nodes/node-1";
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.api().admin("PATCH", node, json!({ "metadata": { "labels": { "disk": "ssd" } } })).expect("it is there");
        world.sleep(seconds(5)).await;
        let picky = SimPod::of("picky", "run").own_field("nodeSelector", json!({ "disk": "ssd" }));
        world.create(&picky).expect("made");
        world.create(&SimPod::of("web", "run")).expect("made");
        world.settle().await;
        CHANGED.store(true, Ordering::Relaxed);
        let taint = json!([{ "key": "old", "effect": "NoSchedule" }]);
        let change = json!({ "metadata": { "labels": { "disk": null } }, "spec": { "taints": taint } });
        world.api().admin("PATCH", node, change).expect("it is there");
        for _ in 0..3 {
            world.sleep(seconds(20)).await;
            world.kill_agent();
        }
        world.sleep(seconds(30)).await;
        world.settle().await;
        assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["picky/main#0", "web/main#0"]);
        for name in ["picky", "web"] {
            assert_eq!(world.api_pod(name).expect("it is there")["status"]["phase"], "Running");
        }
        // The change counts: what is new finds no place.
        world.create(&picky_too()).expect("made");
        world.sleep(seconds(10)).await;
        let late = world.api_pod("late").expect("it is there");
        assert_eq!(late["status"]["phase"], "Failed");
        world.delete_pod("late", None);
        world.finish_cluster().await;
    });
}

fn picky_too() -> SimPod {
    SimPod::of("late", "run").own_field("nodeSelector", json!({ "disk": "ssd" }))
}

/// The wait in the status of a pod that is deleted and does not end.
const ENDS: &str = "its containers to stop, within 500s";

/// A pod that waits, what keeps it, and what it says.
struct StuckPod {
    pod: SimPod,
    hangs: Option<&'static str>,
    network: Option<&'static str>,
    /// One of these.
    says: &'static [&'static str],
}

fn stuck_pods() -> Vec<StuckPod> {
    let case = |pod: SimPod, says: &'static [&'static str]| StuckPod { pod, hangs: None, network: None, says };
    let main = || SimPod::of("web", "run");
    let missing = json!({ "configMap": { "name": "settings" } });
    let probed = |kind: &'static str| {
        main().field(kind, json!({ "httpGet": { "path": "/fails", "port": 80 }, "failureThreshold": 900 }))
    };
    vec![
        case(main().volume("settings", missing), &["waits for its volumes: "]),
        StuckPod { hangs: Some("RunPodSandbox"), ..case(main(), &["sandbox"]) },
        StuckPod { network: Some("no plugin"), ..case(main(), &["network is not ready: "]) },
        StuckPod { hangs: Some("PullImage"), ..case(main(), &["the image of container main"]) },
        case(main().image("gone:1"), &["the image of container main", "Back-off pulling image \"gone:1\""]),
        case(
            SimPod::new("web").init("setup", "exit 0 after 500s").init("more", "exit 0").container("main", "run"),
            &["init container setup (1 of 2) to end"],
        ),
        StuckPod { hangs: Some("CreateContainer"), ..case(main(), &["container main"]) },
        case(probed("startupProbe"), &["the startup probe of main"]),
        case(probed("readinessProbe"), &["the readiness probe of main"]),
        case(SimPod::of("web", "exit 1 after 1s"), &["back-off ", "containers with unready status: [main]"]),
        case(SimPod::of("web", "run ignores stop").grace(500), &[ENDS]),
    ]
}

/// PAIN-20, PAIN-11: at each stage a pod that waits says what for, in its waits or in its conditions, and in all looks
/// of ten seconds.
#[test]
fn a_waiting_pod_says_what_for_at_every_stage() {
    for (number, case) in stuck_pods().into_iter().enumerate() {
        simulate_with(1, in_a_cluster(), move |world| async move {
            world.node().images.lock().expect("not poisoned").unknown.insert("gone:1".to_owned());
            world.set_condition("NetworkReady", case.network);
            world.start_agent();
            world.sleep(seconds(10)).await;
            world.hang(case.hangs);
            world.create(&case.pod).expect("made");
            world.sleep(seconds(40)).await;
            if case.says.contains(&ENDS) {
                world.delete_pod("web", None);
                world.sleep(seconds(2)).await;
            }
            for _ in 0..20 {
                world.sleep(Duration::from_millis(500)).await;
                let said = words(&world).await;
                let says = said.iter().any(|one| case.says.iter().any(|words| one.contains(words)));
                assert!(says, "stage {number}, {:?}: {said:?}", case.says);
            }
            world.set_condition("NetworkReady", None);
            world.hang(None);
            world.delete_pod("web", Some(0));
            world.sleep(seconds(600)).await;
        });
    }
}

/// All that a pod says of itself while it waits.
async fn words(world: &World) -> Vec<String> {
    let view = view(world, "web").await.expect("it is known");
    let status = serde_json::to_value(&*view.status).expect("a status is JSON");
    let text = |one: &Value| one["message"].as_str().map(str::to_owned);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let waiting = status["containerStatuses"].as_array().cloned().unwrap_or_default();
    let waiting = waiting.iter().filter_map(|one| text(&one["state"]["waiting"]));
    view.waits().into_iter().chain(conditions.iter().filter_map(text)).chain(waiting).collect()
}

/// PAIN-39: the first probe of a container is made at once and not after a period. So is the first one after its start is
/// over: with a period of ten seconds, what is well is ready within a second.
#[test]
fn what_is_well_is_ready_within_a_second() {
    for (starts_after, rounds) in [(0, 0), (4, 1)] {
        simulate_with(1, in_a_cluster(), move |world| async move {
            world.start_agent();
            // The first rounds of a young agent are spread.
            world.sleep(seconds(60)).await;
            let probe = |path: String, period: u32| json!({ "httpGet": { "path": path, "port": 80 }, "periodSeconds": period, "failureThreshold": 30 });
            let mut pod = SimPod::of("web", "run").field("readinessProbe", probe("/ok".to_owned(), 10));
            if starts_after > 0 {
                pod = pod.field("startupProbe", probe(format!("/ok-after/{starts_after}"), 1));
            }
            world.create(&pod).expect("made");
            world.sleep(seconds(20)).await;
            let runs = time_of(&world, Duration::ZERO, &["web/main#0 runs"]);
            let ready = time_of(&world, runs, &["pod web is told", "Ready True"]);
            // A container that is well is seen to be so by the next round of its startup probe.
            let took = (ready - runs).saturating_sub(seconds(starts_after));
            println!("PAIN-39: ready {took:?} after it was well, {starts_after} s after its start");
            assert!(took < seconds(1 + rounds), "{took:?}");
            world.finish_cluster().await;
        });
    }
}
