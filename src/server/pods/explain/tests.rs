//! Tests of what is said about pods.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::logic::images::pull_progress::{PullStage, PullStep};
use crate::logic::model::ids::FullName;
use crate::logic::pods::wait::{Awaited, StageWait};

fn at(seconds: i64) -> Moment {
    Moment(seconds * 1_000_000_000)
}

fn view(status: serde_json::Value, waiting: &[PodWait]) -> PodView {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1",
                     "annotations": {"kubernetes.io/config.source": "file"}},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n",
                 "initContainers": [{"name": "first"}, {"name": "side", "restartPolicy": "Always"}]},
    });
    PodView {
        uid: "u1".into(),
        pod: Arc::new(serde_json::from_value(pod).expect("a pod")),
        status: Arc::new(serde_json::from_value(status).expect("a status")),
        may_run: true,
        is_over: false,
        waiting: Arc::new(waiting.to_vec()),
    }
}

fn waits_to_start() -> PodWait {
    PodWait::ToRun(Awaited::Start("a".into()).into())
}

fn waits_for_restart() -> PodWait {
    let wait = CrashLoopWait { container: "a".into(), pod: "web_shop(u1)".into(), period: Duration::from_secs(80) };
    PodWait::ToRun(Awaited::Restart(wait).into())
}

/// As a list has it.
fn full_row(view: &PodView, now: Moment) -> PodRow {
    with_waits(row(view, now), &view.waiting, &[], &back_offs(view, now))
}

fn crashing() -> serde_json::Value {
    let ended =
        |at: &str, code: i32| json!({"exitCode": code, "reason": "Error", "finishedAt": at, "message": "no\nway"});
    json!({
        "phase": "Running", "podIP": "10.0.0.9", "startTime": "1970-01-01T00:00:10Z",
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady",
                        "message": "containers with unready status: [a]", "lastTransitionTime": "1970-01-01T00:01:00Z"}],
        "initContainerStatuses": [
            {"name": "first", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
             "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "side", "image": "i", "imageID": "", "ready": true, "restartCount": 1, "started": true,
             "state": {"running": {"startedAt": "1970-01-01T00:00:20Z"}}}],
        "containerStatuses": [
            {"name": "a", "image": "i", "imageID": "", "ready": false, "restartCount": 4, "started": false,
             "state": {"waiting": {"reason": "CrashLoopBackOff",
                       "message": "back-off 1m20s restarting failed container=a pod=web_shop(u1)"}},
             "lastState": {"terminated": ended("1970-01-01T00:01:00Z", 3)}},
            {"name": "b", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "started": true,
             "state": {"running": {"startedAt": "1970-01-01T00:00:30Z"}}}],
    })
}

#[test]
fn a_row_sums_up_a_pod() {
    let row = full_row(&view(crashing(), &[waits_to_start()]), at(100));
    let expected = PodRow {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u1".into(),
        phase: "Running".into(),
        reason: "CrashLoopBackOff".into(),
        ready: false,
        ready_containers: 2,
        containers: 3,
        restarts: 5,
        age_seconds: Some(90.0),
        ip: "10.0.0.9".into(),
        node: "n".into(),
        source: "file".into(),
        waiting: vec!["waits for container a to start".into()],
        waiting_for: vec!["container a to start".into()],
    };
    assert_eq!(row, expected);
}

#[test]
fn containers_are_told_with_their_roles_and_last_ends() {
    let view = view(crashing(), &[]);
    let told = containers(&view.pod, &view.status, at(100));
    let roles: Vec<(&str, &str, &str)> =
        told.iter().map(|one| (one.name.as_str(), one.role.as_str(), one.state.as_str())).collect();
    let expected = [
        ("first", "init", "terminated"),
        ("side", "sidecar", "running"),
        ("a", "main", "waiting"),
        ("b", "main", "running"),
    ];
    assert_eq!(roles, expected);
    assert_eq!(told[2].last, "Error (exit 3): no\nway, 40s ago");
    assert_eq!(
        (told[0].detail.as_str(), told[0].exit_code, is_completed(&told[0])),
        ("Completed (exit 0)", Some(0), true)
    );
    assert!(!is_completed(&told[2]) && told[2].exit_code.is_none());
    assert_eq!(told[3].age_seconds, Some(70.0));
}

#[test]
fn a_back_off_ends_its_named_wait_after_the_last_end() {
    let waiting = view(crashing(), &[waits_for_restart()]);
    let expected =
        |in_seconds| [BackOffShown { container: "a".into(), until: "1970-01-01T00:02:20Z".into(), in_seconds }];
    assert_eq!(back_offs(&waiting, at(100)), expected(40.0));
    assert_eq!(back_offs(&waiting, at(150)), expected(-10.0));
    assert_eq!(back_offs(&view(crashing(), &[waits_to_start()]), at(100)), [], "nobody waits for it");
}

/// PAIN-34.
#[test]
fn the_list_says_when_a_back_off_is_over() {
    let sentence = "waits for back-off 1m20s restarting failed container=a pod=web_shop(u1)";
    let view = view(crashing(), &[waits_to_start(), waits_for_restart()]);
    let row = full_row(&view, at(100));
    let expected =
        [String::from("waits for container a to start"), format!("{sentence}, next at 1970-01-01T00:02:20Z")];
    assert_eq!(row.waiting, expected);
}

/// PAIN-22.
#[test]
fn a_wait_for_an_image_says_how_far_it_is() {
    let image = |container: &str| StageWait::from(Awaited::Image(container.to_owned()));
    let failed = PodWait::ToRun(StageWait { to_be_tried_again: true, ..image("a") });
    let waits = [PodWait::ToRun(image("a")), PodWait::ToRun(image("b")), failed];
    let step = PullStep { image: "i".into(), stage: PullStage::Pulled, lasts: Duration::from_secs(41) };
    let of = |uid: &str, container: Option<&str>| PullProgress {
        uid: uid.into(),
        full_name: FullName::new("web", "shop"),
        container: container.map(str::to_owned),
        step: step.clone(),
    };
    let progress = [of("u2", Some("b")), of("u1", None), of("u1", Some("a"))];
    let row = with_waits(row(&view(crashing(), &[]), at(100)), &waits, &progress, &[]);
    let expected = [
        "the image of container a: i has been pulled for 41s",
        "the image of container b",
        "the image of container a, to be tried again",
    ];
    assert_eq!(row.waiting_for, expected);
}

#[test]
fn the_chain_goes_from_now_to_before() {
    let view = view(crashing(), &[waits_to_start()]);
    let pod = with_waits(row(&view, at(100)), &view.waiting, &[], &[]);
    let told = containers(&view.pod, &view.status, at(100));
    let operations = vec![OperationOpen {
        name: "stop container".into(),
        about: "a".into(),
        open_seconds: 2.5,
        ..OperationOpen::default()
    }];
    let worker = WorkerShown { operations, ..WorkerShown::default() };
    let events = [EventShown {
        kind: "Warning".into(),
        reason: "BackOff".into(),
        count: 7,
        last_seconds: 30.0,
        message: "Back-off restarting".into(),
        ..EventShown::default()
    }];
    let why = reasons(&pod, Some(&worker), &told, &[], &events);
    assert_eq!(
        why,
        [
            "waits for container a to start",
            "under way for 2.50s: stop container (a)",
            "container a is waiting: CrashLoopBackOff: back-off 1m20s restarting failed container=a pod=web_shop(u1)",
            "BackOff 30s ago, seen 7x: Back-off restarting",
        ]
    );
}

#[test]
fn work_under_way_is_told_where_nothing_else_is() {
    let stop = OperationOpen {
        name: "stop pod".into(),
        about: "web_shop".into(),
        open_seconds: 6.0,
        ..OperationOpen::default()
    };
    let quiet = with_work(full_row(&view(crashing(), &[]), at(100)), std::slice::from_ref(&stop));
    assert_eq!(quiet.waiting, ["under way for 6.00s: stop pod (web_shop)"]);
    assert_eq!(quiet.waiting_for, quiet.waiting);
    let late = with_work(full_row(&view(crashing(), &[]), at(100)), &[OperationOpen { late: true, ..stop.clone() }]);
    assert_eq!(late.waiting, ["under way for 6.00s, which is late: stop pod (web_shop)"]);
    let told = with_work(full_row(&view(crashing(), &[waits_to_start()]), at(100)), &[stop]);
    assert_eq!(told.waiting, ["waits for container a to start"]);
}
