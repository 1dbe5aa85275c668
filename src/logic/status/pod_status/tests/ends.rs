//! The status of pods that end, or never begin.

use k8s_openapi::api::core::v1::ContainerStateTerminated;

use super::*;

use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::start_reason::StartReason;
use ContainerState::{Exited, Running};

#[test]
fn a_rejected_pod_says_why_and_nothing_else() {
    let setup = Setup::new("Always", &[], &["a"]);
    let status = rejected_status(&setup.pod, &AdmissionReason::OutOf("cpu".to_owned()), "no cpu", "Burstable", at(NOW));
    let expected = PodStatus {
        phase: Some(FAILED.to_owned()),
        reason: Some("OutOfcpu".to_owned()),
        message: Some("Pod was rejected: no cpu".to_owned()),
        qos_class: Some("Burstable".to_owned()),
        start_time: Some(time(at(NOW))),
        observed_generation: Some(3),
        ..PodStatus::default()
    };
    assert_eq!(status, expected);
}

#[test]
fn a_phase_is_final_once_all_has_ended_well_or_badly() {
    let found: Vec<&str> =
        [PENDING, RUNNING, SUCCEEDED, FAILED, "Unknown", ""].into_iter().filter(|phase| is_terminal(phase)).collect();
    assert_eq!(found, [SUCCEEDED, FAILED]);
}

/// POD-37.
#[test]
fn an_end_has_its_times_and_an_unseen_one_says_so() {
    let mut setup = Setup::new("Never", &[], &["a", "b"]);
    let (exited, lost) = (instance("a", 0, Exited, 3), instance("b", 0, Running, 0));
    setup.runtime.containers = vec![exited.clone(), lost];
    let end = |status: &PodStatus, name: &str| {
        of(status, name).state.clone().and_then(|state| state.terminated).expect("an end")
    };
    let seen = end(&setup.step(), "a");
    assert_eq!(seen.started_at, Some(time(exited.started_at)));
    assert_eq!(seen.finished_at, Some(time(exited.finished_at)));
    setup.runtime.containers[1].state = ContainerState::Unknown;
    let unseen = end(&setup.step(), "b");
    assert_eq!((unseen.exit_code, unseen.reason.as_deref()), (137, Some("ContainerStatusUnknown")));
    let message = "The container could not be located when the pod was terminated";
    assert_eq!(unseen.message.as_deref(), Some(message));
}

/// Its init containers may run again in place, as after a restart of all.
#[test]
fn a_pod_whose_regular_container_has_started_is_initialised() {
    for container in [instance("a", 0, Running, 0), instance("a", 0, Exited, 1)] {
        let again = vec![container, instance("i", 1, Running, 0)];
        let status = Setup::new("Always", &["i"], &["a"]).holding(again).status();
        assert_eq!(says(&status, "Initialized").0, "True", "{:?}", of(&status, "a").state);
    }
    let only = Setup::new("Always", &["i"], &["a"]).holding(vec![instance("i", 1, Running, 0)]).status();
    assert_eq!(says(&only, "Initialized").0, "False");
}

/// A failed start had moved its own end to the last state; how the instance before it ended is older.
#[test]
fn a_lost_container_keeps_its_own_end_as_its_last_state() {
    let ended = |id: &str, exit_code: i32, reason: &str| ContainerStateTerminated {
        container_id: Some(id.to_owned()).filter(|id| !id.is_empty()),
        exit_code,
        reason: Some(reason.to_owned()),
        ..ContainerStateTerminated::default()
    };
    for (last, expected) in [
        (ended("containerd://a1", 9, "Error"), "terminated 9 Error"),
        (ended("", 137, "ContainerStatusUnknown"), "terminated 137 ContainerStatusUnknown"),
        (ended("containerd://a0", 8, "Error"), "terminated 5 Error"),
    ] {
        let held = vec![instance("a", 1, ContainerState::Unknown, 0), instance("a", 0, Exited, 5)];
        let mut setup = Setup::new("Always", &[], &["a"]).holding(held);
        let mut before = setup.status();
        let a = &mut before.container_statuses.as_mut().expect("statuses")[0];
        let state = a.last_state.get_or_insert_default();
        state.terminated = Some(last);
        setup.previous = Some(before);
        assert_eq!(last_state(&setup.status(), "a"), expected);
    }
}

/// PAIN-11.
#[test]
fn a_problem_is_told_in_one_condition_alone() {
    let mut status = Setup::new("Always", &[], &["a"]).status();
    let problem = Some("waits for its cgroup".to_owned());
    set_problem(&mut status, StatusGates::default(), problem.clone());
    for condition in status.conditions.iter().flatten() {
        assert_eq!(condition.message == problem, condition.type_ == "PodReadyToStartContainers", "{condition:?}");
    }
}

/// POD-16, PAIN-11: the condition is another's then, which stays as the API has it.
#[test]
fn without_its_gate_the_condition_of_the_sandbox_is_not_told() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    setup.gates.ready_to_start = false;
    let kinds = |status: &PodStatus| -> Vec<String> {
        status.conditions.iter().flatten().map(|condition| condition.type_.clone()).collect()
    };
    assert_eq!(kinds(&setup.status()), ["Initialized", "Ready", "ContainersReady", "PodScheduled"]);
    let other = PodCondition { type_: "PodReadyToStartContainers".to_owned(), ..PodCondition::default() };
    setup.pod.status = Some(PodStatus { conditions: Some(vec![other.clone()]), ..PodStatus::default() });
    let mut status = setup.status();
    set_problem(&mut status, setup.gates, Some("waits for its cgroup".to_owned()));
    assert_eq!(condition(&status, "PodReadyToStartContainers"), &other);
}

#[test]
fn what_keeps_a_container_from_starting_again_leaves_how_it_ended() {
    let setup = Setup::new("Always", &["i"], &["a"]).holding(vec![instance("i", 0, Exited, 9)]);
    let mut setup = setup.failing("i", StartReason::CrashLoopBackOff);
    let status = setup.step();
    assert_eq!(
        (state(&status, "i"), last_state(&status, "i")),
        ("waiting CrashLoopBackOff".into(), "terminated 9 Error".into())
    );
    setup.runtime.containers.clear();
    let status = setup.step();
    assert_eq!(
        (state(&status, "i"), last_state(&status, "i")),
        ("waiting CrashLoopBackOff".into(), "terminated 9 Error".into())
    );
}

#[test]
fn a_new_sandbox_without_an_address_is_not_said_to_have_the_former_ones() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    assert_eq!(setup.step().pod_ip.as_deref(), Some("10.0.0.9"));
    setup.runtime.sandboxes = vec![RuntimeSandbox { ips: vec![], ..sandbox(SandboxState::Ready) }];
    assert_eq!(setup.step().pod_ip, None);
}
