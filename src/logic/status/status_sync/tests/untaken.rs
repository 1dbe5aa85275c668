//! Patches that the API server answered and did not take over, and those that it refuses.

use super::*;
use crate::logic::pods::wait::ApiWait;

fn amounts(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!("1"))).collect::<serde_json::Map<_, _>>().into()
}

fn with_resources(phase: &str, names: &[&str]) -> Value {
    json!({"phase": phase, "resources": {"limits": amounts(names), "requests": amounts(names)},
        "allocatedResources": amounts(names)})
}

/// A pod that is being deleted, whose containers have ended; the API server still has the former status.
fn ended(shown: &Value, last: &Value) -> StatusSync {
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, true, shown));
    sync.own(&uid(), own(last.clone(), false));
    sync.finished(&uid());
    sync
}

#[test]
fn a_field_that_goes_is_named_at_every_depth() {
    let shown = with_resources("Running", &["cpu", "ephemeral-storage", "example.com/foo", "hugepages-2Mi"]);
    let last = with_resources("Succeeded", &["cpu"]);
    let mut sync = ended(&shown, &last);
    let [Call::Patch { body }] = &calls(&mut sync, at(0))[..] else { panic!("one patch") };
    assert_eq!(apply(&status(shown), body).resources, status(last.clone()).resources);
    let limits = &body["status"]["resources"]["limits"];
    assert_eq!(limits, &json!({"ephemeral-storage": null, "example.com/foo": null, "hugepages-2Mi": null}));
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, true, &last))), at(1), 0.0);
    assert_eq!((calls(&mut sync, at(1)), sync.api_wait(&uid())), (vec![Call::Delete], None));
}

/// POD-36: whatever the API server keeps of a status, the pod goes.
#[test]
fn a_status_that_is_not_taken_over_holds_up_no_deletion() {
    for phase in ["Succeeded", "Running"] {
        let kept = with_resources(phase, &["cpu", "example.com/foo"]);
        let mut sync = ended(&kept, &with_resources("Succeeded", &["cpu"]));
        assert!(matches!(calls(&mut sync, at(0))[..], [Call::Patch { .. }]), "the last status comes first");
        sync.answered(&uid(), Answer::Done(Some(api_pod(2, true, &kept))), at(1), 0.0);
        assert_eq!(calls(&mut sync, at(1)), [Call::Delete], "{phase}");
    }
}

#[test]
fn a_status_that_the_server_refuses_holds_up_no_deletion() {
    let mut sync = ended(&json!({"phase": "Running"}), &json!({"phase": "Succeeded"}));
    assert!(matches!(calls(&mut sync, at(0))[..], [Call::Patch { .. }]));
    sync.answered(&uid(), Answer::Failed(None), at(1), 0.0);
    assert!(matches!(calls(&mut sync, at(10))[..], [Call::Patch { .. }]), "a server that is busy is no refusal");
    sync.answered(&uid(), Answer::Refused("no".to_owned()), at(11), 0.0);
    assert_eq!(calls(&mut sync, at(30)), [Call::Delete]);
    assert_eq!(sync.api_wait(&uid()), Some(&ApiWait::Refused { why: "no".to_owned() }));
}

/// While containers may run, or another status follows, nothing is deleted.
#[test]
fn an_answered_status_that_is_not_the_last_deletes_nothing() {
    let kept = with_resources("Running", &["cpu", "example.com/foo"]);
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, true, &kept));
    sync.own(&uid(), own(with_resources("Running", &["cpu"]), true));
    assert!(matches!(calls(&mut sync, at(9))[..], []));
    assert!(matches!(calls(&mut sync, at(10))[..], [Call::Patch { .. }]));
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, true, &kept))), at(11), 0.0);
    assert_eq!(calls(&mut sync, at(11)), []);
    sync.own(&uid(), own(with_resources("Failed", &["cpu"]), false));
    sync.finished(&uid());
    assert!(matches!(calls(&mut sync, at(12))[..], [Call::Patch { .. }]), "the last status was never sent");
}

#[test]
fn a_field_that_is_not_taken_over_is_told_once_and_repaired_ever_more_seldom() {
    let kept = with_resources("Running", &["cpu", "example.com/foo"]);
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, false, &kept));
    sync.own(&uid(), own(with_resources("Running", &["cpu"]), true));
    let (mut now, mut waits, mut told) = (0, vec![], vec![]);
    for version in 2..7 {
        let sent = (now..).find(|now| !calls(&mut sync, at(*now)).is_empty()).expect("a repair");
        waits.push(sent - now);
        now = sent;
        sync.answered(&uid(), Answer::Done(Some(api_pod(version, false, &kept))), at(now), 0.0);
        assert_eq!(calls(&mut sync, at(now)), []);
        told.push(sync.changed_waits().len());
    }
    assert_eq!((waits, told), (vec![0, 10, 20, 40, 80], vec![1, 0, 0, 0, 0]));
    let field = "status.allocatedResources.example.com/foo".to_owned();
    assert_eq!(sync.api_wait(&uid()), Some(&ApiWait::NotTaken { field }));
    sync.seen(api_pod(9, false, &with_resources("Running", &["cpu"])));
    assert_eq!((calls(&mut sync, at(now)), sync.api_wait(&uid())), (vec![], None), "somebody else mended it");
    assert_eq!(sync.changed_waits().len(), 1);
}

/// Somebody else writes the same field after the answer: the server took the patch over all the same.
#[test]
fn a_field_that_others_change_after_the_answer_was_taken_over() {
    let (mine, theirs) = (with_resources("Running", &["cpu"]), with_resources("Running", &["memory"]));
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, false, &theirs));
    sync.own(&uid(), own(mine.clone(), true));
    assert_eq!(calls(&mut sync, at(0)).len(), 1);
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, false, &mine))), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), []);
    sync.seen(api_pod(3, false, &theirs));
    assert_eq!((calls(&mut sync, at(2)), sync.api_wait(&uid())), (vec![], None));
}

#[test]
fn an_object_that_stays_for_its_finalizers_says_so() {
    let mut api = Pod::clone(&api_pod(1, true, &json!({"phase": "Succeeded"})));
    api.metadata.finalizers = Some(vec!["example.com/a".to_owned()]);
    let mut sync = StatusSync::default();
    sync.seen(Arc::new(api));
    sync.own(&uid(), own(json!({"phase": "Succeeded"}), false));
    sync.finished(&uid());
    assert_eq!(calls(&mut sync, at(0)), [Call::Delete]);
    sync.answered(&uid(), Answer::Done(None), at(1), 0.0);
    assert_eq!(calls(&mut sync, at(1)), []);
    assert_eq!(sync.api_wait(&uid()), Some(&ApiWait::Finalizers(vec!["example.com/a".to_owned()])));
}
