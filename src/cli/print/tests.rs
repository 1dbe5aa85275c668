//! Tests of how answers look.

use super::*;
use crate::server::views::{BackOffShown, ConditionShown, OperationOpen, WorkerShown};

fn row(name: &str, phase: &str, reason: &str, waiting: &[&str]) -> PodRow {
    PodRow {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        phase: phase.into(),
        reason: reason.into(),
        ready: waiting.is_empty(),
        ready_containers: usize::from(waiting.is_empty()),
        containers: 1,
        restarts: 2,
        age_seconds: Some(61.0),
        ip: "10.0.0.1".into(),
        node: "n1".into(),
        source: "file".into(),
        waiting: waiting.iter().map(|text| format!("waits for {text}")).collect(),
        waiting_for: waiting.iter().map(|text| (*text).to_owned()).collect(),
    }
}

#[test]
fn pods_are_listed_in_columns() {
    let rows =
        [row("web", "Running", "", &[]), row("job-with-a-name", "Pending", "ImagePullBackOff", &["image x", "y"])];
    let expected = "\
NAMESPACE   NAME              PHASE                        READY   RESTARTS   AGE   IP         WAITING FOR
shop        web               Running                      1/1     2          61s   10.0.0.1
shop        job-with-a-name   Pending (ImagePullBackOff)   0/1     2          61s   10.0.0.1   image x (+1)
";
    assert_eq!(pods(&rows, false, false), expected);
    assert!(pods(&rows, true, false).contains("n1     file     uid-job-with-a-name   image x; y"));
    assert_eq!(pods(&[], false, false), "no pods on this node\n");
}

#[test]
fn colours_tell_good_from_bad() {
    for (row, mood_of_it) in [
        (row("a", "Running", "", &[]), Mood::Good),
        (row("b", "Running", "", &["a"]), Mood::Pending),
        (row("c", "Running", "CrashLoopBackOff", &["x"]), Mood::Bad),
        (row("d", "Failed", "", &[]), Mood::Bad),
        (row("e", "Succeeded", "", &[]), Mood::Good),
        (row("f", "Pending", "ContainerCreating", &["x"]), Mood::Pending),
    ] {
        assert_eq!(mood(&row), mood_of_it, "{}", row.name);
    }
}

#[test]
fn an_explanation_names_the_chain_and_what_is_under_way() {
    let one = Explanation {
        pod: row("web", "Running", "CrashLoopBackOff", &["a"]),
        why: vec!["waits for a".into(), "BackOff 3s ago, seen 4x: \u{1b}[31mred".into()],
        conditions: vec![ConditionShown { kind: "Ready".into(), status: "False".into(), ..ConditionShown::default() }],
        containers: vec![ContainerShown {
            name: "a".into(),
            role: "main".into(),
            state: "waiting".into(),
            detail: "CrashLoopBackOff".into(),
            restarts: 2,
            ..ContainerShown::default()
        }],
        back_offs: vec![BackOffShown { container: "a".into(), until: "1970-01-01T00:02:20Z".into(), in_seconds: 40.0 }],
        worker: Some(WorkerShown {
            name: "PodWorker/shop/web/u1".into(),
            state: "working".into(),
            turns: 7,
            operations: vec![OperationOpen {
                name: "ensure image".into(),
                about: "a".into(),
                open_seconds: 1.25,
                ..OperationOpen::default()
            }],
            ..WorkerShown::default()
        }),
        ..Explanation::default()
    };
    let expected = "\
Pod       shop/web   uid uid-web
Phase     Running (CrashLoopBackOff), 0/1 ready, 2 restarts, age 61s, ip 10.0.0.1, source file

Why it is not as it should be, newest first:
  1. waits for a
  2. BackOff 3s ago, seen 4x: \u{fffd}[31mred
  a is started again at 1970-01-01T00:02:20Z, in 40s

CONDITION   STATUS   AGE   REASON   MESSAGE
Ready       False    -     -

CONTAINER   ROLE   STATE     AGE   READY   RESTARTS   LAST   DETAIL
a           main   waiting   -     no      2          -      CrashLoopBackOff

Worker    PodWorker/shop/web/u1: working, 7 turns, 0 restarts
  ensure image (a) for 1.25s

no events
";
    assert_eq!(explanations(&[one], false), expected);
}
