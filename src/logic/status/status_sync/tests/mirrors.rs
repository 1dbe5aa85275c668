//! Tests of static pods, whose statuses go to their mirrors.

use super::*;

#[test]
fn a_static_pods_status_goes_to_its_mirror_which_is_never_deleted_here() {
    let mut sync = StatusSync::default();
    sync.own(&PodUid::from("static"), fixed("static", json!({"phase": "Running"}), true));
    assert_eq!(calls(&mut sync, at(0)), []);
    let mirror = |uid: &str, deleting: bool| {
        let mut metadata = json!({"name": "web", "namespace": "shop", "uid": uid,
                                  "annotations": {MIRROR_ANNOTATION: "static"}});
        if deleting {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        pod(json!({"metadata": metadata, "status": {"phase": "Pending"}}))
    };
    sync.seen(mirror("m1", false));
    let orders = sync.orders(at(0)).0;
    assert_eq!((orders.len(), orders[0].api_uid.as_str(), orders[0].uid.as_str()), (1, "m1", "static"));
    sync.answered(&PodUid::from("static"), Answer::Gone, at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), []);
    sync.seen(mirror("m2", true));
    assert_eq!(sync.orders(at(60)).0.len(), 1, "a new mirror gets the status");
}

/// POD-06: the end of a pod that was edited says nothing of the pod that takes its place.
#[test]
fn the_end_of_a_static_pod_is_not_told_of_its_successor() {
    let mut sync = StatusSync::default();
    sync.own(&PodUid::from("old"), fixed("old", json!({"phase": "Failed"}), false));
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "m2", "annotations": {MIRROR_ANNOTATION: "new"}});
    sync.seen(pod(json!({"metadata": metadata, "status": {"phase": "Pending"}})));
    assert_eq!(calls(&mut sync, at(0)), []);
    sync.own(&PodUid::from("new"), fixed("new", json!({"phase": "Running"}), true));
    let orders = sync.orders(at(0)).0;
    assert_eq!((orders.len(), orders[0].uid.as_str(), orders[0].api_uid.as_str()), (1, "new", "m2"));
}

#[test]
fn a_mirrors_late_answer_does_not_hide_the_mirror_that_took_its_place() {
    let (mut sync, fixed) = (StatusSync::default(), PodUid::from("static"));
    sync.own(&fixed, self::fixed("static", json!({"phase": "Running"}), true));
    let mirror = |uid: &str, version: &str, phase: &str| {
        let metadata = json!({"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version,
                              "annotations": {MIRROR_ANNOTATION: "static"}});
        pod(json!({"metadata": metadata, "status": {"phase": phase}}))
    };
    sync.seen(mirror("m1", "1", "Pending"));
    assert_eq!(sync.orders(at(0)).0[0].api_uid.as_str(), "m1");
    sync.gone(&mirror("m1", "3", "Running"));
    sync.seen(mirror("m2", "4", "Pending"));
    sync.answered(&fixed, Answer::Done(Some(mirror("m1", "2", "Running"))), at(8), 0.0);
    let orders = sync.orders(at(8)).0;
    assert_eq!((orders.len(), orders[0].api_uid.as_str()), (1, "m2"));
}

/// Nobody else changed that mirror, so that its status does not wait for the pause after somebody else's changes.
#[test]
fn a_mirror_that_takes_the_place_of_another_gets_its_status_at_once() {
    let (mut sync, fixed) = (StatusSync::default(), PodUid::from("static"));
    sync.own(&fixed, self::fixed("static", json!({"phase": "Running"}), true));
    let mirror = |uid: &str, phase: &str| {
        let metadata =
            json!({"name": "web", "namespace": "shop", "uid": uid, "annotations": {MIRROR_ANNOTATION: "static"}});
        pod(json!({"metadata": metadata, "status": {"phase": phase}}))
    };
    sync.seen(mirror("m1", "Pending"));
    assert_eq!(sync.orders(at(0)).0.len(), 1);
    sync.answered(&fixed, Answer::Done(Some(mirror("m1", "Running"))), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), []);
    sync.gone(&mirror("m1", "Running"));
    sync.seen(mirror("m2", "Pending"));
    assert_eq!(sync.orders(at(2)).0.iter().map(|order| order.api_uid.as_str()).collect::<Vec<_>>(), ["m2"]);
    sync.answered(&fixed, Answer::Done(Some(mirror("m2", "Running"))), at(3), 0.0);
    sync.seen(mirror("m2", "Pending"));
    assert_eq!(calls(&mut sync, at(4)), [], "somebody else's change waits");
}

#[test]
fn that_one_mirror_is_gone_says_nothing_of_the_next() {
    let (mut sync, fixed) = (StatusSync::default(), PodUid::from("static"));
    sync.own(&fixed, self::fixed("static", json!({"phase": "Running"}), true));
    let mirror = |uid: &str| {
        let metadata =
            json!({"name": "web", "namespace": "shop", "uid": uid, "annotations": {MIRROR_ANNOTATION: "static"}});
        pod(json!({"metadata": metadata, "status": {"phase": "Pending"}}))
    };
    sync.seen(mirror("m1"));
    assert_eq!(sync.orders(at(0)).0[0].api_uid.as_str(), "m1");
    sync.seen(mirror("m2"));
    sync.answered(&fixed, Answer::Gone, at(1), 0.0);
    sync.gone(&mirror("m1"));
    assert_eq!(sync.orders(at(60)).0[0].api_uid.as_str(), "m2");
    sync.answered(&fixed, Answer::Failed(None), at(61), 0.0);
    sync.gone(&mirror("m2"));
    assert_eq!(sync.orders(at(120)).0, []);
}

#[test]
fn a_mirror_that_a_patch_was_answered_with_has_the_status() {
    let (mut sync, fixed) = (StatusSync::default(), PodUid::from("static"));
    sync.own(&fixed, self::fixed("static", json!({"phase": "Running"}), true));
    let mirror = |version: &str, phase: &str| {
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "m1", "resourceVersion": version,
                              "annotations": {MIRROR_ANNOTATION: "static"}});
        pod(json!({"metadata": metadata, "status": {"phase": phase}}))
    };
    sync.seen(mirror("1", "Pending"));
    assert_eq!(sync.orders(at(0)).0.len(), 1);
    sync.answered(&fixed, Answer::Done(Some(mirror("2", "Running"))), at(1), 0.0);
    assert_eq!(sync.orders(at(60)).0, []);
}
