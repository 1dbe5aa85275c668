//! Mirrors of static pods in the API server, and the news to pods that this node cannot take.

use std::time::Duration;

use podwright::logic::manifest::restart_gates::RestartGates;
use podwright::sim::{Options, SimPod, World, simulate_with};
use serde_json::{Value, json};

use crate::pods::resize::in_a_cluster;

const MIRROR: &str = "fixed-node-1";

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A static pod runs and has its mirror.
async fn mirrored(world: &World) {
    world.put(&SimPod::of("fixed", "run"));
    world.start_agent();
    world.settle().await;
    assert!(world.api_pod(MIRROR).is_some());
}

fn forget_mirror(world: &World) {
    world.delete_pod(MIRROR, Some(0));
}

/// POD-06, SEC-50: nobody owns a mirror once the Node is gone: none is made, however often it is taken away; the static pod
/// runs on, and has its mirror again when the node joins again.
#[test]
fn no_mirror_is_made_for_a_node_that_is_gone() {
    simulate_with(1, in_a_cluster(), |world| async move {
        mirrored(&world).await;
        world.api().admin("DELETE", "/api/v1/nodes/node-1", Value::Null).expect("it is there");
        world.sleep(seconds(2)).await;
        forget_mirror(&world);
        world.sleep(seconds(120)).await;
        assert!(world.api_pod(MIRROR).is_none(), "{:?}", world.api_pod(MIRROR));
        assert!(world.running().contains("fixed-node-1/main#0"));
        world.kill_agent();
        world.start_agent();
        world.settle().await;
        assert!(world.api_pod(MIRROR).is_some());
        world.finish_cluster().await;
    });
}

/// POD-06: a mirror that somebody takes away from a node that is there comes back.
#[test]
fn a_mirror_is_made_again_while_its_node_is_there() {
    simulate_with(1, in_a_cluster(), |world| async move {
        mirrored(&world).await;
        forget_mirror(&world);
        world.sleep(seconds(120)).await;
        assert!(world.api_pod(MIRROR).is_some());
        world.finish_cluster().await;
    });
}

/// POD-06: while an edited static pod still ends, its mirror stays as it is; then one of the new version takes its place, which
/// knows nothing of the end of the pod before.
#[test]
fn an_edited_static_pod_has_its_mirror_exchanged_when_the_old_one_has_ended() {
    for policy in ["Always", "Never"] {
        simulate_with(1, in_a_cluster(), move |world| async move {
            let pod =
                move |image: &str| SimPod::of("fixed", "run ignores stop").image(image).grace(20).restarts(policy);
            let seen = |world: &World| {
                let mirror = world.api_pod(MIRROR).expect("it has a mirror");
                let image = mirror["spec"]["containers"][0]["image"].clone();
                (mirror["metadata"]["uid"].clone(), image, mirror["status"]["phase"].clone())
            };
            world.put(&pod("app:1"));
            world.start_agent();
            world.settle().await;
            let before = seen(&world);
            assert_eq!((&before.1, &before.2), (&json!("app:1"), &json!("Running")));
            world.put(&pod("app:2"));
            for _ in 0..18 {
                world.sleep(seconds(1)).await;
                assert_eq!(seen(&world), before, "{policy}");
            }
            for _ in 0..60 {
                world.sleep(seconds(1)).await;
                let now = world.api_pod(MIRROR);
                assert!(now.is_none_or(|now| now["metadata"]["uid"] == before.0 || now["status"]["phase"] != "Failed"));
            }
            let after = seen(&world);
            assert_eq!((after.1, after.2), (json!("app:2"), json!("Running")), "{policy}");
            assert_ne!(after.0, before.0);
            world.finish_cluster().await;
        });
    }
}

/// POD-06: the agent was away while a static pod was edited: what still ends keeps its mirror, too.
#[test]
fn a_static_pod_that_was_edited_without_an_agent_keeps_its_mirror_until_the_old_one_has_ended() {
    simulate_with(1, in_a_cluster(), |world| async move {
        mirrored(&world).await;
        let before = world.api_pod(MIRROR).expect("it has a mirror")["metadata"]["uid"].clone();
        world.stop_agent();
        world.put(&SimPod::of("fixed", "run").image("app:2"));
        world.hang(Some("StopContainer"));
        world.start_agent();
        world.sleep(seconds(30)).await;
        assert_eq!(world.api_pod(MIRROR).expect("it has a mirror")["metadata"]["uid"], before);
        world.hang(None);
        world.settle().await;
        assert_ne!(world.api_pod(MIRROR).expect("it has a mirror")["metadata"]["uid"], before);
        world.finish_cluster().await;
    });
}

/// The hash of the manifest that the mirror stands for.
fn mirror_hash(world: &World) -> Option<Value> {
    world.api_pod(MIRROR).map(|mirror| mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"].clone())
}

/// How long until the mirror stands for another manifest than this, within two minutes.
async fn exchanged(world: &World, before: &Option<Value>) -> Duration {
    for turn in 0..1200 {
        let hash = mirror_hash(world);
        if hash.is_some() && hash != *before {
            return Duration::from_millis(100) * turn;
        }
        world.sleep(Duration::from_millis(100)).await;
    }
    panic!("the mirror was not exchanged");
}

/// POD-06: an API server that has just started denies the mirror until its own caches are full. `kubeadm upgrade` waits for
/// just this mirror.
#[test]
fn a_mirror_that_the_api_server_denies_is_exchanged_soon_after() {
    for filling in [2, 9, 40] {
        simulate_with(filling, in_a_cluster(), move |world| async move {
            mirrored(&world).await;
            let before = mirror_hash(&world);
            world.link().fill_caches(world.node(), seconds(filling + 5));
            world.put(&SimPod::of("fixed", "run").image("app:2"));
            world.sleep(seconds(5)).await;
            assert_eq!(mirror_hash(&world), before, "it was denied");
            world.sleep(seconds(filling)).await;
            let took = exchanged(&world, &before).await;
            assert!(took <= Duration::from_millis(2500), "{took:?}");
            world.finish_cluster().await;
        });
    }
}

/// POD-06: the edited static pod may be the API server itself, which is away for as long as that takes. The watch is
/// opened again later than the mirror is exchanged.
#[test]
fn a_mirror_is_exchanged_soon_after_the_api_server_is_back() {
    for away in [20, 90, 200] {
        simulate_with(away, in_a_cluster(), move |world| async move {
            mirrored(&world).await;
            let before = mirror_hash(&world);
            world.link().go_away(world.node(), seconds(away));
            world.link().fill_caches(world.node(), seconds(away + 3));
            world.put(&SimPod::of("fixed", "run").image("app:2"));
            world.sleep(seconds(away + 3)).await;
            let took = exchanged(&world, &before).await;
            assert!(took <= Duration::from_millis(2500), "{took:?}");
            world.finish_cluster().await;
        });
    }
}

/// How often the container was asked to stop.
fn stops(world: &World) -> usize {
    world
        .story()
        .iter()
        .filter(|line| line.what.contains("fixed-node-1/main") && line.what.contains("is asked to stop"))
        .count()
}

/// POD-09: a manifest that is removed and written again ends its pod and runs it anew, however soon, and though not a byte has
/// changed. A restart of the agent is no new life. A mirror that showed an end cannot show that, so another one does.
#[test]
fn a_manifest_that_is_removed_and_written_again_runs_its_pod_anew() {
    for (pause, policy) in
        [(0, "Always"), (5, "Always"), (100, "Always"), (3000, "Always"), (0, "Never"), (100, "Never")]
    {
        simulate_with(1, in_a_cluster(), move |world| async move {
            let pod = || SimPod::of("fixed", "run stops in 2s").grace(10).restarts(policy);
            world.put(&pod());
            world.start_agent();
            world.settle().await;
            world.delete("fixed");
            world.sleep(Duration::from_millis(pause)).await;
            world.put(&pod());
            world.sleep(seconds(60)).await;
            world.settle().await;
            assert_eq!(stops(&world), 1, "{pause} {policy}");
            assert_eq!(world.running().len(), 1, "{pause} {policy}");
            let status = world.api_pod(MIRROR).expect("it has a mirror")["status"].clone();
            assert_eq!(status["phase"], "Running", "{pause} {policy}");
            // The former life's log is still there, and tells the count.
            assert_eq!(status["containerStatuses"][0]["restartCount"], 1, "{pause} {policy}");
            assert!(world.running().iter().all(|name| name.ends_with("/main#1")), "{pause} {policy}");
            world.kill_agent();
            world.sleep(seconds(60)).await;
            assert_eq!(stops(&world), 1, "a restart of the agent is no new life");
            world.finish_cluster().await;
        });
    }
}

/// POD-06, POD-31: a static pod that the node refuses has a mirror, too, which says why; one that ran as another version has
/// a new one.
#[test]
fn a_refused_static_pod_says_so_in_its_mirror() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let elsewhere = || SimPod::of("fixed", "run").own_field("nodeSelector", json!({ "disk": "fast" }));
        let refused = |mirror: Option<&Value>| {
            let status = &mirror.expect("it has a mirror")["status"];
            (status["phase"].clone(), status["reason"].clone(), status["message"].clone())
        };
        let expected = || {
            let message =
                "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            (json!("Failed"), json!("NodeAffinity"), json!(message))
        };
        world.put(&elsewhere());
        world.start_agent();
        world.sleep(seconds(30)).await;
        assert_eq!(refused(world.api_pod(MIRROR).as_deref()), expected());
        world.delete("fixed");
        world.sleep(seconds(60)).await;
        assert!(world.api_pod(MIRROR).is_none(), "nobody wants it any more");
        world.put(&SimPod::of("fixed", "run"));
        world.sleep(seconds(30)).await;
        let before = world.api_pod(MIRROR).expect("it has a mirror")["metadata"]["uid"].clone();
        world.put(&elsewhere());
        world.sleep(seconds(90)).await;
        assert_eq!(refused(world.api_pod(MIRROR).as_deref()), expected());
        assert_ne!(world.api_pod(MIRROR).expect("as before")["metadata"]["uid"], before);
        assert!(world.running().is_empty());
        world.delete("fixed");
        world.sleep(seconds(60)).await;
    });
}

/// PAIN-18, POD-31: a static pod that was refused is taken once nothing is in the way any more: another mirror says so, for the
/// API lets no phase go back. A pod of the API server stays refused.
#[test]
fn a_refused_static_pod_is_judged_again_when_the_node_changes() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let choosy = |name: &str| SimPod::of(name, "run").own_field("nodeSelector", json!({ "disk": "fast" }));
        let phase = |world: &World, pod: &str| world.api_pod(pod).map(|pod| pod["status"]["phase"].clone());
        world.put(&choosy("fixed"));
        world.create(&choosy("web")).expect("made");
        world.start_agent();
        world.sleep(seconds(90)).await;
        for pod in [MIRROR, "web"] {
            assert_eq!(phase(&world, pod), Some(json!("Failed")), "{pod}");
        }
        let before = world.api_pod(MIRROR).expect("it has a mirror")["metadata"]["uid"].clone();
        let views = world.statuses().await.expect("an agent");
        let waits = views.iter().find(|view| view.pod.metadata.name.as_deref() == Some(MIRROR)).expect("told");
        assert!(waits.waits()[0].starts_with("not yet: Predicate NodeAffinity failed"), "{:?}", waits.waits());
        let refusals = || world.event_reasons(MIRROR).iter().filter(|reason| *reason == "NodeAffinity").count();
        assert_eq!(refusals(), 1, "a refusal that stands is told of once");
        let patch = json!({ "metadata": { "labels": { "disk": "fast" } } });
        world.api().admin("PATCH", "/api/v1/nodes/node-1", patch).expect("it is there");
        world.sleep(seconds(30)).await;
        assert_eq!((phase(&world, MIRROR), phase(&world, "web")), (Some(json!("Running")), Some(json!("Failed"))));
        let after = world.api_pod(MIRROR).expect("it has a mirror")["metadata"]["uid"].clone();
        assert_ne!(before, after);
        world.sleep(seconds(120)).await;
        assert_eq!(world.api_pod(MIRROR).expect("it stays")["metadata"]["uid"], after);
        assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["fixed-node-1/main#0"]);
        world.delete_pod("web", None);
        world.finish_cluster().await;
    });
}

/// PAIN-18: the same of room that another static pod took, also without an API server.
#[test]
fn a_static_pod_without_room_is_taken_when_there_is_some() {
    for cluster in [true, false] {
        let options =
            Options { cluster, settings: |settings| settings.node.status.capacity.max_pods = 1, ..Options::default() };
        simulate_with(1, options, move |world| async move {
            world.put(&SimPod::of("first", "run"));
            world.start_agent();
            world.settle().await;
            world.put(&SimPod::of("second", "run"));
            world.sleep(seconds(90)).await;
            assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["first-node-1/main#0"], "{cluster}");
            world.delete("first");
            world.sleep(seconds(40)).await;
            assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["second-node-1/main#0"], "{cluster}");
            world.settle().await;
            world.delete("second");
            world.settle().await;
        });
    }
}

/// POD-31: a pod that has all containers start over does not run where the node does not declare that it can.
#[test]
fn a_pod_that_relies_on_what_is_not_declared_fails() {
    let options = Options {
        settings: |settings| {
            settings.pods.restart_gates = RestartGates { all: false, ..RestartGates::default() };
            settings.node.status.declared_features = Some(vec![]);
        },
        ..in_a_cluster()
    };
    simulate_with(1, options, |world| async move {
        let relying = SimPod::of("relying", "run").rule(42, "RestartAllContainers");
        world.create(&relying).expect("made");
        world.start_agent();
        world.sleep(seconds(30)).await;
        let status = world.api_pod("relying").expect("it is there")["status"].clone();
        let why = "Pod was rejected: Pod requires node features that are not available: \
                   RestartAllContainersOnContainerExits";
        let found = (&status["phase"], &status["reason"], &status["message"]);
        assert_eq!(found, (&json!("Failed"), &json!("PodFeatureUnsupported"), &json!(why)));
        world.delete_pod("relying", None);
        world.sleep(seconds(60)).await;
    });
}

/// POD-32: where the runtime does not end a pod that makes room, an Event says so after its grace period and half of it.
#[test]
fn a_pod_that_makes_no_room_in_time_is_told_of() {
    let options = Options { settings: |settings| settings.node.status.capacity.max_pods = 1, ..in_a_cluster() };
    simulate_with(1, options, |world| async move {
        let told = |world: &World| {
            let all = world.api().all("events").into_iter();
            all.filter(|event| event["reason"] == "ExceededGracePeriod").collect::<Vec<_>>()
        };
        world.create(&SimPod::of("web", "run stops in 2s").grace(20)).expect("made");
        world.start_agent();
        world.settle().await;
        world.hang(Some("StopContainer"));
        world.put(&SimPod::of("vital", "run"));
        world.sleep(seconds(28)).await;
        assert!(told(&world).is_empty(), "{:?}", told(&world));
        world.sleep(seconds(10)).await;
        let events = told(&world);
        let message = "Container runtime did not kill the pod within specified grace period.";
        assert_eq!(events.len(), 1, "{events:?}");
        let (about, kind) = (&events[0]["involvedObject"]["name"], &events[0]["type"]);
        assert_eq!((about, kind, &events[0]["message"]), (&json!("web"), &json!("Warning"), &json!(message)));
        world.hang(None);
        world.delete_pod("web", None);
        world.delete("vital");
        world.sleep(seconds(300)).await;
        assert!(world.running().is_empty());
    });
}
