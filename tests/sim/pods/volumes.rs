//! Pods with volumes: there before the containers, gone after them, whatever fails in between.

use std::time::Duration;

use podwright::logic::model::ids::PodUid;
use podwright::logic::volumes::order::{VolumePlace, plugin};
use podwright::sim::faults::parse_list;
use podwright::sim::{Options, SimPod, World, describe, run, simulate, simulate_with};
use serde_json::{Value, json};

use super::resize::{in_a_cluster, seconds};
use crate::common::{seeds, side_by_side};

fn pod(name: &str) -> SimPod {
    let about = json!({ "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "metadata.name" } }] } });
    SimPod::of(name, "run").volume("cache", json!({ "emptyDir": {} })).volume("about", about)
}

/// POD-13, VOL-04, VOL-06: what is mounted for a pod goes with it, also when the agent was killed meanwhile.
#[test]
fn volumes_come_before_containers_and_go_after_them() {
    simulate(1, |world| async move {
        world.put(&pod("web"));
        world.start_agent();
        world.settle().await;
        assert_eq!(world.running().len(), 1);
        world.kill_agent();
        world.delete("web");
        world.start_agent();
        world.finish().await;
        assert!(world.running().is_empty());
    });
}

/// The leftovers of a pod after a crash: a directory with one volume in it.
fn leave(world: &World, uid: &PodUid, volume: &str) {
    let mut disk = world.node().disk.lock().expect("no panic before");
    disk.pods.entry(uid.clone()).or_default().insert("etc-hosts".to_owned());
    let (plugin, name) = (plugin::EMPTY_DIR.to_owned(), volume.to_owned());
    disk.volumes.insert(VolumePlace { uid: uid.clone(), plugin, name, is_device: false });
}

/// POD-33, VOL-04: a static pod comes back, with the UID that it had. Meanwhile the pass over what is left of pods is held
/// up by another one's volume.
#[test]
fn what_a_pod_that_came_back_has_is_not_swept_away() {
    simulate(1, |world| async move {
        let web = world.put(&pod("web"));
        world.delete("web");
        leave(&world, &PodUid::from("0"), "stuck");
        leave(&world, &web, "cache");
        world.hang_volume(Some("tear down stuck"));
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.put(&pod("web"));
        world.sleep(seconds(10)).await;
        assert_eq!(world.running().len(), 1);
        world.hang_volume(None);
        world.settle().await;
        let kept = world.node().disk.lock().expect("no panic before").volumes.iter().filter(|it| it.uid == web).count();
        assert_eq!(kept, 2);
        world.finish().await;
    });
}

/// POD-33: it comes back while what is left of it is being removed, and begins when that has ended.
#[test]
fn a_pod_that_comes_back_waits_for_its_leftovers_to_be_gone() {
    simulate(1, |world| async move {
        let web = world.put(&pod("web"));
        world.delete("web");
        leave(&world, &web, "old");
        world.hang_volume(Some("tear down old"));
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.put(&pod("web"));
        world.sleep(seconds(10)).await;
        assert!(world.running().is_empty(), "its directory is about to go");
        world.hang_volume(None);
        world.settle().await;
        assert_eq!(world.running().len(), 1);
        let files = world.node().disk.lock().expect("no panic before").pods.get(&web).cloned().unwrap_or_default();
        assert!(files.contains("etc-hosts"), "{files:?}");
        world.finish().await;
    });
}

/// A full disk, lost answers, a dying runtime, and every actor crashed now and then.
#[test]
fn nothing_of_a_pods_volumes_is_left_whatever_goes_wrong() {
    side_by_side(&seeds(24, 8), |seed| {
        for faults in ["disk", "disk,crashes,kills", "lost-answers,runtime-restarts,disk"] {
            let faults = parse_list(faults).expect("a list of faults");
            let options = Options { faults, ..Options::default() };
            let run = run(*seed, options, |world| async move {
                world.start_agent();
                for name in ["a", "b", "c"] {
                    world.put(&pod(name));
                    world.sleep(Duration::from_secs(7)).await;
                }
                world.delete("b");
                world.sleep(Duration::from_secs(20)).await;
                world.finish().await;
            });
            assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
        }
    });
}

fn asked(world: &World, what: &str) -> u64 {
    world.api().asked().get(what).copied().unwrap_or_default()
}

/// VOL-25, VOL-27: a pod whose readiness changes all the time is synced as often as any other.
#[test]
fn a_pod_that_never_rests_has_its_token_exchanged() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let token = json!({ "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } });
        let identity = json!({ "projected": { "sources": [token] } });
        let web = SimPod::of("web", "run").probe("readinessProbe", "/flips/30").volume("identity", identity);
        world.create(&web).expect("made");
        world.start_agent();
        world.sleep(seconds(60)).await;
        assert_eq!(asked(&world, "create serviceaccounts"), 1);
        world.sleep(seconds(3540)).await;
        assert_eq!(asked(&world, "create serviceaccounts"), 2, "after 80 % of the token's life");
        world.finish_cluster().await;
    });
}

/// POD-16: the sandbox is there, the volumes are not: no container can be started.
#[test]
fn a_pod_without_its_volumes_is_not_ready_to_start_containers() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let web = SimPod::of("web", "run").volume("settings", json!({ "configMap": { "name": "settings" } }));
        world.create(&web).expect("made");
        world.start_agent();
        let told = |world: &World| world.condition("web", "PodReadyToStartContainers").map(|one| one["status"].clone());
        for _ in 0..30 {
            world.sleep(seconds(1)).await;
            assert!(told(&world).is_none_or(|told| told == "False"), "{:?}", told(&world));
        }
        assert!(told(&world).is_some());
        world.write_data("configmaps", "settings", "a", "b");
        world.settle().await;
        assert_eq!(told(&world), Some(json!("True")));
        world.finish_cluster().await;
    });
}

/// VOL-50, PAIN-21: the back-off of a mount does not keep back a pod whose Secret is there at last.
#[test]
fn an_object_that_comes_late_is_used_within_seconds() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world
            .create(&SimPod::of("web", "run").volume("late", json!({ "secret": { "secretName": "late" } })))
            .expect("made");
        world.start_agent();
        world.sleep(seconds(400)).await;
        assert!(world.running().is_empty());
        world.write_data("secrets", "late", "key", "dmFsdWU=");
        world.sleep(seconds(5)).await;
        assert!(world.running().contains("web/main#0"), "{:?}", world.running());
        world.finish_cluster().await;
    });
}

/// VOL-50: a pod and its ConfigMap are deleted together: while the pod takes its time, no Event is about a volume that it
/// has and that could not be set up anew.
#[test]
fn a_pod_that_ends_is_not_told_what_became_of_its_objects() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let place = "/api/v1/namespaces/default/configmaps";
        let settings = json!({ "metadata": { "name": "settings" }, "data": { "a": "1" } });
        world.api().admin("POST", place, settings).expect("made");
        let web = SimPod::of("web", "run stops in 20s").grace(30);
        world.create(&web.volume("settings", json!({ "configMap": { "name": "settings" } }))).expect("made");
        world.start_agent();
        world.settle().await;
        world.delete_pod("web", None);
        world.sleep(seconds(1)).await;
        world.api().admin("DELETE", &format!("{place}/settings"), json!({})).expect("it is there");
        world.sleep(seconds(15)).await;
        assert!(world.running().contains("web/main#0"), "{:?}", world.running());
        world.finish_cluster().await;
        let told: Vec<Value> = world.api().all("events").into_iter().map(|event| event["reason"].clone()).collect();
        assert!(told.contains(&json!("Killing")) && !told.contains(&json!("FailedMount")), "{told:?}");
    });
}

fn conditions(world: &World, pod: &str) -> Value {
    world.api_pod(pod).expect("it is there")["status"]["conditions"].clone()
}

/// PAIN-12, PAIN-20: a volume behind which nobody answers costs its own pod; why it waits is said once.
#[test]
fn a_dead_volume_is_told_of_once_and_costs_its_own_pod() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.hang_volume(Some("set up dead"));
        world.create(&SimPod::of("stuck", "run").volume("dead", json!({ "emptyDir": {} })).grace(3)).expect("made");
        world.create(&SimPod::of("web", "run").volume("cache", json!({ "emptyDir": {} }))).expect("made");
        world.start_agent();
        world.sleep(seconds(60)).await;
        assert_eq!(world.running().into_iter().collect::<Vec<_>>(), ["web/main#0"]);
        let told = conditions(&world, "stuck");
        assert!(told.to_string().contains("set up of volume \\\"dead\\\" has not ended since"), "{told}");
        let (patched, events) = (asked(&world, "patch pods"), world.api().all("events").len());
        world.sleep(seconds(900)).await;
        assert_eq!(conditions(&world, "stuck"), told);
        assert_eq!(asked(&world, "patch pods"), patched, "nothing new is to be told");
        assert_eq!(world.api().all("events").len(), events);
        world.delete_pod("stuck", None);
        world.sleep(seconds(60)).await;
        assert!(world.api_pod("stuck").is_none(), "its end does not wait for the mount");
        world.hang_volume(None);
        world.finish_cluster().await;
    });
}

/// PAIN-12: nor does a part of it hold its container up without a word.
#[test]
fn a_part_of_a_dead_volume_is_told_of() {
    let part = json!([{ "name": "share", "mountPath": "/share", "subPath": "part" }]);
    let expected = "failed to prepare subPath for volumeMount \"share\" of container \"main\": \
                    the volume does not answer";
    assert_container_waits_for("prepare share", "volumeMounts", part, expected);
}

/// PAIN-12, CRI-13: nor do variables in a file of it.
#[test]
fn a_file_of_variables_of_a_dead_volume_is_told_of() {
    let reference = json!({ "volumeName": "share", "path": "vars", "key": "KEY" });
    let variable = json!([{ "name": "KEY", "valueFrom": { "fileKeyRef": reference } }]);
    let expected = "couldn't read env file \"vars\": volume \"share\" does not answer";
    assert_container_waits_for("read share", "env", variable, expected);
}

/// A pod with the volume `share` whose container, with this field, is not made while this hangs, says so once, and runs after.
fn assert_container_waits_for(hangs: &'static str, field: &'static str, value: Value, expected: &'static str) {
    simulate_with(1, in_a_cluster(), move |world| async move {
        let pod = SimPod::of("stuck", "run").volume("share", json!({ "emptyDir": {} })).grace(3).field(field, value);
        let uid = world.create(&pod).expect("made");
        world.hang_volume(Some(hangs));
        world.start_agent();
        world.sleep(seconds(60)).await;
        let waiting = || {
            let pod = world.api_pod("stuck").expect("it is there");
            pod["status"]["containerStatuses"][0]["state"]["waiting"].clone()
        };
        let told = waiting();
        assert_eq!(told["reason"], "CreateContainerConfigError", "{uid}: {told}");
        assert_eq!(told["message"], expected);
        let patched = asked(&world, "patch pods");
        world.sleep(seconds(300)).await;
        assert_eq!((waiting(), asked(&world, "patch pods")), (told, patched));
        world.hang_volume(None);
        world.settle().await;
        assert!(world.running().contains("stuck/main#0"));
        world.finish_cluster().await;
    });
}

/// NODE-24: another agent mounted a volume that the cluster had attached. It stays in use over the start of this one, and
/// over the time until the disk was read: the cluster takes away what is not in use.
#[test]
fn an_attached_volume_is_in_use_until_nobody_has_it_mounted() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let volume = "kubernetes.io/csi/disks.example.com^h-1";
        let in_use = || {
            let node = world.api().get("nodes", "", "node-1").expect("there is a Node");
            node["status"]["volumesInUse"].clone()
        };
        world.attach(&[volume]);
        world.start_agent();
        world.sleep(seconds(60)).await;
        assert_eq!(in_use(), json!([volume]));
        world.kill_agent();
        world.hang_volume(Some("look for attached volumes"));
        world.start_agent();
        world.sleep(seconds(400)).await;
        assert_eq!(in_use(), json!([volume]), "nobody has read the disk");
        world.attach(&[]);
        world.hang_volume(None);
        world.sleep(seconds(400)).await;
        assert!(in_use().as_array().is_none_or(Vec::is_empty), "{}", in_use());
        world.finish_cluster().await;
    });
}
