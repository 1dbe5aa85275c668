//! The conditions of a resize, from its request to its end (POD-26).

use super::*;

fn deferred(generation: i64, since: i64) -> PendingResize {
    PendingResize {
        reason: PendingReason::Deferred,
        message: "full".to_owned(),
        generation: Some(generation),
        since: at(since),
    }
}

/// Type, reason, message, generation and second of the last transition.
type Shown = (String, Option<String>, Option<String>, Option<i64>, Option<i64>);

fn shown(conditions: &ResizeConditions) -> Vec<Shown> {
    let all = conditions.conditions().into_iter().map(|condition| {
        assert_eq!(condition.status, "True");
        let since = condition.last_transition_time.map(|time| Moment::from_timestamp(time.0).0 / 1_000_000_000);
        (condition.type_, condition.reason, condition.message, condition.observed_generation, since)
    });
    all.collect()
}

fn row(kind: &str, reason: &str, message: &str, generation: i64, since: i64) -> Shown {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    (kind.to_owned(), some(reason), some(message), Some(generation), Some(since))
}

/// POD-26.
#[test]
fn a_resize_is_told_from_its_beginning_to_its_end() {
    let mut told = ResizeConditions { pending: Some(deferred(2, 1)), progress: None };
    assert_eq!(shown(&told), [row(PENDING, "Deferred", "full", 2, 1)]);
    told.begin(Some(3), at(2));
    assert_eq!(shown(&told), [row(PROGRESS, "", "", 3, 2)]);
    assert_eq!(told.note(false, Some(4), at(3)), None);
    assert_eq!(told.fail("busy", Some(4), at(4)), Some(Some(3)), "the generation of its beginning");
    assert_eq!(told.fail("busy", Some(4), at(5)), None, "no news");
    assert_eq!(told.fail("still busy", Some(4), at(6)), Some(Some(3)));
    assert_eq!(shown(&told), [row(PROGRESS, "Error", "still busy", 3, 4)]);
    assert_eq!(told.note(false, Some(4), at(6)), None);
    assert_eq!(shown(&told), [row(PROGRESS, "Error", "still busy", 3, 4)], "until it is in force");
    assert_eq!(told.note(true, Some(4), at(7)), Some(Some(3)));
    assert_eq!(told.note(true, Some(4), at(8)), None);
    assert_eq!(told.conditions(), []);
}

/// Desired, allocated and actuated may be three: then both conditions are there, each of its own generation.
#[test]
fn a_resize_may_wait_while_an_earlier_one_is_under_way() {
    let mut told = ResizeConditions::default();
    told.begin(Some(1), at(1));
    told.pending = Some(deferred(2, 5));
    assert_eq!(shown(&told), [row(PENDING, "Deferred", "full", 2, 5), row(PROGRESS, "", "", 1, 1)]);
    // The earlier one fails, and comes into force; the later one waits on.
    assert_eq!(told.fail("busy", Some(2), at(6)), Some(Some(1)));
    assert_eq!(shown(&told)[1], row(PROGRESS, "Error", "busy", 1, 6));
    assert_eq!(told.note(true, Some(2), at(7)), Some(Some(1)));
    assert_eq!(shown(&told), [row(PENDING, "Deferred", "full", 2, 5)]);
}

/// A resize that is taken on ends the talk of earlier ones: no error, no wait, a new generation and a new time.
#[test]
fn a_new_resize_begins_anew() {
    let mut told = ResizeConditions { pending: Some(deferred(2, 1)), progress: None };
    told.fail("busy", Some(1), at(2));
    told.begin(Some(2), at(3));
    assert_eq!(shown(&told), [row(PROGRESS, "", "", 2, 3)]);
    assert_eq!(told.fail("busy", Some(2), at(4)), Some(Some(2)), "of this one it is news");
}

/// Something may be out of force although nobody began a resize: a checkpoint was lost, or another agent stopped half way.
#[test]
fn what_is_not_in_force_is_under_way_whoever_began_it() {
    let mut told = ResizeConditions::default();
    assert_eq!(told.note(true, Some(1), at(1)), None);
    assert_eq!(told.conditions(), []);
    assert_eq!(told.note(false, Some(1), at(2)), None);
    assert_eq!(told.note(false, Some(2), at(3)), None);
    assert_eq!(shown(&told), [row(PROGRESS, "", "", 1, 2)], "as it was seen first");
    let mut told = ResizeConditions::default();
    assert_eq!(told.fail("busy", Some(5), at(4)), Some(Some(5)));
    assert_eq!(shown(&told), [row(PROGRESS, "Error", "busy", 5, 4)]);
}

/// Static pods have no generation.
#[test]
fn a_pod_without_a_generation_has_conditions_without_one() {
    let mut told = ResizeConditions::default();
    told.begin(None, at(1));
    assert_eq!(told.conditions()[0].observed_generation, None);
    assert_eq!(told.fail("busy", None, at(2)), Some(None));
    assert_eq!(told.note(true, None, at(3)), Some(None), "its end is news although it has no generation");
}

fn status_of(conditions: &ResizeConditions) -> PodStatus {
    PodStatus { conditions: Some(conditions.conditions()), ..PodStatus::default() }
}

#[test]
fn a_restart_of_the_agent_changes_no_condition() {
    let progress =
        |error: Option<&str>| Progress { generation: Some(3), error: error.map(str::to_owned), since: at(9) };
    let infeasible = PendingResize { reason: PendingReason::Infeasible, ..deferred(4, 8) };
    for told in [
        ResizeConditions::default(),
        ResizeConditions { pending: Some(deferred(4, 8)), progress: None },
        ResizeConditions { pending: Some(infeasible), progress: Some(progress(None)) },
        ResizeConditions { pending: None, progress: Some(progress(Some("busy"))) },
        ResizeConditions { pending: Some(PendingResize { generation: None, ..deferred(0, 1) }), progress: None },
    ] {
        assert_eq!(ResizeConditions::of_status(&status_of(&told)), told);
    }
}

/// Upstream's agent wrote them, or an older one.
#[test]
fn conditions_of_another_agent_are_understood() {
    let read = |condition: serde_json::Value| {
        let pod = with_status(pod("", ""), json!({ "conditions": [{ "type": "Ready", "status": "True" }, condition] }));
        ResizeConditions::of_status(pod.status.as_ref().expect("a status"))
    };
    let pending = read(json!({ "type": PENDING, "status": "True", "reason": "OutOfcpu" })).pending.expect("pending");
    assert_eq!((pending.reason, pending.message.as_str()), (PendingReason::Deferred, ""));
    assert_eq!((pending.generation, pending.since), (None, Moment::EPOCH));
    let progress = read(json!({ "type": PROGRESS, "status": "True", "message": "slow" })).progress.expect("progress");
    assert_eq!(progress.error, None, "a message without the reason is no error");
    let progress = read(json!({ "type": PROGRESS, "status": "True", "reason": "Error" })).progress.expect("progress");
    assert_eq!(progress.error.as_deref(), Some(""));
    assert_eq!(read(json!({ "type": "PodScheduled", "status": "True" })), ResizeConditions::default());
    assert_eq!(ResizeConditions::of_status(&PodStatus::default()), ResizeConditions::default());
}
