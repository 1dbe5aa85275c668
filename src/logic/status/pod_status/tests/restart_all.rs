//! The status of pods that start over in place (POD-18), and of ephemeral containers (POD-22). Also of pods past their
//! deadline (POD-25), and of those without their volumes (POD-16).

use k8s_openapi::api::core::v1::{
    ContainerRestartRule, ContainerRestartRuleOnExitCodes, ContainerStateTerminated, EphemeralContainer,
};

use super::*;

use crate::logic::model::start_reason::StartReason;
use ContainerState::{Exited, Running};

/// A pod whose container `b` has all start over when it ends with 42.
fn ruled(policy: &str) -> Setup {
    let mut setup = Setup::new(policy, &["i"], &["a", "b"]);
    let codes = ContainerRestartRuleOnExitCodes { operator: "In".to_owned(), values: Some(vec![42]) };
    let rule = ContainerRestartRule { action: "RestartAllContainers".to_owned(), exit_codes: Some(codes) };
    let b = &mut setup.spec().containers[1];
    (b.restart_policy, b.restart_policy_rules) = (Some("Never".to_owned()), Some(vec![rule]));
    setup
}

fn reasons(status: &PodStatus, name: &str) -> (Option<String>, Option<String>, i32) {
    let status = of(status, name);
    let waits = status.state.as_ref().and_then(|state| state.waiting.as_ref()).and_then(|one| one.reason.clone());
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    (waits, last.and_then(|last| last.reason.clone()), status.restart_count)
}

#[test]
fn a_pod_that_starts_over_says_so_and_stays_what_it_was() {
    const CONDITION: &str = "AllContainersRestarting";
    let i = instance("i", 0, Exited, 0);
    let all = vec![instance("b", 0, Running, 0), instance("a", 0, Running, 0), i.clone()];
    let mut setup = ruled("Never").holding(all);
    assert_eq!(says(&setup.step(), CONDITION), ("False", "", ""));
    // The one ends, and the others are removed.
    let source = instance("b", 0, Exited, 42);
    setup.runtime.containers = vec![source.clone(), i];
    let status = setup.step();
    let message = "container exited with restart policy rule";
    assert_eq!(says(&status, CONDITION), ("True", "RestartAllContainersStarted", message));
    assert_eq!(condition(&status, CONDITION).observed_generation, None);
    let restarting = || Some("RestartingAllContainers".to_owned());
    assert_eq!(reasons(&status, "a"), (restarting(), restarting(), 1));
    let last = of(&status, "a").last_state.as_ref().and_then(|last| last.terminated.as_ref()).expect("an end");
    let removed = "The container is removed because RestartAllContainers in place";
    assert_eq!((last.exit_code, last.message.as_deref()), (137, Some(removed)));
    assert_eq!((status.phase.as_deref(), says(&status, "Initialized").0), (Some(RUNNING), "True"));
    // Told again, it counts no further; its last state goes on telling why.
    let waits = || (Some("PodInitializing".to_owned()), restarting(), 1);
    setup.runtime.containers = vec![source];
    assert_eq!(reasons(&setup.step(), "a"), waits());
    setup.runtime.containers = vec![];
    let status = setup.step();
    assert_eq!(says(&status, CONDITION), ("False", "", ""));
    for (name, expected) in [("i", waits()), ("a", waits()), ("b", (restarting(), restarting(), 1))] {
        assert_eq!(reasons(&status, name), expected, "{name}");
    }
    assert_eq!(status.phase.as_deref(), Some(RUNNING), "it must never look finished");
    // All begins anew, and the former instance appears as the last state.
    setup.runtime.containers = vec![instance("i", 1, Running, 0)];
    let status = setup.step();
    assert_eq!(reasons(&status, "i"), (None, restarting(), 1));
    assert_eq!(reasons(&status, "a"), waits());
    assert_eq!(status.phase.as_deref(), Some(PENDING));
}

/// A sidecar may ask for it, too. All others are stopped one after the other then, and look as if they had failed until they
/// are removed.
#[test]
fn a_pod_whose_containers_are_stopped_to_start_over_has_not_failed() {
    let mut setup = ruled("Never");
    let spec = setup.spec();
    let mut source = spec.containers.remove(1);
    source.restart_policy = Some("Always".to_owned());
    spec.init_containers.get_or_insert_default().insert(0, source);
    let started = [instance("i", 0, Running, 0), instance("b", 0, Running, 0)];
    let whole = [instance("a", 0, Running, 0), instance("i", 0, Exited, 0), instance("b", 0, Running, 0)];
    for (mut all, phase) in [(started.to_vec(), PENDING), (whole.to_vec(), RUNNING)] {
        setup.previous = None;
        setup.runtime.containers = all.clone();
        setup.step();
        all.last_mut().expect("the source").exit_code = 42;
        all.iter_mut().for_each(|one| one.state = Exited);
        all[0].exit_code = 137;
        all[0].finished_at = all[0].finished_at.plus(Duration::from_secs(2));
        setup.runtime.containers = all;
        assert_eq!(setup.step().phase.as_deref(), Some(phase));
        // Deleted meanwhile: nothing starts over.
        setup.terminal = true;
        assert_eq!(setup.step().phase.as_deref(), Some(FAILED));
        setup.terminal = false;
    }
}

#[test]
fn the_condition_is_only_for_pods_with_such_a_rule() {
    let setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, Exited, 42)]);
    assert!(conditions::find(&setup.status(), "AllContainersRestarting").is_none());
    let over = ruled("Never").holding(vec![
        instance("b", 0, Exited, 1),
        instance("a", 0, Exited, 0),
        instance("i", 0, Exited, 0),
    ]);
    assert_eq!(says(&over.status(), "AllContainersRestarting"), ("False", "PodFailed", ""));
}

#[test]
fn an_ephemeral_container_has_a_status_and_counts_for_nothing() {
    let mut setup = Setup::new("Never", &[], &["a"]).holding(vec![instance("a", 0, Running, 0)]);
    let one = |name: &str| EphemeralContainer {
        name: name.to_owned(),
        image: Some("debugger".to_owned()),
        ..EphemeralContainer::default()
    };
    setup.spec().ephemeral_containers = Some(vec![one("z"), one("e")]);
    let status = setup
        .failing("z", StartReason::ErrImagePull)
        .holding(vec![instance("e", 0, Exited, 1), instance("a", 0, Running, 0)]);
    let status = status.status();
    let ephemeral = status.ephemeral_container_statuses.as_deref().expect("has them");
    let names: Vec<&str> = ephemeral.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["e", "z"]);
    let ended = ephemeral[0].state.as_ref().and_then(|state| state.terminated.as_ref());
    assert_eq!(ended.map(|ended| ended.exit_code), Some(1));
    let waits = ephemeral[1].state.as_ref().and_then(|state| state.waiting.as_ref());
    assert_eq!(waits.and_then(|waits| waits.reason.as_deref()), Some("ErrImagePull"));
    assert_eq!((status.phase.as_deref(), says(&status, "Ready")), (Some(RUNNING), ("True", "", "")));
}

/// POD-22: the state in which it waits, then the one before.
#[test]
fn an_ephemeral_container_that_could_not_be_started_waits_where_the_pods_policy_would_restart_it() {
    for (policy, waits) in [("Always", true), ("OnFailure", true), ("Never", false)] {
        let mut setup = Setup::new(policy, &[], &["a"]);
        let one =
            EphemeralContainer { name: "e".to_owned(), image: Some("i".to_owned()), ..EphemeralContainer::default() };
        setup.spec().ephemeral_containers = Some(vec![one]);
        let setup = setup.failing("e", StartReason::RunContainerError);
        let status = setup.holding(vec![instance("e", 0, Exited, 128), instance("a", 0, Running, 0)]).status();
        let told = &status.ephemeral_container_statuses.as_deref().expect("has one")[0];
        let code = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            state.as_ref()?.terminated.as_ref().map(|end| end.exit_code)
        };
        let reason = told.state.as_ref().and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        match waits {
            true => assert_eq!((reason, code(&told.last_state)), (Some("RunContainerError"), Some(128)), "{policy}"),
            false => assert_eq!((code(&told.state), code(&told.last_state)), (Some(128), None), "{policy}"),
        }
    }
}

#[test]
fn a_pod_past_its_deadline_has_failed() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Running, 0)]);
    setup.spec().active_deadline_seconds = Some(30);
    setup.runtime.sandboxes[0].created_at = at(setup.now);
    assert_eq!(setup.step().phase.as_deref(), Some(RUNNING));
    setup.now += 29;
    assert_eq!(setup.step().phase.as_deref(), Some(RUNNING));
    setup.now += 1;
    let status = setup.step();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some(FAILED), Some("DeadlineExceeded")));
    assert_eq!(setup.step().reason.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn the_deadline_is_counted_from_the_start_that_was_shown() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, Running, 0)]);
    assert_eq!(deadline(&setup.pod, &setup.status()), None);
    setup.spec().active_deadline_seconds = Some(30);
    let shown = setup.step();
    let start = moment(shown.start_time.as_ref().expect("has started"));
    assert_eq!(deadline(&setup.pod, &shown), Some(start.plus(Duration::from_secs(30))));
    assert_eq!(deadline(&setup.pod, &PodStatus::default()), None, "before its first status");
}

/// POD-16: the sandbox is made beside the volumes, and says nothing of them.
#[test]
fn a_pod_without_its_volumes_cannot_start_containers() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    setup.volumes_mounted = false;
    assert_eq!(says(&setup.status(), "PodReadyToStartContainers"), ("False", "", ""));
    setup.volumes_mounted = true;
    assert_eq!(says(&setup.status(), "PodReadyToStartContainers"), ("True", "", ""));
    // An agent that was started anew has not looked at them yet.
    setup.volumes_mounted = false;
    let setup = setup.holding(vec![instance("a", 0, ContainerState::Running, 0)]);
    assert_eq!(says(&setup.status(), "PodReadyToStartContainers"), ("True", "", ""));
}

/// The container that asked for it was removed first, and only the status tells of its end: the others are on their
/// way, too.
#[test]
fn a_pod_starts_over_while_the_end_that_asked_for_it_is_shown() {
    let i = instance("i", 0, Exited, 0);
    let all = vec![instance("b", 0, Running, 0), instance("a", 0, Running, 0), i.clone()];
    for (code, expected) in [(42, "RestartingAllContainers"), (1, "ContainerStatusUnknown")] {
        let mut setup = ruled("Never").holding(all.clone());
        let mut before = setup.status();
        let b = before.container_statuses.iter_mut().flatten().find(|one| one.name == "b").expect("has a status");
        let state = b.state.as_mut().expect("has a state");
        state.running = None;
        state.terminated = Some(ContainerStateTerminated { exit_code: code, ..ContainerStateTerminated::default() });
        setup.previous = Some(before);
        setup.runtime.containers = vec![i.clone()];
        assert_eq!(reasons(&setup.status(), "a").1.as_deref(), Some(expected), "{code}");
    }
}

#[test]
fn a_pod_that_has_ended_starts_nothing_over_and_says_so() {
    for (code, reason) in [(0, "PodCompleted"), (1, "PodFailed")] {
        let all = vec![instance("b", 0, Exited, code), instance("a", 0, Exited, 0), instance("i", 0, Exited, 0)];
        let status = ruled("Never").holding(all).status();
        assert_eq!(says(&status, "AllContainersRestarting"), ("False", reason, ""), "{:?}", status.phase);
    }
}

/// The runtime may lose one while all are removed: it did not fail by itself, and the pod starts over all the same.
#[test]
fn a_container_that_is_lost_while_all_start_over_is_one_of_them() {
    for (code, reason, phase) in [(42, "RestartingAllContainers", RUNNING), (1, "ContainerStatusUnknown", FAILED)] {
        let i = instance("i", 0, Exited, 0);
        let mut setup = ruled("Never").holding(vec![instance("b", 0, Running, 0), instance("a", 0, Running, 0), i]);
        setup.step();
        setup.runtime.containers[0] = instance("b", 0, Exited, code);
        setup.runtime.containers[1].state = ContainerState::Unknown;
        let status = setup.step();
        assert_eq!(state(&status, "a"), format!("terminated 137 {reason}"));
        assert_eq!(status.phase.as_deref(), Some(phase), "{code}");
    }
}
