//! Pods of the API server that are deleted or have ended: the time that they get, and the end that counts once.

use serde_json::json;

use super::*;

/// A pod of this source, with a deletion within so many seconds, and of this phase.
fn ending(source: &str, deletion: Option<Option<i64>>, phase: &str) -> Arc<Pod> {
    let mut json = json!({"metadata": {"name": "web", "namespace": "default",
        "annotations": {"kubernetes.io/config.source": source}}, "status": {"phase": phase}});
    if let Some(seconds) = deletion {
        json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
        json["metadata"]["deletionGracePeriodSeconds"] = json!(seconds);
    }
    Arc::new(serde_json::from_value(json).expect("a pod"))
}

/// A roster with one worker, which has this pod.
fn running(source: &'static str, pod: &Arc<Pod>) -> PodRoster {
    let mut roster = PodRoster::new([source]);
    roster.set(source, set(&[("u1", pod)]));
    assert_eq!(roster.orders(Some(NOTHING)), [start("u1", "web"), tell("u1", pod)]);
    roster
}

/// The orders of the worker once its source has this pod.
fn then(roster: &mut PodRoster, source: &'static str, pod: &Arc<Pod>) -> Vec<Order> {
    roster.set(source, set(&[("u1", pod)]));
    let orders = roster.orders(Some(NOTHING));
    assert_eq!(roster.orders(Some(NOTHING)), [], "once");
    orders
}

#[test]
fn a_pod_of_the_api_server_is_over_once_it_is_deleted_or_has_ended() {
    for (source, deletion, phase, over) in [
        (API_SOURCE, None, "Pending", false),
        (API_SOURCE, None, "Running", false),
        (API_SOURCE, None, "Unknown", false),
        (API_SOURCE, None, "Succeeded", true),
        (API_SOURCE, None, "Failed", true),
        (API_SOURCE, Some(Some(30)), "Running", true),
        (API_SOURCE, Some(None), "Pending", true),
        ("file", None, "Failed", false),
        ("http", Some(Some(30)), "Running", false),
    ] {
        assert_eq!(is_over(&ending(source, deletion, phase)), over, "{source} {deletion:?} {phase}");
    }
    assert!(!is_over(&Pod::default()), "without a status");
}

/// POD-08: seconds that make no sense leave no time; without seconds the pod's own grace period counts.
#[test]
fn a_deletion_gives_the_time_that_it_names() {
    for (seconds, grace) in [(Some(30), Some(30)), (Some(0), Some(0)), (Some(-1), Some(0)), (None, None)] {
        let mut roster = running(API_SOURCE, &ending(API_SOURCE, None, "Running"));
        let deleted = ending(API_SOURCE, Some(seconds), "Running");
        let orders = then(&mut roster, API_SOURCE, &deleted);
        assert_eq!(orders, [tell("u1", &deleted), end("u1", grace)], "{seconds:?}");
    }
    let mut roster = running(API_SOURCE, &ending(API_SOURCE, None, "Running"));
    let mut pod = Pod::clone(&ending(API_SOURCE, None, "Running"));
    pod.metadata.deletion_grace_period_seconds = Some(30);
    let pod = Arc::new(pod);
    assert_eq!(then(&mut roster, API_SOURCE, &pod), [tell("u1", &pod)], "seconds alone delete nothing");
}

/// POD-08.
#[test]
fn a_worker_hears_of_each_later_deletion_and_only_a_shorter_one_ends_its_pod_sooner() {
    let mut roster = running(API_SOURCE, &ending(API_SOURCE, None, "Running"));
    for (seconds, grace) in [(30, Some(30)), (60, None), (29, Some(29)), (30, None), (1, Some(1)), (0, Some(0))] {
        let deleted = ending(API_SOURCE, Some(Some(seconds)), "Running");
        let expected: Vec<_> = [tell("u1", &deleted)].into_iter().chain(grace.map(|at| end("u1", Some(at)))).collect();
        assert_eq!(then(&mut roster, API_SOURCE, &deleted), expected, "a deletion within {seconds} s");
    }
}

/// POD-10: the agent was away when somebody deleted the pod, and its containers run still.
#[test]
fn a_deleted_pod_that_the_runtime_holds_gets_a_worker_its_spec_and_its_end_in_this_order() {
    let runtime = held(&[("u1", "web")]);
    for (deletion, phase, grace) in [
        (Some(Some(20)), "Running", Some(Some(20))),
        (Some(Some(20)), "Failed", Some(Some(20))),
        (Some(None), "Running", Some(None)),
        (None, "Failed", None),
        (None, "Succeeded", None),
    ] {
        let pod = ending(API_SOURCE, deletion, phase);
        let mut roster = PodRoster::new([API_SOURCE]);
        roster.set(API_SOURCE, set(&[("u1", &pod)]));
        let mut expected = vec![start("u1", "web"), tell("u1", &pod)];
        expected.extend(grace.map(|grace| end("u1", grace)));
        assert_eq!(roster.orders(Some(&runtime)), expected, "{deletion:?} {phase}");
        assert_eq!(roster.orders(Some(&runtime)), [], "once: {deletion:?} {phase}");
    }
}

/// POD-10: the runtime may hold the pod, which nobody knows before it was listed.
#[test]
fn nothing_is_released_before_the_runtime_was_listed() {
    let pod = ending(API_SOURCE, Some(Some(30)), "Running");
    let mut roster = PodRoster::new([API_SOURCE]);
    roster.set(API_SOURCE, set(&[("u1", &pod)]));
    assert_eq!(roster.orders(None), []);
    assert!(!roster.released(&"u1".into()), "nobody had to release it");
    assert_eq!(roster.orders_held_up(Some(NOTHING)), [Order::Release("u1".into())]);
}

/// A manifest may hold a deletion or a phase, which mean nothing there.
#[test]
fn a_static_pod_is_ended_by_its_source_alone() {
    for (deletion, phase) in [(Some(Some(5)), "Pending"), (None, "Failed"), (Some(None), "Succeeded")] {
        let odd = ending("file", deletion, phase);
        running("file", &odd);
        let mut roster = running("file", &ending("file", None, "Pending"));
        let told = if deletion.is_some() { vec![tell("u1", &odd)] } else { vec![] };
        assert_eq!(then(&mut roster, "file", &odd), told, "{deletion:?} {phase}");
        roster.finished(&"u1".into());
        assert!(roster.ended().is_empty(), "{deletion:?} {phase}");
        assert_eq!(started(&roster.orders(Some(NOTHING))), ["u1"], "it comes back: {deletion:?} {phase}");
    }
}

/// POD-07.
#[test]
fn a_worker_that_ends_its_pod_hears_of_no_phase() {
    let mut roster = running(API_SOURCE, &ending(API_SOURCE, None, "Running"));
    roster.set(API_SOURCE, BTreeMap::new());
    assert_eq!(roster.orders(Some(NOTHING)), [end("u1", None)]);
    let failed = ending(API_SOURCE, None, "Failed");
    assert_eq!(then(&mut roster, API_SOURCE, &failed), [], "it ends already");
    let deleted = ending(API_SOURCE, Some(Some(5)), "Failed");
    assert_eq!(then(&mut roster, API_SOURCE, &deleted)[0], tell("u1", &deleted), "a deletion may leave less time");
}

/// POD-07: the API server has one end of the pod, and somebody turns it into the other.
#[test]
fn the_second_end_of_a_pod_is_no_news() {
    let mut roster = running(API_SOURCE, &ending(API_SOURCE, None, "Running"));
    let failed = ending(API_SOURCE, None, "Failed");
    let told = then(&mut roster, API_SOURCE, &failed);
    assert_eq!(told, [Order::TellEnd { uid: "u1".into(), pod: Arc::clone(&failed) }]);
    assert_eq!(then(&mut roster, API_SOURCE, &ending(API_SOURCE, None, "Succeeded")), []);
    assert_eq!(roster.told(&"u1".into()), Some(&*failed));
}

/// POD-07, POD-36: a UID ends once, as long as the API server shows it.
#[test]
fn a_uid_that_ended_is_free_again_when_the_api_server_lets_it_go() {
    let (uid, deleted) = (PodUid::from("u1"), ending(API_SOURCE, Some(Some(30)), "Running"));
    let ended = || {
        let mut roster = running(API_SOURCE, &ending(API_SOURCE, None, "Running"));
        then(&mut roster, API_SOURCE, &deleted);
        assert!(roster.ended().is_empty(), "its containers have 30 s");
        roster.finished(&uid);
        assert_eq!(roster.ended(), &[uid.clone()].into());
        roster
    };
    let mut roster = ended();
    roster.set_pod(API_SOURCE, &uid, Some(ending(API_SOURCE, None, "Running")));
    assert_eq!(roster.orders_for(&uid, Some(NOTHING)), [], "it was never gone");
    roster.set("file", BTreeMap::new());
    assert_eq!(roster.ended().len(), 1, "another source says nothing about it");
    roster.set_pod(API_SOURCE, &uid, None);
    assert!(roster.ended().is_empty(), "gone");
    roster.set_pod(API_SOURCE, &uid, Some(ending(API_SOURCE, None, "Running")));
    assert_eq!(started(&roster.orders_for(&uid, Some(NOTHING))), ["u1"], "a new pod, whatever its UID");
    let mut roster = ended();
    roster.set(API_SOURCE, BTreeMap::new());
    assert!(roster.ended().is_empty(), "gone with the complete set");
}

#[test]
fn a_pod_that_ends_by_itself_has_not_ended_for_the_api_server_before_that_shows_it() {
    let uid = PodUid::from("u1");
    for (now, count) in [(ending(API_SOURCE, None, "Running"), 0), (ending(API_SOURCE, None, "Succeeded"), 1)] {
        let mut roster = running(API_SOURCE, &ending(API_SOURCE, None, "Running"));
        then(&mut roster, API_SOURCE, &now);
        assert!(roster.over(&uid), "news");
        assert_eq!(roster.ended().len(), count, "{:?}", now.status);
    }
    let mut roster = PodRoster::new([API_SOURCE]);
    assert!(!roster.over(&uid) && !roster.is_left_over(&uid), "a pod without a worker");
}

#[test]
fn a_release_counts_only_for_a_pod_that_still_waits_for_it() {
    let (uid, pod) = (PodUid::from("u1"), ending(API_SOURCE, Some(Some(30)), "Running"));
    let releasing = || {
        let mut roster = PodRoster::new([API_SOURCE]);
        roster.set(API_SOURCE, set(&[("u1", &pod)]));
        assert_eq!(roster.orders(Some(NOTHING)), [Order::Release(uid.clone())]);
        roster
    };
    let mut roster = releasing();
    assert!(!roster.released(&"other".into()), "nobody released this one");
    roster.set(API_SOURCE, set(&[("u1", &pod), ("u2", &api_pod("db", None))]));
    assert!(roster.released(&uid), "the complete set still has it");
    assert_eq!(roster.ended(), &[uid.clone()].into());
    let mut roster = releasing();
    roster.set_pod(API_SOURCE, &uid, None);
    assert!(!roster.released(&uid), "the API server let it go meanwhile");
    assert!(roster.ended().is_empty());
}
