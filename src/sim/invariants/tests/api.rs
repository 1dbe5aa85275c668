//! Negative tests of the invariants that have to do with the API server; see [`super`].

use std::time::Duration;

use serde_json::{Value, json};

use super::super::*;
use super::{Rogue, alone, in_cluster, shows, shows_after, spoil_container, trips};
use crate::actors::kit::trace::lock;
use crate::cri::RuntimeService;
use crate::logic::resources::QosClass;
use crate::logic::resources::allocations::StateFiles;
use crate::logic::status::status_sync::MIRROR_ANNOTATION;
use crate::sim::api_server::{Request, Who};
use crate::sim::node::NODE_NAME;
use crate::sim::node::cgroups::cgroup_tree;
use crate::sim::node::machines::LAPTOP;
use crate::sim::node::spawn;
use crate::sim::world::cluster::NAMESPACE;
use crate::sim::{Options, SimPod, World, run};

/// The path of a pod of the API.
fn place(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}")
}

/// The node asks the API server for this.
fn ask(world: &World, method: &str, path: &str, body: Value) {
    let request = Request::new(method, path, "application/merge-patch+json", body);
    drop(world.api().handle(&Who::Node(NODE_NAME.to_owned()), &request));
}

#[test]
fn a_status_that_goes_back_in_the_api_is_seen() {
    let counted =
        |count: i32| json!({ "status": { "containerStatuses": [{ "name": "main", "restartCount": count }] } });
    let phase = |phase: &str| json!({ "status": { "phase": phase } });
    for patches in [[phase("Failed"), phase("Running")], [counted(2), counted(1)]] {
        trips(STATUS_FORWARD, in_cluster(), |world| async move {
            world.create(&SimPod::of("web", "run")).expect("made");
            for patch in patches {
                ask(&world, "PATCH", &format!("{}/status", place("web")), patch);
            }
        });
    }
}

#[test]
fn a_delete_that_nobody_asked_for_is_seen() {
    trips(OWN_DELETES, in_cluster(), |world| async move {
        let uid = world.create(&SimPod::of("web", "run")).expect("made");
        let options = json!({ "preconditions": { "uid": uid.as_str() }, "gracePeriodSeconds": 0 });
        ask(&world, "DELETE", &place("web"), options);
    });
}

#[test]
fn a_delete_that_may_meet_another_pod_is_seen() {
    trips(OWN_DELETES, in_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run")).expect("made");
        world.delete_pod("web", Some(30));
        ask(&world, "DELETE", &place("web"), json!({ "gracePeriodSeconds": 0 }));
    });
}

#[test]
fn a_delete_before_the_end_of_containers_volumes_and_cgroup_is_seen() {
    for left in ["container", "volume", "cgroup"] {
        trips(GONE_FIRST, in_cluster(), move |world| async move {
            let pod = SimPod::of("web", "run");
            let uid = world.create(&pod).expect("made");
            let rogue = Rogue::with(&world, uid.clone(), &pod).await;
            match left {
                "container" => {
                    let sandbox = rogue.sandbox().await;
                    rogue.started(&sandbox, 0).await;
                }
                "volume" => drop(lock(&world.node().disk).volumes.insert(rogue.volume())),
                _ => lock(&world.node().cgroups).ensure(&format!("/kubepods/besteffort/pod{uid}")),
            }
            world.delete_pod("web", Some(30));
            let options = json!({ "preconditions": { "uid": uid.as_str() }, "gracePeriodSeconds": 0 });
            ask(&world, "DELETE", &place("web"), options);
        });
    }
}

/// Pods of the API and static ones.
#[test]
fn a_stop_of_a_container_that_is_wanted_is_seen() {
    for is_static in [false, true] {
        trips(WANTED_LIVES, in_cluster(), move |world| async move {
            let pod = SimPod::of("web", "run");
            let uid = if is_static { world.put(&pod) } else { world.create(&pod).expect("made") };
            let rogue = Rogue::with(&world, uid, &pod).await;
            let sandbox = rogue.sandbox().await;
            let id = rogue.started(&sandbox, 0).await;
            rogue.outlet.stop_container(&id, Duration::from_secs(2)).await.expect("stopped");
        });
    }
}

/// Has a pod take the node's memory. The agent looks at that and has no threshold for it, so it lets the node run short.
async fn taken_by_greed(world: &World) {
    world.create(&SimPod::of("greedy", "run")).expect("made");
    world.start_agent();
    world.settle().await;
    world.use_memory("greedy", 15 << 29);
}

fn blind() -> Options {
    Options { settings: |settings| settings.resources.eviction.local_storage = true, ..in_cluster() }
}

#[test]
fn a_pod_that_is_spared_when_all_is_quiet_is_seen() {
    shows_after(PRESSURE_ENDS, blind(), |world| async move {
        taken_by_greed(&world).await;
        world.sleep(Duration::from_secs(40)).await;
    });
}

#[test]
fn a_pod_that_is_spared_while_the_node_runs_short_is_seen() {
    trips(PRESSURE_RELIEVED, blind(), |world| async move {
        taken_by_greed(&world).await;
        world.sleep(Duration::from_secs(100)).await;
    });
}

#[test]
fn an_eviction_of_a_critical_pod_is_seen() {
    trips(CRITICAL_STAYS, in_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run").own_field("priority", json!(2_000_000_000))).expect("made");
        world.node().invariants.seen_short();
        let evicted = json!({ "status": { "phase": "Failed", "reason": "Evicted" } });
        ask(&world, "PATCH", &format!("{}/status", place("web")), evicted);
    });
}

#[test]
fn an_eviction_without_a_cause_is_seen() {
    trips(EVICTED_FOR_CAUSE, in_cluster(), |world| async move {
        let limits = json!({ "limits": { "ephemeral-storage": "1Mi" } });
        world.create(&SimPod::of("limited", "run").field("resources", limits)).expect("made");
        world.create(&SimPod::of("web", "run")).expect("made");
        let evicted = json!({ "status": { "phase": "Failed", "reason": "Evicted" } });
        ask(&world, "PATCH", &format!("{}/status", place("limited")), evicted.clone());
        assert_eq!(world.violations(), [], "it has a limit of its own");
        ask(&world, "PATCH", &format!("{}/status", place("web")), evicted);
    });
}

/// A node that ran short once is no cause for ever.
#[test]
fn an_eviction_long_after_its_cause_is_seen() {
    trips(EVICTED_FOR_CAUSE, in_cluster(), |world| async move {
        let evicted = json!({ "status": { "phase": "Failed", "reason": "Evicted" } });
        for (name, later) in [("soon", 30), ("late", 90)] {
            world.create(&SimPod::of(name, "run")).expect("made");
            world.node().invariants.seen_short();
            world.sleep(Duration::from_secs(later)).await;
            assert_eq!(world.violations(), [], "what is told soon has its cause");
            ask(&world, "PATCH", &format!("{}/status", place(name)), evicted.clone());
        }
    });
}

/// A sidecar may be stopped when all that it runs beside has ended, and not before.
#[test]
fn a_sidecar_may_be_stopped_once_the_others_have_ended() {
    let spoiled = run(1, alone(), |world| async move {
        let pod = SimPod::new("web").container("proxy", "run").container("main", "run").restarts("Never");
        let rogue = Rogue::of(&world, &pod).await;
        let sandbox = rogue.sandbox().await;
        let id = rogue.started(&sandbox, 0).await;
        rogue.outlet.stop_container(&id, Duration::from_secs(2)).await.expect("stopped");
    });
    assert_eq!(spoiled.violations.iter().map(|one| one.name).collect::<Vec<_>>(), [WANTED_LIVES]);
    crate::sim::simulate(1, |world| async move {
        world.put(&SimPod::new("web").sidecar("proxy", "run").container("main", "exit 0 after 1s").restarts("Never"));
        world.start_agent();
        world.settle().await;
    });
}

#[test]
fn an_api_server_that_is_told_an_untruth_is_seen() {
    type Spoil = fn(&World);
    let cases: [Spoil; 4] = [
        |world| {
            let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
            world.api().admin("PATCH", &format!("{}/status", place("web")), unready).expect("patched");
        },
        |world| spoil_container(world, |one| one.metadata.attempt += 1),
        |world| drop(world.api().admin("DELETE", &place("web"), json!({ "gracePeriodSeconds": 0 })).expect("deleted")),
        |world| {
            let mut object: Value = serde_json::from_slice(&SimPod::of("stranger", "run").manifest()).expect("JSON");
            object["spec"]["nodeName"] = NODE_NAME.into();
            let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
            world.api().admin("POST", &pods, object).expect("made");
        },
    ];
    for spoil in cases {
        shows(API_TRUTH, in_cluster(), &[SimPod::of("web", "run")], spoil);
    }
}

#[test]
fn resources_other_than_those_asked_for_are_seen() {
    let limits = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "200m", "memory": "64Mi" } });
    let pod = SimPod::of("web", "run").field("resources", limits);
    shows(RESIZED, in_cluster(), std::slice::from_ref(&pod), |world| {
        spoil_container(world, |one| one.resources.cpu_quota += 1000);
    });
    shows(RESIZED, in_cluster(), &[pod], |world| {
        for settings in lock(&world.node().cgroups).all.values_mut() {
            settings.memory_limit = Some(1 << 20);
        }
    });
}

#[test]
fn a_tier_without_its_share_is_seen() {
    let pod = SimPod::of("web", "run").field("resources", json!({ "requests": { "cpu": "100m" } }));
    shows(TIER_SHARES, in_cluster(), &[pod], |world| {
        let tier = cgroup_tree().tier(QosClass::Burstable);
        lock(&world.node().cgroups).all.get_mut(&tier).expect("it is there").cpu_shares = Some(512);
    });
}

#[test]
fn a_static_pod_without_its_mirror_is_seen() {
    type Spoil = fn(&World, &str);
    let cases: [Spoil; 2] = [
        |world, mirror| {
            drop(world.api().admin("DELETE", mirror, json!({ "gracePeriodSeconds": 0 })).expect("deleted"));
        },
        |world, mirror| {
            let other = json!({ "metadata": { "annotations": { MIRROR_ANNOTATION: "another" } } });
            // Nobody can change this annotation of a mirror: another one takes its place.
            let mut object = (*world.api_pod(&format!("fixed-{NODE_NAME}")).expect("there")).clone();
            world.api().admin("DELETE", mirror, json!({ "gracePeriodSeconds": 0 })).expect("deleted");
            object["metadata"]["annotations"] = other["metadata"]["annotations"].clone();
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                object["metadata"].as_object_mut().expect("an object").remove(field);
            }
            let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
            world.api().admin("POST", &pods, object).expect("made");
        },
    ];
    for spoil in cases {
        shows(MIRRORS, in_cluster(), &[SimPod::of("fixed", "run")], move |world| {
            spoil(world, &place(&format!("fixed-{NODE_NAME}")));
        });
    }
}

#[test]
fn a_node_that_is_away_or_not_ready_is_seen() {
    type Spoil = fn(&World);
    let cases: [Spoil; 4] = [
        |world| drop(world.api().admin("DELETE", "/api/v1/nodes/node-1", Value::Null).expect("deleted")),
        |world| {
            let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
            world.api().admin("PATCH", "/api/v1/nodes/node-1/status", unready).expect("patched");
        },
        |world| {
            let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1";
            world.api().admin("DELETE", lease, Value::Null).expect("deleted");
        },
        |world| {
            let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1";
            let old = json!({ "spec": { "renewTime": "2001-01-01T00:00:00.000000Z" } });
            world.api().admin("PATCH", lease, old).expect("patched");
        },
    ];
    for spoil in cases {
        shows(NODE_READY, in_cluster(), &[], spoil);
    }
}

#[test]
fn cpus_that_are_not_what_the_file_says_are_seen() {
    type Spoil = fn(&World);
    let cases: [Spoil; 2] = [
        |world| spoil_container(world, |one| one.resources.cpuset_cpus = "0".to_owned()),
        |world| {
            let twice = r#"{"policyName":"static","defaultCpuSet":"0-7","entries":{"uid":{"main":"7"}}}"#;
            let mut disk = lock(&world.node().disk);
            disk.checkpoints.insert(StateFiles::CPUS.to_owned(), twice.as_bytes().to_vec());
        },
    ];
    for spoil in cases {
        let options = Options { machine: Some(LAPTOP), ..in_cluster() };
        shows(OWN_CPUS, options, &[SimPod::of("web", "run")], spoil);
    }
}

#[test]
fn an_agent_that_asks_without_end_is_seen() {
    trips(API_BOUNDED, in_cluster(), |world| async move {
        let chatty = world.clone();
        spawn(async move {
            loop {
                ask(&chatty, "GET", "/api/v1/nodes/node-1", Value::Null);
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        world.check_calm().await;
    });
}
