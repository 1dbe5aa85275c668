//! Tests of the first statuses of a pod (POD-34): most containers start a moment after their sandbox.

use super::*;

/// A pod on its start: whether its sandbox is there, with its address, and the state of its container.
fn starting(sandbox: &str, state: &str) -> Value {
    let phase = if state == "running" { "Running" } else { "Pending" };
    let state = if state == "running" { json!({"running": {}}) } else { json!({"waiting": {"reason": state}}) };
    let container =
        json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let ip = if sandbox == "True" { json!("10.0.0.1") } else { Value::Null };
    let conditions = [condition("PodReadyToStartContainers", sandbox)];
    json!({"phase": phase, "conditions": conditions, "containerStatuses": [container], "podIP": ip})
}

/// The API server knows that the pod waits for its sandbox.
fn known_to_wait() -> StatusSync {
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, false, &json!({"phase": "Pending", "conditions": [condition("PodScheduled", "True")]})));
    sync.own(&uid(), own(starting("False", "ContainerCreating"), true));
    assert_eq!(calls(&mut sync, at(0)).len(), 1, "the first status is sent at once");
    let answer = api_pod(2, false, &starting("False", "ContainerCreating"));
    sync.answered(&uid(), Answer::Done(Some(answer)), at(0), 0.0);
    assert_eq!(calls(&mut sync, at(0)), []);
    sync
}

/// POD-34.
#[test]
fn that_the_sandbox_is_there_is_sent_with_the_containers_that_run() {
    let mut sync = known_to_wait();
    sync.own(&uid(), own(starting("True", "ContainerCreating"), true));
    let (orders, wake) = sync.orders(at(10));
    assert_eq!((orders, wake), (vec![], Some(at(11))));
    sync.own(&uid(), own(starting("True", "running"), true));
    let [Call::Patch { body }] = &calls(&mut sync, at(10))[..] else { panic!("one patch") };
    assert_eq!((&body["status"]["phase"], &body["status"]["podIP"]), (&json!("Running"), &json!("10.0.0.1")));
    assert_eq!(body["status"]["conditions"][0]["status"], "True");
}

#[test]
fn that_the_sandbox_is_there_is_sent_after_a_second_where_containers_take_longer() {
    let mut sync = known_to_wait();
    sync.own(&uid(), own(starting("True", "ContainerCreating"), true));
    assert_eq!(calls(&mut sync, at(10)), []);
    let [Call::Patch { body }] = &calls(&mut sync, at(11))[..] else { panic!("one patch") };
    assert_eq!(body["status"]["podIP"], "10.0.0.1");
}

#[test]
fn what_a_container_waits_for_is_sent_at_once() {
    let mut sync = known_to_wait();
    sync.own(&uid(), own(starting("True", "ErrImagePull"), true));
    assert_eq!(calls(&mut sync, at(10)).len(), 1);
}
