//! Tests of what the API server hears of pods.

mod ends;
mod mirrors;
mod scale;
mod starts;
mod untaken;

use serde_json::{Value, json};

use super::merge::{finished, merged};
use super::patch::patch;
use super::*;

fn pod(value: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(value).expect("a pod"))
}

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).expect("a status")
}

fn api_pod(version: u64, deleting: bool, status: &Value) -> Arc<Pod> {
    let mut metadata = json!({"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": version.to_string()});
    if deleting {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    pod(json!({"metadata": metadata, "status": status}))
}

fn own(value: Value, may_run: bool) -> Own {
    let full_name = FullName::new("web", "shop");
    Own { full_name, is_static: false, config_hash: None, status: Arc::new(status(value)), may_run }
}

/// The status of a static pod.
fn fixed(hash: &str, value: Value, may_run: bool) -> Own {
    Own { is_static: true, config_hash: Some(hash.to_owned()), ..own(value, may_run) }
}

fn uid() -> PodUid {
    PodUid::from("u1")
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn calls(sync: &mut StatusSync, now: Duration) -> Vec<Call> {
    sync.orders(now).0.into_iter().map(|order| order.call).collect()
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// The API server's result of such a patch.
fn apply(before: &PodStatus, body: &Value) -> PodStatus {
    let mut tree = serde_json::to_value(before).expect("a status");
    merge_into(&mut tree, &body["status"]);
    serde_json::from_value(tree).expect("a status")
}

/// As the API server merges: a field that the patch does not name stays, at every depth.
fn merge_into(into: &mut Value, changes: &Value) {
    let Some(changes) = changes.as_object() else {
        *into = changes.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (field, change) in changes.iter().filter(|(field, _)| !field.starts_with("$setElementOrder/")) {
        match (super::patch::merge_key(field), change) {
            (_, Value::Null) => drop(into.as_object_mut().expect("fields").remove(field)),
            (Some(key), Value::Array(items)) => {
                let mut list = into[field].as_array().cloned().unwrap_or_default();
                for item in items {
                    list.retain(|known| item["$patch"] != "delete" || known[key] != item[key]);
                    let is_new = list.iter().all(|known| known[key] != item[key]);
                    if is_new && item["$patch"] != "delete" {
                        list.push(json!({}));
                    }
                    if let Some(known) = list.iter_mut().find(|known| known[key] == item[key] || **known == json!({})) {
                        merge_into(known, item);
                    }
                }
                let order = changes[&format!("$setElementOrder/{field}")].as_array().expect("an order");
                list.sort_by_key(|item| order.iter().position(|place| place[key] == item[key]));
                into[field] = list.into();
            }
            (None, Value::Array(_)) => into[field] = change.clone(),
            _ => merge_into(&mut into[field], change),
        }
    }
}

/// POD-34: an init container that runs again in another sandbox stays shown as it ended; the rest of the status goes.
#[test]
fn what_the_api_server_would_refuse_is_not_sent() {
    let ended =
        json!({"name": "setup", "restartCount": 0, "state": {"terminated": {"exitCode": 0, "containerID": "c://1"}}});
    let runs = json!({"name": "setup", "restartCount": 1, "state": {"running": {}}});
    let again =
        json!({"name": "setup", "restartCount": 1, "state": {"terminated": {"exitCode": 0, "containerID": "c://2"}}});
    let of = |init: &Value, phase: &str| json!({"phase": phase, "initContainerStatuses": [init]});
    for (policy, own_policy, expected) in [
        ("OnFailure", None, &ended),
        ("Never", None, &ended),
        ("Always", None, &runs),
        ("OnFailure", Some("Always"), &runs),
    ] {
        let mut api = Pod::clone(&api_pod(1, false, &of(&ended, "Pending")));
        let container = json!({"name": "setup", "restartPolicy": own_policy});
        let spec = json!({"restartPolicy": policy, "initContainers": [container], "containers": []});
        api.spec = Some(serde_json::from_value(spec).expect("a spec"));
        let mut sync = StatusSync::default();
        sync.seen(Arc::new(api.clone()));
        sync.own(&uid(), own(of(&runs, "Running"), true));
        let [Call::Patch { body }] = &calls(&mut sync, at(0))[..] else { panic!("one patch") };
        let told = apply(&api.status.clone().expect("a status"), body);
        let expected = status(of(expected, "Running"));
        assert_eq!((told.phase, told.init_container_statuses), (expected.phase, expected.init_container_statuses));
        // Once it has ended again, the API server hears of it.
        sync.own(&uid(), own(of(&again, "Running"), true));
        sync.answered(&uid(), Answer::Failed(None), at(1), 0.0);
        let [Call::Patch { body }] = &calls(&mut sync, at(60))[..] else { panic!("one patch") };
        let told = apply(&api.status.expect("a status"), body);
        assert_eq!(told.init_container_statuses, status(of(&again, "Running")).init_container_statuses, "{policy}");
    }
}

/// The watch's pod is shared with whoever else knows it, an answer's would be kept beside it.
#[test]
fn an_answer_does_not_take_the_place_of_the_same_from_the_watch() {
    let mut sync = StatusSync::default();
    let running = json!({"phase": "Running"});
    sync.own(&uid(), own(running.clone(), true));
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    assert_eq!(calls(&mut sync, at(0)).len(), 1);
    let (watched, answer) = (api_pod(2, false, &running), api_pod(2, false, &running));
    sync.seen(Arc::clone(&watched));
    sync.answered(&uid(), Answer::Done(Some(Arc::clone(&answer))), at(1), 0.0);
    assert_eq!((Arc::strong_count(&watched), Arc::strong_count(&answer)), (2, 1));
}

#[test]
fn a_status_is_sent_once_and_one_that_is_there_already_never() {
    let mut sync = StatusSync::default();
    let running = json!({"phase": "Running", "conditions": [condition("Ready", "True")]});
    sync.own(&uid(), own(running.clone(), true));
    assert_eq!(calls(&mut sync, at(0)), [], "the API server has not shown the pod yet");
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    let [Call::Patch { body }] = &calls(&mut sync, at(0))[..] else { panic!("one patch") };
    assert_eq!((&body["metadata"]["uid"], &body["status"]["phase"]), (&"u1".into(), &"Running".into()));
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    assert_eq!(calls(&mut sync, at(0)), [], "one call at a time");
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, false, &running))), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), []);
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    assert_eq!(calls(&mut sync, at(60)), [], "what is older than the answer is no news");
    let mut again = StatusSync::default();
    again.seen(api_pod(2, false, &running));
    again.own(&uid(), own(running, true));
    assert_eq!(calls(&mut again, at(0)), [], "an agent that starts again sends nothing");
}

/// PAIN-32: of many changes the ones that lead traffic go first.
#[test]
fn what_becomes_ready_is_sent_before_what_merely_changed() {
    let mut sync = StatusSync::default();
    let uid = |number: usize| PodUid::from(format!("u{number:03}"));
    let ready = json!({"phase": "Running", "conditions": [condition("Ready", "True")]});
    for number in 0..2 * CALLS_MAX {
        let name = format!("pod{number}");
        let metadata = json!({"name": name, "namespace": "shop", "uid": uid(number).as_str(), "resourceVersion": "1"});
        let is_last = number + 1 == 2 * CALLS_MAX;
        let known = if is_last { json!({"phase": "Running"}) } else { ready.clone() };
        sync.seen(pod(json!({"metadata": metadata, "status": known})));
        let mut status = status(ready.clone());
        status.host_ip = Some("10.0.0.1".to_owned());
        let full_name = FullName::new(&name, "shop");
        let own = Own { full_name, is_static: false, config_hash: None, status: Arc::new(status), may_run: true };
        sync.own(&uid(number), own);
    }
    let (orders, _) = sync.orders(at(0));
    assert_eq!(orders.len(), CALLS_MAX);
    assert_eq!(orders[0].uid, uid(2 * CALLS_MAX - 1));
}

/// POD-34.
#[test]
fn what_others_write_is_kept_and_what_they_keep_changing_is_set_right_every_ten_seconds() {
    let mut sync = StatusSync::default();
    sync.own(&uid(), own(json!({"phase": "Running", "conditions": [condition("Ready", "True")]}), true));
    let gate = condition("example.com/gate", "True");
    sync.seen(api_pod(1, false, &json!({"phase": "Pending", "nominatedNodeName": "n", "conditions": [gate]})));
    let [Call::Patch { body }] = &calls(&mut sync, at(0))[..] else { panic!("one patch") };
    assert!(body["status"].get("nominatedNodeName").is_none());
    let kinds: Vec<&Value> =
        body["status"]["conditions"].as_array().expect("a list").iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["Ready"], "conditions of others are not sent");
    let done = json!({"phase": "Running", "conditions": [gate, condition("Ready", "True")]});
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, false, &done))), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), []);
    sync.seen(api_pod(3, false, &json!({"phase": "Running", "conditions": [gate, condition("Ready", "False")]})));
    let (orders, wake) = sync.orders(at(2));
    assert_eq!((orders.len(), wake), (0, Some(at(11))));
    assert_eq!(calls(&mut sync, at(11)).len(), 1);
}

/// A pod in its end: its phase, whether it is ready, whether its sandbox is there, and the state of its container.
fn ending(phase: &str, ready: &str, sandbox: &str, state: &str) -> Value {
    let conditions = [condition("PodReadyToStartContainers", sandbox), condition("Ready", ready)];
    let state = if state == "running" { json!({"running": {}}) } else { json!({"terminated": {"exitCode": 137}}) };
    let container =
        json!({"name": "c", "image": "i", "imageID": "", "ready": ready == "True", "restartCount": 0, "state": state});
    json!({"phase": phase, "conditions": conditions, "containerStatuses": [container]})
}

/// POD-34: the steps of an end follow each other within a second, and each would be a patch.
#[test]
fn details_of_an_end_are_sent_together() {
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, true, &ending("Running", "True", "True", "running")));
    sync.own(&uid(), own(ending("Running", "False", "True", "running"), true));
    assert_eq!(calls(&mut sync, at(0)).len(), 1, "who sends it traffic hears at once that it is not ready");
    let answer = api_pod(2, true, &ending("Running", "False", "True", "running"));
    sync.answered(&uid(), Answer::Done(Some(answer)), at(0), 0.0);
    sync.own(&uid(), own(ending("Running", "False", "False", "ended"), true));
    let (orders, wake) = sync.orders(at(10));
    assert_eq!((orders.len(), wake), (0, Some(at(11))), "its sandbox has ended");
    assert_phase_and_sandbox_in_one_patch(&mut sync, at(10));
}

/// Waits for the phase that is about to come, but not for long.
#[test]
fn that_a_pod_is_unready_as_its_containers_have_ended_is_sent_with_its_phase() {
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, true, &ending("Running", "True", "True", "running")));
    sync.own(&uid(), own(ending("Running", "False", "True", "ended"), true));
    let (orders, wake) = sync.orders(at(10));
    assert_eq!((orders.len(), wake), (0, Some(at(12))));
    let mut slow = StatusSync::default();
    slow.seen(api_pod(1, true, &ending("Running", "True", "True", "running")));
    slow.own(&uid(), own(ending("Running", "False", "True", "ended"), true));
    assert_eq!(calls(&mut slow, at(10)), []);
    assert_eq!(calls(&mut slow, at(12)).len(), 1, "its sandbox takes long");
    assert_phase_and_sandbox_in_one_patch(&mut sync, at(11));
}

fn assert_phase_and_sandbox_in_one_patch(sync: &mut StatusSync, now: Duration) {
    sync.own(&uid(), own(ending("Failed", "False", "False", "ended"), false));
    let [Call::Patch { body }] = &calls(sync, now)[..] else { panic!("one patch") };
    assert_eq!(body["status"]["phase"], "Failed");
    let told = body["status"]["conditions"].as_array().expect("a list");
    assert!(told.iter().any(|one| one["type"] == "PodReadyToStartContainers" && one["status"] == "False"), "{body}");
}

/// POD-34: a container that does not heed the signal ends with its grace period; until then there is nothing else to tell.
#[test]
fn that_a_deletion_was_seen_is_sent_with_the_end_or_after_five_seconds() {
    let observed = |generation: i64, mut status: Value| {
        status["observedGeneration"] = generation.into();
        for condition in status["conditions"].as_array_mut().expect("a list") {
            condition["observedGeneration"] = generation.into();
        }
        status
    };
    let running = ending("Running", "True", "True", "running");
    let seen_at = |now, deleting| {
        let mut sync = StatusSync::default();
        sync.seen(api_pod(1, deleting, &observed(1, running.clone())));
        sync.own(&uid(), own(observed(2, running.clone()), true));
        let (orders, wake) = sync.orders(now);
        (sync, orders.len(), wake)
    };
    assert_eq!(seen_at(at(10), false).1, 1, "who resizes a pod waits for it");
    let (mut slow, sent, wake) = seen_at(at(10), true);
    assert_eq!((sent, wake), (0, Some(at(15))));
    assert_eq!(calls(&mut slow, at(15)).len(), 1);

    let (mut sync, ..) = seen_at(at(10), true);
    sync.own(&uid(), own(observed(2, ending("Running", "False", "True", "ended")), true));
    let (orders, wake) = sync.orders(at(14));
    assert_eq!((orders.len(), wake), (0, Some(at(16))), "the wait for the sandbox begins with the containers' end");
    sync.own(&uid(), own(observed(2, ending("Failed", "False", "False", "ended")), false));
    let [Call::Patch { body }] = &calls(&mut sync, at(15))[..] else { panic!("one patch") };
    assert_eq!((&body["status"]["phase"], &body["status"]["observedGeneration"]), (&json!("Failed"), &json!(2)));
}

#[test]
fn details_of_an_end_that_takes_long_are_sent_after_a_second() {
    let running = |ip: &str| json!({"phase": "Running", "hostIP": ip, "conditions": []});
    for (deleting, expected) in [(true, 0), (false, 1)] {
        let mut sync = StatusSync::default();
        sync.seen(api_pod(1, deleting, &running("10.0.0.1")));
        sync.own(&uid(), own(running("10.0.0.2"), true));
        assert_eq!(calls(&mut sync, at(0)).len(), expected);
        assert_eq!(calls(&mut sync, at(1)).len(), 1 - expected);
    }
}

/// POD-35, POD-36.
#[test]
fn a_pod_goes_from_the_api_after_its_containers_and_its_last_status() {
    let mut sync = StatusSync::default();
    let running = json!({"phase": "Running", "conditions": []});
    sync.seen(api_pod(1, true, &running));
    let ended = json!({"phase": "Failed", "conditions": []});
    sync.own(&uid(), own(ended.clone(), true));
    assert_eq!(calls(&mut sync, at(0)), [], "containers may run: the phase stays");
    sync.own(&uid(), own(ended.clone(), false));
    let [Call::Patch { body }] = &calls(&mut sync, at(0))[..] else { panic!("one patch") };
    assert_eq!(body["status"]["phase"], "Failed");
    sync.finished(&uid());
    assert_eq!(calls(&mut sync, at(0)), [], "not before the patch is there");
    sync.answered(&uid(), Answer::Failed(None), at(0), 0.0);
    assert_eq!(calls(&mut sync, at(0)), []);
    assert!(matches!(calls(&mut sync, at(1))[..], [Call::Patch { .. }]));
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, true, &ended))), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), [Call::Delete]);
    sync.answered(&uid(), Answer::Done(None), at(2), 0.0);
    assert_eq!(calls(&mut sync, at(100)), [], "deleted once");
    sync.gone(&api_pod(2, true, &ended));
    assert!(sync.pods.is_empty());
}

#[test]
fn a_pod_that_never_came_here_fails_and_goes() {
    let mut sync = StatusSync::default();
    sync.never_here(&uid());
    sync.seen(api_pod(1, true, &json!({"phase": "Pending"})));
    let [Call::Patch { body }] = &calls(&mut sync, at(0))[..] else { panic!("one patch") };
    assert_eq!(body["status"]["phase"], "Failed");
    assert_eq!(body["metadata"]["resourceVersion"], "1", "what it has been told since then counts");
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, true, &json!({"phase": "Failed"})))), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), [Call::Delete]);
}

/// An answer and a watch have no order between them.
#[test]
fn an_answer_that_comes_after_the_end_of_its_pod_brings_nothing_back() {
    let mut sync = StatusSync::default();
    sync.own(&uid(), own(json!({"phase": "Running"}), true));
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    assert_eq!(calls(&mut sync, at(0)).len(), 1);
    sync.gone(&api_pod(3, true, &json!({"phase": "Running"})));
    sync.finished(&uid());
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, false, &json!({"phase": "Running"})))), at(1), 0.0);
    assert!(sync.pods.is_empty(), "{:?}", sync.pods);
}

#[test]
fn a_status_that_came_from_here_is_told_apart_from_one_that_is_only_shown() {
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, false, &json!({"phase": "Running"})));
    assert!(!sync.has_own(&uid()));
    sync.own(&uid(), own(json!({"phase": "Running"}), true));
    assert!(sync.has_own(&uid()));
}

/// POD-34, PAIN-32: somebody between here and the server said so, say, or a server whose store had come back from the past.
#[test]
fn a_pod_that_is_shown_although_it_was_not_found_is_tried_again() {
    let pending = json!({"phase": "Pending"});
    let missed = || {
        let mut sync = StatusSync::default();
        sync.own(&uid(), own(json!({"phase": "Running"}), true));
        sync.seen(api_pod(1, false, &pending));
        assert_eq!(calls(&mut sync, at(0)).len(), 1);
        sync.answered(&uid(), Answer::Gone, at(1), 0.0);
        sync
    };
    let mut sync = missed();
    let (orders, wake) = sync.orders(at(1));
    assert_eq!((orders.len(), wake), (0, Some(at(11))), "the watch may be about to say that it is gone");
    assert_eq!(calls(&mut sync, at(11)).len(), 1);
    let mut sync = missed();
    sync.seen(api_pod(1, false, &pending));
    assert_eq!(calls(&mut sync, at(2)), [], "that is no news");
    sync.seen(api_pod(2, false, &pending));
    assert_eq!(calls(&mut sync, at(2)).len(), 1, "it is there");
    let mut sync = missed();
    sync.all(&[api_pod(1, false, &pending)]);
    assert_eq!(calls(&mut sync, at(2)).len(), 1, "it is among all that there are");
    let mut sync = missed();
    sync.all(&[]);
    assert_eq!(calls(&mut sync, at(60)), [], "it is gone");
}

/// POD-36.
#[test]
fn a_pod_that_was_deleted_and_is_listed_all_the_same_is_deleted_again() {
    let (mut sync, ended) = (StatusSync::default(), json!({"phase": "Failed", "conditions": []}));
    let listed = api_pod(1, true, &ended);
    sync.seen(Arc::clone(&listed));
    sync.own(&uid(), own(ended, false));
    sync.finished(&uid());
    assert_eq!(calls(&mut sync, at(0)), [Call::Delete]);
    sync.answered(&uid(), Answer::Done(None), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(60)), []);
    sync.all(&[listed]);
    assert_eq!(calls(&mut sync, at(60)), [Call::Delete]);
}

/// Two pods, `u1` and `u2`, whose statuses are on their way at 0.
fn two_on_their_way() -> (StatusSync, PodUid) {
    let (mut sync, other) = (StatusSync::default(), PodUid::from("u2"));
    sync.own(&uid(), own(json!({"phase": "Running"}), true));
    sync.own(&other, Own { full_name: FullName::new("db", "shop"), ..own(json!({"phase": "Running"}), true) });
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    sync.seen(pod(json!({"metadata": {"name": "db", "namespace": "shop", "uid": "u2", "resourceVersion": "1"}})));
    assert_eq!(calls(&mut sync, at(0)).len(), 2);
    (sync, other)
}

/// PAIN-32: upstream tries everything that it has not sent every ten seconds.
#[test]
fn no_wait_for_the_next_try_is_longer_than_ten_seconds() {
    let mut sync = StatusSync::default();
    sync.own(&uid(), own(json!({"phase": "Running"}), true));
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    let mut waits = vec![];
    let mut now = at(0);
    for answer in [Answer::Away, Answer::Failed(None)].iter().cycle().take(100) {
        assert_eq!(calls(&mut sync, now).len(), 1);
        sync.answered(&uid(), answer.clone(), now, 1.0);
        let due = sync.orders(now).1.expect("it is tried again");
        waits.push(due - now);
        now = due;
    }
    assert_eq!(&waits[..4], [at(1), at(2), at(4), at(8)], "twice as long each time");
    assert!(waits[4..].iter().all(|wait| *wait == at(10)), "{waits:?}");
    assert_eq!(calls(&mut sync, now).len(), 1);
    sync.answered(&uid(), Answer::Failed(Some(Duration::MAX)), now, 1.0);
    assert_eq!(sync.orders(now).1, Some(now + at(120)), "whatever the server asks for");
}

/// PAIN-32: nobody knows when an API server comes back, but what it answers shows that it has.
#[test]
fn what_waits_for_the_api_server_goes_once_that_is_back() {
    let (mut sync, other) = two_on_their_way();
    sync.answered(&other, Answer::Away, at(0), 1.0);
    assert_eq!(calls(&mut sync, at(0)), []);
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, false, &json!({"phase": "Running"})))), at(0), 0.0);
    let orders = sync.orders(at(0)).0;
    assert_eq!(orders.iter().map(|order| &order.uid).collect::<Vec<_>>(), [&other]);

    let (mut sync, other) = two_on_their_way();
    sync.answered(&uid(), Answer::Away, at(0), 1.0);
    sync.answered(&other, Answer::Away, at(0), 1.0);
    let database = pod(json!({"metadata": {"name": "db", "namespace": "shop", "uid": "u2", "resourceVersion": "1"}}));
    sync.all(&[api_pod(1, false, &json!({"phase": "Pending"})), database]);
    assert_eq!(calls(&mut sync, at(0)).len(), 2, "a list is an answer, too");
}

/// A status that the server does not take is no more often sent because others are taken.
#[test]
fn what_the_server_refused_waits_whatever_else_it_takes() {
    let (mut sync, other) = two_on_their_way();
    sync.answered(&other, Answer::Failed(Some(at(7))), at(0), 0.0);
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, false, &json!({"phase": "Running"})))), at(0), 0.0);
    let (orders, wake) = sync.orders(at(1));
    assert_eq!((orders.len(), wake), (0, Some(at(7))));
}

#[test]
fn calls_are_bounded() {
    let mut sync = StatusSync::default();
    for number in 0..40 {
        let uid = PodUid::from(format!("u{number}"));
        sync.own(&uid, own(json!({"phase": "Running"}), true));
        let metadata = json!({"name": format!("p{number}"), "namespace": "shop", "uid": uid});
        sync.seen(pod(json!({"metadata": metadata, "status": {"phase": "Pending"}})));
    }
    let first = sync.orders(at(0)).0;
    assert_eq!(first.len(), CALLS_MAX);
    assert_eq!(sync.orders(at(0)).0.len(), 0);
    sync.answered(&first[0].uid, Answer::Gone, at(0), 0.0);
    assert_eq!(sync.orders(at(0)).0.len(), 1);
}

mod properties {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    /// As the API server keeps it: no list of nothing.
    fn plain(mut status: PodStatus) -> PodStatus {
        status.conditions.take_if(|all| all.is_empty());
        status.pod_ips.take_if(|all| all.is_empty());
        status
    }

    fn any_status() -> impl Strategy<Value = PodStatus> {
        let kinds = prop::sample::select(vec!["Ready", "Initialized", "PodScheduled", "DisruptionTarget", "other/x"]);
        let values = ("True|False", proptest::option::of("[a-b]"), proptest::option::of("[a-b]"));
        let phase = prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed"]);
        let ips = proptest::collection::btree_set("10\\.0\\.0\\.[1-4]", 0..3);
        let names =
            prop::sample::select(vec!["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/foo"]);
        let amounts = btree_map(names, "[1-3]", 1..4);
        let resources = proptest::option::of((proptest::option::of(amounts.clone()), proptest::option::of(amounts)));
        (btree_map(kinds, values, 0..5), phase, ips, proptest::option::of("[a-b]"), resources).prop_map(
            |(conditions, phase, ips, reason, resources)| {
                let resources = resources.map(|(limits, requests)| json!({"limits": limits, "requests": requests}));
                let conditions: Vec<Value> = conditions
                    .into_iter()
                    .map(|(kind, (status, reason, message))| {
                        let mut one = json!({"type": kind, "status": status});
                        if let Some(reason) = reason {
                            one["reason"] = reason.into();
                        }
                        if let Some(message) = message {
                            one["message"] = message.into();
                        }
                        one
                    })
                    .collect();
                let ips: Vec<Value> = ips.into_iter().map(|ip| json!({"ip": ip})).collect();
                let mut value = json!({"phase": phase, "reason": reason, "conditions": conditions, "podIPs": ips});
                value["resources"] = resources.unwrap_or_default();
                plain(status(value))
            },
        )
    }

    proptest! {
        #[test]
        fn a_patch_makes_of_the_old_status_the_new_one(old in any_status(), new in any_status(), may_run: bool) {
            let wanted = merged(&old, &new, may_run, StatusGates::default());
            match patch(&old, &wanted, "u1") {
                None => prop_assert_eq!(&old, &wanted),
                Some(body) => {
                    prop_assert_eq!(&plain(apply(&old, &body)), &wanted);
                    let mut lists = body["status"].as_object().into_iter().flatten();
                    prop_assert!(lists.all(|(_, value)| value.as_array().is_none_or(|list| !list.is_empty())));
                }
            }
            prop_assert_eq!(merged(&wanted, &new, may_run, StatusGates::default()), wanted, "a second time nothing changes");
        }

        /// POD-35.
        #[test]
        fn a_pod_that_has_ended_in_the_api_never_comes_back(old in any_status(), new in any_status(), may_run: bool) {
            let wanted = merged(&old, &new, may_run, StatusGates::default());
            if is_terminal(old.phase.as_deref().unwrap_or_default()) {
                prop_assert_eq!(&wanted.phase, &old.phase);
            }
            if may_run && !is_terminal(old.phase.as_deref().unwrap_or_default()) {
                prop_assert!(!is_terminal(wanted.phase.as_deref().unwrap_or_default()));
            }
        }
    }
}
