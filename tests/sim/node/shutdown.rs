//! Graceful shutdown of the node (NODE-42 to NODE-48).

use std::time::Duration;

use podwright::actors::kit::trace::Cause;
use podwright::actors::settings::Settings;
use podwright::logic::node::shutdown::ShutdownPeriod;
use podwright::messages::pods::pod_manager::PodManagerMsg;
use podwright::sim::node::NODE_NAME;
use podwright::sim::{Options, SimPod, World, simulate_with};
use serde_json::{Value, json};

use super::short::{condition, in_a_cluster, seconds, status};
use crate::common::started;

/// Pods of ordinary priority have 20 s, those from 1,000 on 10 s more.
fn graceful(settings: &mut Settings) {
    let shutdown = &mut settings.node.shutdown;
    shutdown.node_name = NODE_NAME.to_owned();
    shutdown.keeps_times = true;
    shutdown.periods =
        [(0, 20), (1000, 10)].map(|(priority, secs)| ShutdownPeriod { priority, period: seconds(secs) }).into();
}

fn running(world: &World, name: &str) -> bool {
    world.running().iter().any(|running| running.contains(name))
}

/// Waits until something holds; gives how long that took.
async fn until(world: &World, limit: u64, what: &str, holds: impl Fn(&World) -> bool) -> Duration {
    for tenths in 0..limit * 10 {
        if holds(world) {
            return Duration::from_millis(tenths * 100);
        }
        world.sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}: never; running: {:?}", world.running());
}

/// Why a pod ended, as its status has it.
fn end_of(world: &World, pod: &str) -> (Value, Value, Value, Value) {
    let status = status(world, pod);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let disruption = conditions.into_iter().find(|one| one["type"] == "DisruptionTarget").unwrap_or_default();
    (status["phase"].clone(), status["reason"].clone(), status["message"].clone(), disruption["reason"].clone())
}

fn terminated(phase: &str) -> (Value, Value, Value, Value) {
    let message = "Pod was terminated in response to imminent node shutdown.";
    (json!(phase), json!("Terminated"), json!(message), json!("TerminationByKubelet"))
}

/// A node of two ordinary pods, a vital one and a static one.
async fn a_node(world: &World) {
    world.put(&SimPod::of("static", "run stops in 1s"));
    let vital = SimPod::of("vital", "run stops in 2s").own_field("priority", json!(2000)).grace(30);
    started(world, &[SimPod::of("slow", "run stops in 8s").grace(30), SimPod::of("good", "run with 0"), vital]).await;
    assert_eq!(condition(world, "Ready"), "True");
    let logind = &world.node().logind;
    assert_eq!((logind.delay_max(), logind.is_delayed()), (seconds(30), true), "as long as all pods may take");
}

/// NODE-42, NODE-44, NODE-45, NODE-46, NODE-47, PAIN-30.
#[test]
fn node_44_pods_end_in_the_order_of_their_priority_and_the_machine_waits_for_them() {
    simulate_with(1, in_a_cluster(graceful), |world| async move {
        a_node(&world).await;
        world.shut_down(true);
        until(&world, 3, "the short ones end", |world| !running(world, "good") && !running(world, "static")).await;
        assert!(running(&world, "vital") && world.node().logind.is_delayed(), "its turn comes later");
        until(&world, 2, "the node is not ready", |world| condition(world, "Ready") == "False").await;
        world.create(&SimPod::of("late", "run")).expect("made");
        until(&world, 3, "no pod comes in", |world| status(world, "late")["reason"] == "NodeShutdown").await;
        let message = "Pod was rejected: Pod was rejected as the node is shutting down.";
        assert_eq!(status(&world, "late")["message"], message);
        until(&world, 10, "the slow one ends", |world| !running(world, "slow")).await;
        let took = until(&world, 10, "the vital one ends", |world| !running(world, "vital")).await;
        assert!(took >= seconds(2), "it had its own time: {took:?}");
        until(&world, 3, "the machine may go down", |world| !world.node().logind.is_delayed()).await;
        until(&world, 3, "the API knows", |world| end_of(world, "vital") == terminated("Failed")).await;
        assert_eq!(end_of(&world, "slow"), terminated("Failed"));
        assert_eq!(end_of(&world, "good"), terminated("Succeeded"), "it ended well");
        let reasons = world.event_reasons(NODE_NAME);
        assert!(reasons.iter().any(|reason| reason == "Shutdown"), "{reasons:?}");

        world.shut_down(false);
        until(&world, 20, "the static pod is back", |world| running(world, "static")).await;
        until(&world, 20, "the node is ready", |world| condition(world, "Ready") == "True").await;
        until(&world, 3, "the next one is delayed", |world| world.node().logind.is_delayed()).await;
        world.create(&SimPod::of("later", "run")).expect("made");
        until(&world, 20, "a pod comes in", |world| running(world, "later")).await;
        assert!(!running(&world, "slow") && !running(&world, "vital"), "a pod of the API ends once");
    });
}

/// NODE-44: a pod that does not end holds up nobody for longer than its group's time.
#[test]
fn node_44_a_group_has_its_time_and_no_more() {
    simulate_with(2, in_a_cluster(graceful), |world| async move {
        let stuck = SimPod::of("stuck", "run ignores stop").grace(600);
        let vital = SimPod::of("vital", "run ignores stop").own_field("priority", json!(5000)).grace(4);
        started(&world, &[stuck, vital]).await;
        world.shut_down(true);
        let first = until(&world, 22, "the first is killed", |world| !running(world, "stuck")).await;
        assert!(first >= seconds(19), "the group's 20 s, not the pod's 600: {first:?}");
        let second = until(&world, 12, "the second too", |world| !running(world, "vital")).await;
        assert!(second >= seconds(3) && second < seconds(8), "its own 4 s, not the group's 10: {second:?}");
        until(&world, 5, "the machine may go down", |world| !world.node().logind.is_delayed()).await;
    });
}

/// NODE-44: a worker that has no room for the shorter time gets it a moment later.
#[test]
fn node_44_the_groups_time_reaches_a_worker_whose_mailbox_was_full() {
    let narrow = Options { mailbox: Some(("PodWorker".to_owned(), 1)), ..in_a_cluster(graceful) };
    simulate_with(5, narrow, |world| async move {
        started(&world, &[SimPod::of("stuck", "run ignores stop").grace(600)]).await;
        world.shut_down(true);
        let took = until(&world, 25, "it is killed", |world| !running(world, "stuck")).await;
        assert!(took >= seconds(19), "the group's 20 s, not the pod's 600: {took:?}");
    });
}

/// NODE-44: so does a worker that begins anew.
#[test]
fn node_44_the_groups_time_reaches_a_worker_that_begins_anew() {
    simulate_with(6, in_a_cluster(graceful), |world| async move {
        started(&world, &[SimPod::of("stuck", "run ignores stop").grace(600)]).await;
        world.shut_down(true);
        world.sleep(seconds(2)).await;
        world.crash_next("PodWorker");
        let manager = world.agent().expect("an agent").agent.directory.pod_manager.clone();
        manager.tell(Cause::outside("test"), PodManagerMsg::Repeat).expect("has room");
        world.sleep(seconds(1)).await;
        assert!(world.story().iter().any(|line| line.what.contains("PodWorker panics")), "it went on");
        until(&world, 25, "it is killed", |world| !running(world, "stuck")).await;
    });
}

/// PAIN-31: an agent that is killed in the middle has no lock any more, since logind gives none then. The next one goes on.
#[test]
fn an_agent_that_starts_during_a_shutdown_ends_the_pods_that_are_left() {
    simulate_with(3, in_a_cluster(graceful), |world| async move {
        a_node(&world).await;
        world.shut_down(true);
        until(&world, 3, "it has begun", |world| !running(world, "good")).await;
        world.kill_agent();
        assert!(!world.node().logind.is_delayed(), "the lock ended with the process");
        world.sleep(seconds(1)).await;
        world.start_agent();
        until(&world, 60, "all pods end", |world| world.running().is_empty()).await;
        until(&world, 5, "the API knows", |world| end_of(world, "vital") == terminated("Failed")).await;
        assert_eq!(end_of(&world, "slow"), terminated("Failed"));
    });
}

/// Any part may fail at any message of a shutdown: all pods end in their turn, and the lock goes last.
#[test]
fn a_shutdown_survives_the_failure_of_each_actor() {
    for (seed, kind) in (10..).zip(["ShutdownManager", "PodManager", "PodWorker", "NodeStatus", "StatusManager"]) {
        simulate_with(seed, in_a_cluster(graceful), move |world| async move {
            a_node(&world).await;
            world.shut_down(true);
            for _ in 0..4 {
                world.crash_next(kind);
                world.sleep(Duration::from_millis(700)).await;
                assert!(world.node().logind.is_delayed() || world.running().is_empty(), "{kind}: let go too early");
            }
            assert!(!running(&world, "good"), "{kind}");
            until(&world, 40, "all pods end", |world| world.running().is_empty()).await;
            until(&world, 40, "the machine may go down", |world| !world.node().logind.is_delayed()).await;
            until(&world, 10, "the API knows", |world| end_of(world, "vital") == terminated("Failed")).await;
        });
    }
}

/// Without periods the agent delays nothing.
#[test]
fn a_node_without_periods_lets_the_machine_go_down() {
    simulate_with(4, Options { cluster: true, ..Options::default() }, |world| async move {
        started(&world, &[SimPod::of("web", "run")]).await;
        assert!(!world.node().logind.is_delayed());
        world.shut_down(true);
        world.sleep(seconds(5)).await;
        assert!(running(&world, "web") && condition(&world, "Ready") == "True");
    });
}
