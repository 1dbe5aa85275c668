//! A node before all that it needs is there: without its API server, before the runtime's word, and with many pods
//! at once. Times are virtual.

use std::time::Duration;

use podwright::sim::{SimPod, World, simulate_with};
use serde_json::{Value, json};

use crate::pods::resize::{in_a_cluster, seconds};

fn running(world: &World) -> Vec<String> {
    world.running().into_iter().collect()
}

fn condition(pod: &Value, kind: &str) -> Value {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

/// PAIN-08, PAIN-09, NODE-56, NODE-57: static pods ask nothing of the API server, neither to start nor to be replaced; once
/// it is there, it hears of the node and of them.
#[test]
fn a_boot_without_the_api_server_starts_static_pods_at_once() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.link().go_away(world.node(), seconds(900));
        world.put(&SimPod::of("etcd", "run stops in 1s"));
        world.start_agent();
        world.sleep(seconds(5)).await;
        assert_eq!(running(&world), ["etcd-node-1/main#0"]);
        world.put(&SimPod::of("etcd", "run stops in 2s"));
        world.sleep(seconds(10)).await;
        assert_eq!(running(&world), ["etcd-node-1/main#0"]);
        let stopped =
            world.story().into_iter().filter(|line| line.what.contains("etcd-node-1/main#0 is asked to stop"));
        assert_eq!(stopped.count(), 1, "it is another one");
        assert!(world.api().get("nodes", "", "node-1").is_none() && world.api_pod("etcd-node-1").is_none());
        world.sleep(seconds(900)).await;
        world.settle().await;
        let mirror = world.api_pod("etcd-node-1").expect("it is shown");
        assert!(mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string());
        assert_eq!(condition(&mirror, "Ready")["status"], "True");
        world.finish_cluster().await;
    });
}

/// PAIN-09, POD-29: what containers are made of was heard long ago and is not asked for between their starts; it stands
/// for as long as the API server is away.
#[test]
fn containers_start_again_through_an_hour_without_the_api_server() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let make = |kind: &str, object: Value| {
            world.api().admin("POST", &format!("/api/v1/namespaces/default/{kind}"), object).expect("made")
        };
        make("configmaps", json!({ "metadata": { "name": "words" }, "data": { "word": "hello" } }));
        let login = "eyJhdXRocyI6e319";
        let kind = "kubernetes.io/dockerconfigjson";
        make(
            "secrets",
            json!({ "metadata": { "name": "login" }, "type": kind, "data": { ".dockerconfigjson": login } }),
        );
        let env = json!([{ "configMapRef": { "name": "words" } }]);
        let web = SimPod::of("web", "exit 1 after 900s").field("envFrom", env);
        world.create(&web.own_field("imagePullSecrets", json!([{ "name": "login" }]))).expect("made");
        world.start_agent();
        world.sleep(seconds(800)).await;
        assert_eq!(running(&world), ["web/main#0"]);
        let before = world.node().time.elapsed();
        world.link().go_away(world.node(), seconds(3600));
        for (after, count) in [(180, 1), (1200, 2), (2300, 3)] {
            world.sleep(seconds(after).saturating_sub(world.node().time.elapsed() - before)).await;
            assert_eq!(running(&world), [format!("web/main#{count}")], "{after} s without it");
        }
        world.sleep(seconds(1800)).await;
        world.settle().await;
        let reasons = world.event_reasons("web");
        assert!(!reasons.iter().any(|reason| reason.starts_with("Failed")), "{reasons:?}");
        world.finish_cluster().await;
    });
}

/// PAIN-18: what the runtime has not said yet, it may still say: the pod waits, with the reason where people look, and is
/// refused only once it is known that it can never run here.
#[test]
fn a_pod_that_cannot_be_judged_yet_waits_and_says_for_what() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.set_condition("RuntimeReady", Some("it starts"));
        world.start_agent();
        world.sleep(seconds(10)).await;
        let strict = json!({ "supplementalGroupsPolicy": "Strict" });
        world.create(&SimPod::of("strict", "run").own_field("securityContext", strict)).expect("made");
        world.sleep(seconds(60)).await;
        let waits = world.api_pod("strict").expect("it is there");
        assert!(waits["status"]["phase"] != "Failed" && running(&world).is_empty(), "{waits}");
        let message = condition(&waits, "PodReadyToStartContainers")["message"].clone();
        assert_eq!(message, "waits for the runtime to say what it can do");
        world.set_condition("RuntimeReady", None);
        world.sleep(seconds(20)).await;
        let refused = world.api_pod("strict").expect("it is there")["status"].clone();
        assert_eq!(
            (&refused["phase"], &refused["reason"]),
            (&json!("Failed"), &json!("SupplementalGroupsPolicyNotSupported"))
        );
        world.delete_pod("strict", None);
        world.finish_cluster().await;
    });
}

/// PAIN-32: news of many pods at once make none of them wait for the others.
#[test]
fn of_a_hundred_pods_each_is_told_as_ready_within_a_second() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.sleep(seconds(60)).await;
        for number in 0..100 {
            world.create(&SimPod::of(&format!("web-{number:02}"), "run")).expect("made");
        }
        world.settle().await;
        let story = world.story();
        let first = |words: &[String]| {
            let found = story.iter().find(|line| words.iter().all(|word| line.what.contains(word.as_str())));
            found.unwrap_or_else(|| panic!("nothing of {words:?}")).at
        };
        for number in 0..100 {
            let runs = first(&[format!("web-{number:02}/main#0 runs")]);
            let told = first(&[format!("pod web-{number:02} is told"), "Ready True".to_owned()]);
            assert!(told - runs < Duration::from_secs(1), "web-{number:02} is told {:?} after it ran", told - runs);
        }
        world.finish_cluster().await;
    });
}
