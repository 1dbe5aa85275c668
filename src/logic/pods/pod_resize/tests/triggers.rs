//! When resizes that wait are looked at again.

use super::*;

fn status(phase: &str, cpu: Option<&str>) -> serde_json::Value {
    let all: Vec<_> = cpu.iter().map(|cpu| takes("a", &json!({ "cpu": cpu }))).collect();
    json!({ "phase": phase, "containerStatuses": all })
}

#[test]
fn what_makes_room_is_why_resizes_are_looked_at() {
    let small = pod("cpu=1", "");
    let large = pod("cpu=2", "");
    let generation = |pod: &Pod, generation| {
        let mut pod = pod.clone();
        pod.metadata.generation = Some(generation);
        pod
    };
    let mut deleted = generation(&small, 4);
    deleted.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1).to_timestamp()));
    let ended = with_status(small.clone(), status("Succeeded", None));
    let runs = |cpu| with_status(small.clone(), status("Running", cpu));
    for (before, after, expected) in [
        (None, None, None),
        (Some(&small), Some(&small.clone()), None),
        (Some(&small), Some(&large), Some(Trigger::PodUpdated)),
        (None, Some(&small), Some(Trigger::PodsAdded)),
        (Some(&small), None, Some(Trigger::PodsRemoved)),
        (Some(&small), Some(&ended), Some(Trigger::PodTerminated)),
        (Some(&ended), Some(&ended.clone()), None),
        // A resize that came into force, or a container that began.
        (Some(&runs(Some("2"))), Some(&runs(Some("1"))), Some(Trigger::PodResized)),
        (Some(&runs(None)), Some(&runs(Some("1"))), Some(Trigger::PodResized)),
        (Some(&runs(Some("1"))), Some(&runs(Some("1"))), None),
        // Asked for and taken back, while nobody looked: the generation alone shows it.
        (Some(&small), Some(&generation(&small, 5)), Some(Trigger::PodUpdated)),
        // A deletion raises the generation, too, and asks for nothing.
        (Some(&small), Some(&deleted), None),
        // An end makes more room than a smaller container.
        (Some(&runs(Some("2"))), Some(&ended), Some(Trigger::PodTerminated)),
    ] {
        let (before, after) = (before.cloned().map(Arc::new), after.cloned().map(Arc::new));
        assert_eq!(Trigger::between(before.as_ref(), after.as_ref()), expected, "{before:?} {after:?}");
    }
}

#[test]
fn the_cause_that_makes_most_room_is_counted() {
    use Trigger::{PeriodicRetry, PodResized, PodTerminated, PodUpdated, PodsAdded, PodsRemoved};
    let order = [PodsRemoved, PodTerminated, PodResized, PodsAdded, PodUpdated, PeriodicRetry];
    assert!(order.is_sorted());
    let words = order.map(<&str>::from);
    let expected = ["pods_removed", "pod_terminated", "pod_resized", "pods_added", "pod_updated", "periodic_retry"];
    assert_eq!(words, expected);
}

#[test]
fn a_status_tells_whether_there_may_be_room() {
    let runs = |cpu| with_status(pod("cpu=1", ""), status("Running", cpu));
    let ended = with_status(pod("cpu=1", ""), status("Failed", None));
    let init =
        |cpu: &str| with_status(pod("", ""), json!({ "initContainerStatuses": [takes("s", &json!({ "cpu": cpu }))] }));
    for (before, after, free, same) in [
        (runs(None), runs(None), false, true),
        (runs(Some("1")), runs(Some("1")), false, true),
        (runs(Some("2")), runs(Some("1")), true, false),
        (runs(Some("1")), ended.clone(), true, false),
        (ended.clone(), ended.clone(), false, true),
        // A container that took nothing before frees nothing.
        (runs(None), runs(Some("1")), false, false),
        (init("2"), init("1"), true, false),
        (pod("cpu=1", ""), pod("cpu=2", ""), false, true),
    ] {
        assert_eq!((may_free(&before, &after), take_the_same(&before, &after)), (free, same), "{before:?} {after:?}");
    }
}

/// A whole pod that shrinks makes room, too; one without requests of its own has its containers' alone.
#[test]
fn a_whole_pod_tells_whether_there_may_be_room() {
    let of = |pod: Pod, cpu: &str| with_status(pod, json!({ "resources": { "requests": { "cpu": cpu } } }));
    let (whole, plain) = (with_own(pod("", ""), "cpu=1", ""), pod("cpu=1", ""));
    for (pod, free) in [(&whole, true), (&plain, false)] {
        let (before, after) = (of(pod.clone(), "2"), of(pod.clone(), "1"));
        assert_eq!((may_free(&before, &after), take_the_same(&before, &after)), (free, !free), "{pod:?}");
        let trigger = Trigger::between(Some(&Arc::new(before)), Some(&Arc::new(after)));
        assert_eq!(trigger, free.then_some(Trigger::PodResized), "{pod:?}");
    }
}

/// An entry without resources and an absent one say the same.
#[test]
fn nothing_taken_need_not_be_said() {
    let empty = with_status(pod("", ""), json!({ "containerStatuses": [takes("a", &json!(null))] }));
    let silent = with_status(pod("", ""), json!({}));
    assert!(take_the_same(&empty, &silent) && take_the_same(&silent, &pod("", "")));
}
