//! Tests of pods that end, begin anew or are forgotten, and of what the API server hears of them then.

use super::*;

#[test]
fn what_is_left_of_a_pod_that_nobody_can_look_at_has_ended() {
    let container = |name: &str, state: Value| json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": state, "containerID": format!("containerd://{name}")});
    let ended = finished(
        status(json!({
            "phase": "Running",
            "conditions": [condition("Initialized", "True"), condition("Ready", "True")],
            "initContainerStatuses": [
                container("first", json!({"terminated": {"exitCode": 0}})),
                container("second", json!({"running": {}})),
                container("third", json!({"waiting": {}}))],
            "containerStatuses": [container("main", json!({"running": {}}))],
        })),
        false,
    );
    let codes = |list: &Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| -> Vec<Option<i32>> {
        let code = |one: &k8s_openapi::api::core::v1::ContainerStatus| {
            one.state.as_ref().and_then(|state| state.terminated.as_ref()).map(|ended| ended.exit_code)
        };
        list.iter().flatten().map(code).collect()
    };
    assert_eq!(codes(&ended.init_container_statuses), [Some(0), Some(137), None]);
    assert_eq!(codes(&ended.container_statuses), [Some(137)]);
    let end = ended.container_statuses.iter().flatten().find_map(|one| one.state.clone()?.terminated).expect("an end");
    assert_eq!(end.container_id, None, "as upstream's: of no container is this known");
    let texts = [&end.reason, &end.message].map(|text| text.as_deref().unwrap_or_default());
    let message = "The container could not be located when the pod was terminated";
    assert_eq!(texts, ["ContainerStatusUnknown", message]);
    assert_eq!(ended.phase.as_deref(), Some("Failed"));
    let ready = ended.conditions.iter().flatten().find(|one| one.type_ == "Ready").expect("kept");
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")));
}

/// A pod that never got as far as its containers says nothing of them.
#[test]
fn containers_that_were_never_to_run_get_no_end() {
    let waiting = json!({"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                         "state": {"waiting": {"reason": "PodInitializing"}}});
    let conditions = [condition("PodScheduled", "True"), condition("Initialized", "False")];
    let ended =
        finished(status(json!({"phase": "Pending", "conditions": conditions, "containerStatuses": [waiting]})), false);
    let state = ended.container_statuses.iter().flatten().find_map(|one| one.state.clone()).expect("a state");
    assert!(state.waiting.is_some() && state.terminated.is_none(), "{state:?}");
}

#[test]
fn of_each_field_the_agents_own_counts_and_the_api_servers_where_it_has_none() {
    let full = status(json!({
        "phase": "Running",
        "reason": "Odd",
        "message": "it is odd",
        "conditions": [condition("Ready", "True")],
        "hostIP": "192.0.2.1",
        "hostIPs": [{"ip": "192.0.2.1"}],
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "qosClass": "Burstable",
        "startTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 3,
        "resources": {"requests": {"cpu": "1"}},
        "allocatedResources": {"cpu": "1"},
        "containerStatuses": [{"name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 0}],
        "initContainerStatuses": [{"name": "b", "image": "i", "imageID": "", "ready": true, "restartCount": 0}],
        "ephemeralContainerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0}],
    }));
    assert_eq!(merged(&PodStatus::default(), &full, true, StatusGates::default()), full);
    // Fields that the agent has no word for stay; its word on the phase, the conditions and the addresses is that there
    // is none.
    let none = PodStatus::default();
    let kept = merged(&full, &none, true, StatusGates::default());
    let expected = PodStatus {
        phase: none.phase,
        reason: none.reason,
        message: none.message,
        conditions: none.conditions,
        pod_ip: none.pod_ip,
        pod_ips: none.pod_ips,
        ..full
    };
    assert_eq!(kept, expected);
}

/// A status has the resources that the pod asked for until it runs; then it has those that are in force.
#[test]
fn resources_that_are_not_in_force_go_once_the_pod_runs() {
    let asked = json!({"requests": {"ephemeral-storage": "1Gi"}});
    let api = status(json!({"phase": "Pending", "resources": asked}));
    for (phase, resources) in [("Running", None), ("Pending", Some(&asked)), ("Failed", Some(&asked))] {
        let merged = merged(&api, &status(json!({"phase": phase})), false, StatusGates::default());
        let expected = resources.map(|resources| status(json!({"resources": resources})).resources.expect("some"));
        assert_eq!(merged.resources, expected, "{phase}");
    }
}

/// Others write it too: the agent's word counts with the end, and of conditions that others own it never does.
#[test]
fn a_disruption_is_told_with_the_end_and_others_conditions_never() {
    let conditions = [condition("DisruptionTarget", "True"), condition("example.com/theirs", "True")];
    let (api, running) = (status(json!({"phase": "Running"})), json!({"phase": "Running", "conditions": conditions}));
    let failed = json!({"phase": "Failed", "conditions": conditions});
    let told = |own: &Value, may_run| -> Vec<String> {
        let merged = merged(&api, &status(own.clone()), may_run, StatusGates::default());
        merged.conditions.into_iter().flatten().map(|one| one.type_).collect()
    };
    assert_eq!(told(&running, true), Vec::<String>::new());
    assert_eq!(told(&failed, true), Vec::<String>::new(), "it is not told to have ended yet");
    assert_eq!(told(&failed, false), ["DisruptionTarget"]);
}

/// POD-34: with the gate off the condition is another's, and stays as the API server has it.
#[test]
fn the_condition_of_the_sandbox_stays_as_it_is_where_its_gate_is_off() {
    let shown = [condition("PodReadyToStartContainers", "True"), condition("Initialized", "True")];
    let api = status(json!({"conditions": shown}));
    let own = status(json!({"conditions": [condition("Initialized", "False")]}));
    let told = |gates: StatusGates| {
        let merged = merged(&api, &own, true, gates);
        merged.conditions.into_iter().flatten().map(|one| (one.type_, one.status)).collect::<Vec<_>>()
    };
    let pair = |kind: &str, status: &str| (kind.to_owned(), status.to_owned());
    let off = StatusGates { ready_to_start: false, ..StatusGates::default() };
    let kept = [pair("PodReadyToStartContainers", "True"), pair("Initialized", "False")];
    assert_eq!(told(off), kept);
    assert_eq!(told(StatusGates::default()), kept[1..], "the agent's own, and told no longer");
}

/// A pod may have gone while its worker's supervisor was away: it is over, and those that are known are not.
#[test]
fn what_nobody_knows_any_more_is_over() {
    let mut sync = StatusSync::default();
    let running = json!({"phase": "Running"});
    sync.seen(api_pod(1, true, &running));
    sync.own(&uid(), own(running, true));
    assert_eq!(calls(&mut sync, at(0)), []);
    sync.keep_only(&[uid()].into());
    assert_eq!(calls(&mut sync, at(1)), []);
    sync.keep_only(&BTreeSet::new());
    let [Call::Patch { body }] = &calls(&mut sync, at(2))[..] else { panic!("one patch") };
    assert_eq!(body["status"]["phase"], "Failed");
    // One that was never here may be judged yet.
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, false, &json!({"phase": "Pending"})));
    sync.keep_only(&BTreeSet::new());
    assert_eq!(calls(&mut sync, at(0)), []);
}

/// PAIN-32: the order in which calls are made, where all could be.
#[test]
fn news_go_by_how_many_wait_for_them() {
    let mut sync = StatusSync::default();
    let shown = |name: &str, version: u64, deleting: bool, status: Value| {
        let mut pod = Pod::clone(&api_pod(version, deleting, &status));
        (pod.metadata.name, pod.metadata.uid) = (Some(name.to_owned()), Some(name.to_owned()));
        Arc::new(pod)
    };
    let running = |ip: &str| json!({"phase": "Running", "hostIP": ip});
    let repair = PodUid::from("a-repair");
    sync.seen(shown("a-repair", 1, false, running("10.0.0.1")));
    sync.own(&repair, own(running("10.0.0.2"), true));
    assert_eq!(calls(&mut sync, at(0)).len(), 1);
    sync.answered(&repair, Answer::Done(Some(shown("a-repair", 2, false, running("10.0.0.2")))), at(0), 0.0);
    assert_eq!(calls(&mut sync, at(0)), []);
    sync.seen(shown("a-repair", 3, false, running("10.0.0.3")));
    sync.seen(shown("b-detail", 1, false, running("10.0.0.1")));
    sync.own(&"b-detail".into(), own(running("10.0.0.2"), true));
    sync.seen(shown("c-end", 1, true, json!({"phase": "Failed"})));
    sync.own(&"c-end".into(), own(json!({"phase": "Failed"}), false));
    sync.finished(&"c-end".into());
    sync.seen(shown("d-turn", 1, false, json!({"phase": "Pending"})));
    sync.own(&"d-turn".into(), own(json!({"phase": "Running"}), true));
    let order: Vec<PodUid> = sync.orders(at(60)).0.into_iter().map(|order| order.uid).collect();
    assert_eq!(order.iter().map(PodUid::as_str).collect::<Vec<_>>(), ["d-turn", "c-end", "b-detail", "a-repair"]);
}

/// POD-36: as of a Job that keeps what has run.
#[test]
fn a_pod_that_has_ended_and_is_not_being_deleted_stays() {
    let (mut sync, ended) = (StatusSync::default(), json!({"phase": "Succeeded"}));
    sync.seen(api_pod(1, false, &ended));
    sync.own(&uid(), own(ended.clone(), false));
    assert_eq!(calls(&mut sync, at(0)), []);
    sync.finished(&uid());
    assert_eq!(calls(&mut sync, at(60)), []);
    // Nor does one go that is deleted before all of it has.
    let mut sync = StatusSync::default();
    sync.seen(api_pod(1, true, &ended));
    sync.own(&uid(), own(ended, false));
    assert_eq!(calls(&mut sync, at(0)), []);
}

fn mirror(name: &str, version: u64, phase: &str) -> Arc<Pod> {
    let metadata = json!({"name": name, "namespace": "shop", "uid": format!("mirror-{name}"),
                          "resourceVersion": version.to_string(), "annotations": {MIRROR_ANNOTATION: "h"}});
    pod(json!({"metadata": metadata, "status": {"phase": phase}}))
}

/// POD-06: the API lets no phase go back.
#[test]
fn a_mirror_that_shows_an_end_goes_when_its_pod_lives_again() {
    for (phase, may_run, shown, goes) in [
        ("Running", true, "Failed", true),
        ("Pending", true, "Succeeded", true),
        ("Running", true, "Running", false),
        ("Running", false, "Failed", false),
        ("Failed", true, "Failed", false),
    ] {
        let mut sync = StatusSync::default();
        sync.own(&uid(), fixed("h", json!({"phase": phase}), may_run));
        sync.seen(mirror("web", 1, shown));
        assert_eq!(calls(&mut sync, at(0)) == [Call::Delete], goes, "{phase} {may_run} {shown}");
    }
}

#[test]
fn news_of_one_mirror_say_nothing_of_another() {
    let mut sync = StatusSync::default();
    for name in ["db", "web"] {
        let full_name = FullName::new(name, "shop");
        sync.own(&PodUid::from(name), Own { full_name, ..fixed("h", json!({"phase": "Running"}), true) });
        sync.seen(mirror(name, 1, "Pending"));
    }
    assert_eq!(calls(&mut sync, at(0)).len(), 2);
    for name in ["db", "web"] {
        sync.answered(&PodUid::from(name), Answer::Gone, at(1), 0.0);
    }
    sync.seen(mirror("db", 2, "Pending"));
    let again: Vec<PodUid> = sync.orders(at(2)).0.into_iter().map(|order| order.uid).collect();
    assert_eq!(again, [PodUid::from("db")]);
}

#[test]
fn a_pod_waits_for_its_turn_whatever_becomes_of_others() {
    let (mut sync, other) = two_on_their_way();
    assert!(sync.is_waiting(&other), "its status is on its way");
    sync.answered(&other, Answer::Failed(Some(at(5))), at(1), 0.0);
    assert!(sync.is_waiting(&other), "it is to be looked at");
    assert_eq!(calls(&mut sync, at(1)), []);
    assert!(sync.is_waiting(&other), "it is to be tried again");
    sync.answered(&uid(), Answer::Done(Some(api_pod(2, false, &json!({"phase": "Running"})))), at(2), 0.0);
    assert_eq!(calls(&mut sync, at(2)), []);
    assert!(!sync.is_waiting(&uid()));
    assert_eq!(calls(&mut sync, at(60)).len(), 1, "the other one is not forgotten");
}
