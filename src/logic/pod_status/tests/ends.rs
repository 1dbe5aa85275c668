//! The status of pods that end, or never begin.

use super::*;
use ContainerState::{Exited, Running};

#[test]
fn a_rejected_pod_says_why_and_nothing_else() {
    let scene = Scene::new("Always", &[], &["a"]);
    let status = rejected_status(&scene.pod, "OutOfcpu", "no cpu", "Burstable", at(NOW));
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
    let mut scene = Scene::new("Never", &[], &["a", "b"]);
    let (exited, lost) = (instance("a", 0, Exited, 3), instance("b", 0, Running, 0));
    scene.runtime.containers = vec![exited.clone(), lost];
    let end = |status: &PodStatus, name: &str| {
        of(status, name).state.clone().and_then(|state| state.terminated).expect("an end")
    };
    let seen = end(&scene.step(), "a");
    assert_eq!(seen.started_at, Some(time(exited.started_at)));
    assert_eq!(seen.finished_at, Some(time(exited.finished_at)));
    scene.runtime.containers[1].state = ContainerState::Unknown;
    let unseen = end(&scene.step(), "b");
    assert_eq!((unseen.exit_code, unseen.reason.as_deref()), (137, Some("ContainerStatusUnknown")));
    let message = "The container could not be located when the pod was terminated";
    assert_eq!(unseen.message.as_deref(), Some(message));
}

/// Its init containers may run again in place, as after a restart of all.
#[test]
fn a_pod_whose_regular_container_has_started_is_initialised() {
    for container in [instance("a", 0, Running, 0), instance("a", 0, Exited, 1)] {
        let again = vec![container, instance("i", 1, Running, 0)];
        let status = Scene::new("Always", &["i"], &["a"]).holding(again).status();
        assert_eq!(says(&status, "Initialized").0, "True", "{:?}", of(&status, "a").state);
    }
    let only = Scene::new("Always", &["i"], &["a"]).holding(vec![instance("i", 1, Running, 0)]).status();
    assert_eq!(says(&only, "Initialized").0, "False");
}
