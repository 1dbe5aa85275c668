//! How pods end that do not end by themselves, what is told of it, and what is free once they have.

use std::time::Duration;

use podwright::sim::pods::manifest_path;
use podwright::sim::{Options, SimPod, World, describe, run, simulate_with};
use serde_json::{Value, json};

use super::resize::{in_a_cluster, seconds, sized};

fn status(world: &World, pod: &str) -> Value {
    world.api_pod(pod).expect("it is there")["status"].clone()
}

fn condition(status: &Value, kind: &str) -> Value {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|one| one["type"] == kind).cloned().unwrap_or_default()
}

/// Somebody else says of the pod how it is.
fn say(world: &World, pod: &str, status: &Value) {
    let place = format!("/api/v1/namespaces/default/pods/{pod}/status");
    world.api().admin("PATCH", &place, json!({ "status": status })).expect("it is there");
}

/// POD-07: whoever says that a pod has failed, it ends; its own end comes once and nothing comes after it.
#[test]
fn a_pod_that_somebody_says_has_failed_ends() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run stops in 2s").deadline(100_000)).expect("made");
        world.create(&SimPod::of("job", "exit 0 after 5s").restarts("Never")).expect("made");
        world.start_agent();
        world.settle().await;
        assert!(world.running().contains("web/main#0"));
        assert_eq!(status(&world, "job")["phase"], "Succeeded");
        let before = status(&world, "job");
        say(&world, "web", &json!({ "phase": "Failed", "reason": "Lost", "message": "its node was given up" }));
        world.sleep(seconds(10)).await;
        assert!(world.running().is_empty(), "{:?}", world.running());
        let told = status(&world, "web");
        assert_eq!((&told["phase"], &told["reason"]), (&json!("Failed"), &json!("Lost")), "{told}");
        assert_eq!(told["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143, "{told}");
        assert_eq!(status(&world, "job"), before);
        world.delete_pod("web", None);
        world.finish_cluster().await;
    });
}

/// The one pod that a node has room for.
fn one_pod() -> Options {
    Options { settings: |settings| settings.node.status.capacity.max_pods = 1, ..in_a_cluster() }
}

/// The events on a node with room for one pod when the pod `web` has to end for a critical one. Its end is all that goes
/// against the user's wish.
fn with_a_critical_pod<F: Future<Output = ()>>(web: SimPod, then: impl FnOnce(World) -> F + Send + 'static) {
    let run = run(1, one_pod(), |world| async move {
        world.create(&web).expect("made");
        world.start_agent();
        world.settle().await;
        then(world.clone()).await;
        world.sleep(seconds(60)).await;
        assert!(world.running().is_empty());
    });
    let stopped: Vec<&str> = run.violations.iter().map(|one| one.name).collect();
    assert_eq!(stopped, ["wanted-lives"], "{}", describe(&run.violations, &run.story));
}

/// POD-32, PAIN-18: a pod of the API that ends for a static one says so, keeps its status, and has ended as its containers
/// did.
#[test]
fn a_preempted_pod_ends_as_its_containers_do() {
    for (does, phase, reason) in
        [("run stops in 2s with 0", "Succeeded", Value::Null), ("run stops in 2s", "Failed", json!("Preempting"))]
    {
        with_a_critical_pod(SimPod::of("web", does), move |world| async move {
            let before = status(&world, "web");
            world.put(&SimPod::of("vital", "run"));
            for _ in 0..60 {
                world.sleep(seconds(1)).await;
                let told = status(&world, "web");
                assert!(told["phase"] == "Running" || !world.running().contains("web/main#0"), "{told}");
            }
            assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["vital-node-1/main#0"]);
            let told = status(&world, "web");
            assert_eq!((&told["phase"], &told["reason"]), (&json!(phase), &reason), "{told}");
            if phase == "Failed" {
                assert_eq!(told["message"], "Preempted in order to admit critical pod");
            }
            for (kind, is) in [
                ("Initialized", "True"),
                ("Ready", "False"),
                ("ContainersReady", "False"),
                ("PodScheduled", "True"),
                ("DisruptionTarget", "True"),
            ] {
                assert_eq!(condition(&told, kind)["status"], is, "{kind} in {told}");
            }
            for field in ["podIP", "podIPs", "hostIP", "qosClass", "startTime"] {
                assert_eq!(told[field], before[field], "{field}");
            }
            assert!(!told["containerStatuses"][0]["state"]["terminated"].is_null(), "{told}");
            // The agent that knew of it may be lost, and the next one hears of it.
            world.kill_agent();
            world.sleep(seconds(60)).await;
            assert_eq!(status(&world, "web"), told);
            world.delete_pod("web", None);
            world.delete("vital");
        });
    }
}

/// PAIN-18: a pod that waits for others to make room says so, and by when they are to have ended.
#[test]
fn a_pod_that_waits_for_room_says_until_when() {
    with_a_critical_pod(SimPod::of("web", "run stops in 8s").grace(20), |world| async move {
        world.create(&SimPod::of("vital", "run").own_field("priority", json!(2_000_000_000))).expect("made");
        world.sleep(seconds(4)).await;
        let waits = status(&world, "vital")["conditions"].as_array().cloned().unwrap_or_default();
        let messages: Vec<&str> = waits.iter().filter_map(|one| one["message"].as_str()).collect();
        let (what, until) = messages.iter().find_map(|text| text.split_once(", until ")).expect("it says so");
        assert_eq!(what, "waits for room that other pods still take");
        assert!(until.parse::<jiff::Timestamp>().is_ok(), "{until}");
        world.sleep(seconds(60)).await;
        assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["vital/main#0"]);
        for name in ["web", "vital"] {
            world.delete_pod(name, None);
        }
    });
}

/// POD-31: a static pod that has ended takes no room, and counts no more for the share of its tier.
#[test]
fn a_static_pod_that_has_ended_takes_no_room() {
    simulate_with(1, one_pod(), |world| async move {
        let shares = |world: &World| {
            let cgroups = world.node().cgroups.lock().expect("not poisoned");
            let mut tiers = cgroups.all.iter().filter(|(name, _)| name.to_string().ends_with("burstable"));
            tiers.next().and_then(|(_, settings)| settings.cpu_shares).expect("it is set")
        };
        let cpu = json!({ "requests": { "cpu": "500m" } });
        world.put(&SimPod::of("job", "exit 0 after 20s").restarts("Never").field("resources", cpu));
        world.start_agent();
        world.sleep(seconds(15)).await;
        assert_eq!(shares(&world), 512);
        world.sleep(seconds(150)).await;
        assert_eq!(shares(&world), 2);
        world.create(&SimPod::of("web", "run").field("resources", sized("100m", "64Mi"))).expect("made");
        world.settle().await;
        assert!(world.running().contains("web/main#0"), "{}", status(&world, "web"));
        world.finish_cluster().await;
    });
}

/// POD-31: before a pod fails because of the Node's labels, the Node is read once more, for this pod.
#[test]
fn a_pod_that_only_labels_keep_away_is_judged_by_the_newest_node() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let read = |world: &World| world.api().asked().get("get nodes").copied().unwrap_or_default();
        world.start_agent();
        world.settle().await;
        let before = read(&world);
        world.create(&SimPod::of("web", "run").own_field("nodeSelector", json!({ "disk": "fast" }))).expect("made");
        world.sleep(seconds(5)).await;
        assert_eq!(status(&world, "web")["reason"], "NodeAffinity");
        assert_eq!(read(&world) - before, 1);
        world.delete_pod("web", None);
        world.sleep(seconds(60)).await;
    });
}

/// Has a pod created, and so much later the node labelled as the pod wants it; gives whether the pod was let in by a second
/// look at the Node. A pod that was let in and has ended stays ended, and so does not run again.
fn is_let_in_by_a_second_look(delay: Duration) -> bool {
    simulate_with(1, in_a_cluster(), move |world| async move {
        let read = |world: &World| world.api().asked().get("get nodes").copied().unwrap_or_default();
        world.start_agent();
        world.settle().await;
        let before = read(&world);
        let labels = json!({ "metadata": { "labels": { "disk": "fast" } } });
        let web = SimPod::of("web", "run").container("once", "exit 0 after 2s").init("first", "exit 0 after 1s");
        let web = web.restarts("Never").own_field("nodeSelector", json!({ "disk": "fast" }));
        world.create(&web).expect("made");
        world.sleep(delay).await;
        world.api().admin("PATCH", "/api/v1/nodes/node-1", labels).expect("it is there");
        world.sleep(seconds(20)).await;
        let is_let_in = status(&world, "web")["phase"] == "Running" && read(&world) - before == 1;
        if is_let_in {
            let ended = |world: &World| status(world, "web")["containerStatuses"][1]["state"]["terminated"].clone();
            let first = ended(&world);
            assert_eq!(first["exitCode"], 0, "{}", status(&world, "web"));
            world.sleep(seconds(200)).await;
            assert_eq!(ended(&world), first, "{}", status(&world, "web"));
            assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["web/main#0"]);
        }
        world.delete_pod("web", None);
        world.finish_cluster().await;
        is_let_in
    })
}

/// CRI-20, POD-31: a pod that the second look lets in is known at once to who removes dead containers.
#[test]
fn a_pod_let_in_by_a_second_look_keeps_what_has_ended() {
    let delays = (0..60).step_by(3).map(Duration::from_millis);
    assert!(delays.filter(|delay| is_let_in_by_a_second_look(*delay)).count() > 0, "never looked twice");
}

/// EVI-44.
/// CRI-20: the API server was never heard, so nobody knows which pods there are to be; a pod that fails again and again
/// leaves no more behind for that.
#[test]
fn dead_containers_do_not_pile_up_while_not_all_pods_are_known() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.put(&SimPod::of("web", "exit 1 after 1s").container("side", "run"));
        world.link().go_away(world.node(), seconds(3600));
        world.start_agent();
        world.sleep(seconds(1200)).await;
        let made = || world.node().containers.lock().expect("no panic before").containers.len();
        assert!(world.running().iter().any(|one| one.starts_with("web-node-1/side")), "{:?}", world.running());
        // Of the one that fails: the newest, and the one before it that is kept for its logs.
        assert!(made() <= 3, "{}", made());
        world.sleep(seconds(3600)).await;
        world.delete("web");
        world.finish_cluster().await;
    });
}

/// POD-25, POD-28: a container that never came to run has ended when its pod is over its time.
#[test]
fn a_pod_that_is_over_its_time_before_its_image_is_there_has_ended_containers() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.node().images.lock().expect("not poisoned").unknown.insert("app:none".to_owned());
        world.create(&SimPod::of("web", "run").image("app:none").deadline(30)).expect("made");
        world.start_agent();
        world.sleep(seconds(25)).await;
        let waits = status(&world, "web")["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
        assert!(waits == "ImagePullBackOff" || waits == "ErrImagePull", "{waits}");
        world.sleep(seconds(60)).await;
        let told = status(&world, "web");
        assert_eq!((&told["phase"], &told["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")), "{told}");
        let end = &told["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&end["exitCode"], &end["reason"]), (&json!(137), &json!("ContainerStatusUnknown")), "{told}");
        world.delete_pod("web", None);
        world.finish_cluster().await;
    });
}

/// POD-01: a manifest that is no pod for a moment costs its pod nothing; one that stays so for long does.
#[test]
fn a_manifest_that_is_broken_for_a_moment_costs_nothing() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let (web, spoil) = (SimPod::of("web", "run").deadline(100_000), |world: &World| {
            world.node().manifests.write(manifest_path("web").into(), b"{", &world.node().faults);
        });
        world.put(&web);
        world.start_agent();
        world.settle().await;
        for pause in [1, 15] {
            spoil(&world);
            world.sleep(seconds(pause)).await;
            assert!(world.running().contains("web-node-1/main#0"), "{:?}", world.running());
            world.put(&web);
            world.sleep(seconds(30)).await;
            assert!(world.running().contains("web-node-1/main#0"), "{:?}", world.running());
        }
        spoil(&world);
        world.sleep(seconds(90)).await;
        assert!(world.running().is_empty(), "{:?}", world.running());
        world.put(&web);
        world.settle().await;
        world.delete("web");
        world.sleep(seconds(1)).await;
        spoil(&world);
        world.sleep(seconds(10)).await;
        assert!(world.running().is_empty(), "what was deleted does not come back: {:?}", world.running());
        world.finish_cluster().await;
    });
}
