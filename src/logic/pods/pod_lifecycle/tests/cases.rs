//! Cases of a pod that is to run.

use k8s_openapi::api::core::v1::{ContainerState as ApiState, ContainerStateTerminated, ContainerStatus, PodStatus};

use super::*;
use crate::logic::images::image_policy::ImageFailure;
use crate::logic::model::start_reason::StartReason;

const NOTHING: [&str; 0] = [];

/// POD-13.
#[test]
fn images_and_sandbox_begin_side_by_side() {
    let (_, actions) = Script::new(a_pod("Always", &[], &["a", "b"]));
    assert_eq!(actions, ["sandbox 0", "prepare anew", "image a", "image b"]);
}

/// CRI-18.
#[test]
fn containers_start_in_the_specs_order_whatever_is_ready_first() {
    let pod = a_pod("Always", &[], &["b", "a"]);
    let (mut script, _) = Script::new(pod.clone());
    script.ends(JobEnd::Prepared(Ok(true)));
    assert_eq!(script.ends(image_there("a")), NOTHING);
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), NOTHING);
    assert_eq!(script.ends(image_there("b")), ["start b 0 in s0 of app:1"]);
    assert_eq!(script.ends(started("b", "b0")), ["start a 0 in s0 of app:1"]);
    // All is done: what was done is confirmed by one look, and then there is peace.
    assert_eq!(script.ends(started("a", "a0")), ["inspect soon"]);
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0), running(&pod, "b", 0)]), NOTHING);
    assert_eq!(script.passes(60), NOTHING);
    assert_eq!(script.wakes_in(), None);
}

#[test]
fn an_init_container_that_does_not_start_holds_up_the_rest() {
    let pod = a_pod("Always", &["i"], &["a"]);
    let (mut script, actions) = Script::new(pod.clone());
    assert_eq!(actions, ["sandbox 0", "prepare anew", "image i"]);
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("i"));
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start i 0 in s0 of app:1"]);
    assert_eq!(script.ends(start_failed("i")), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[]), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    // The image may be what was wrong: it is looked for again.
    assert_eq!(script.passes(10), ["image i"]);
    assert_eq!(script.ends(image_there("i")), ["start i 0 in s0 of app:1"]);
    script.ends(started("i", "i0"));
    let done = exited(&running(&pod, "i", 0), 0, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[done]), ["image a"]);
}

#[test]
fn a_failed_regular_container_does_not_hold_up_the_next() {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let (mut script, _) = Script::new(pod.clone());
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("a"));
    script.ends(image_there("b"));
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start a 0 in s0 of app:1"]);
    assert_eq!(script.ends(start_failed("a")), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[]), ["start b 0 in s0 of app:1"]);
    assert_eq!(script.life.start_errors()["a"].reason, StartReason::RunContainerError);
}

#[test]
fn an_image_that_cannot_be_had_does_not_hold_up_the_next_and_is_tried_when_it_says() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a", "b"]));
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    let retry_after = Some(Duration::from_secs(40));
    let failure =
        ImageFailure { reason: Some(StartReason::ImagePullBackOff), message: "back-off".to_owned(), retry_after };
    assert_eq!(script.ends(JobEnd::ImageEnsured("a".to_owned(), Err(failure))), NOTHING);
    assert_eq!(script.wakes_in(), Some(40.0));
    assert_eq!(script.ends(image_there("b")), ["start b 0 in s0 of app:1"]);
    assert_eq!(script.life.start_errors()["a"].reason, StartReason::ImagePullBackOff);
    assert_eq!(script.passes(39), NOTHING);
    assert_eq!(script.passes(1), ["image a"]);
}

#[test]
fn an_adopted_pod_is_only_prepared() {
    let pod = a_pod("Always", &["i"], &["a", "b"]);
    let mut script = Script::unseen(pod.clone());
    let init = exited(&running(&pod, "i", 0), 0, BEGINNING);
    let seen = [running(&pod, "a", 0), running(&pod, "b", 3), init];
    assert_eq!(script.sees(&[ready(0)], &seen), ["prepare"]);
    assert_eq!(script.ends(JobEnd::Prepared(Ok(false))), NOTHING);
    assert_eq!(script.passes(60), NOTHING);
}

#[test]
fn an_adopted_pod_whose_cgroup_was_gone_is_replaced_once() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let container = running(&pod, "a", 0);
    script.sees(&[ready(0)], std::slice::from_ref(&container));
    assert_eq!(script.ends(JobEnd::Prepared(Ok(true))), ["replace [a0 s0] 30s"]);
    assert_eq!(script.ends(JobEnd::PodKilled(Ok(()))), ["inspect"]);
    let ended = exited(&container, 137, script.moment);
    let again = script.sees(&[stopped(0)], std::slice::from_ref(&ended));
    assert_eq!(again, ["sandbox 1", "prepare anew", "image a"], "what took the sandbox may have taken the cgroup");
    assert_eq!(script.ends(JobEnd::Prepared(Ok(true))), NOTHING);
    script.ends(image_there("a"));
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(1)))), ["start a 1 in s1 of app:1"]);
    script.ends(started("a", "a1"));
    assert_eq!(script.sees(&[ready(1), stopped(0)], &[running(&pod, "a", 1), ended]), NOTHING);
}

#[test]
fn a_broken_sandbox_is_cleared_away_before_the_next_attempt() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let container = running(&pod, "a", 0);
    assert_eq!(script.sees(&[stopped(0)], std::slice::from_ref(&container)), ["replace [a0 s0] 30s"]);
    script.ends(JobEnd::PodKilled(Ok(())));
    let ended = exited(&container, 137, script.moment);
    let again = script.sees(&[stopped(0)], std::slice::from_ref(&ended));
    assert_eq!(again, ["sandbox 1", "prepare anew", "image a"]);
    // Another look at the same before the sandbox is there changes nothing.
    assert_eq!(script.sees(&[stopped(0)], &[ended]), NOTHING);
}

#[test]
fn a_sandbox_seen_while_it_is_made_is_not_cleared_away() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("a"));
    assert_eq!(script.sees(&[stopped(0)], &[]), NOTHING);
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start a 0 in s0 of app:1"]);
}

#[test]
fn a_sandbox_seen_before_its_job_ends_is_counted_once() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    script.ends(JobEnd::Prepared(Ok(true)));
    script.sees(&[ready(0)], &[]);
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    assert_eq!(script.ends(image_there("a")), ["start a 0 in s0 of app:1"]);
}

#[test]
fn a_sandbox_without_an_address_is_not_made_anew_without_a_pause() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("a"));
    let bare = RuntimeSandbox { ips: vec![], lacks_address: true, ..ready(0) };
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(bare))), ["replace [s0] 30s"]);
    script.ends(JobEnd::PodKilled(Ok(())));
    assert_eq!(script.sees(&[stopped(0)], &[]), ["prepare anew"]);
    assert_eq!(script.ends(JobEnd::Prepared(Ok(true))), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.passes(10), ["sandbox 1"]);
}

#[test]
fn a_container_seen_before_its_job_ends_keeps_what_was_seen() {
    let pod = a_pod("Always", &[], &["a"]);
    let (mut script, _) = Script::new(pod.clone());
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("a"));
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    let ended = exited(&running(&pod, "a", 0), 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), NOTHING);
    assert_eq!(script.ends(started("a", "a0")), ["image a"]);
    let seen = script.life.observed().expect("was seen").container("a").expect("is there").clone();
    assert_eq!((seen.state, seen.restart_count), (ContainerState::Exited, 0));
    assert_eq!(script.ends(image_there("a")), ["start a 1 in s0 of app:1"]);
}

#[test]
fn a_start_that_failed_is_looked_at_before_it_is_tried_again() {
    let pod = a_pod("Always", &[], &["a"]);
    let (mut script, _) = Script::new(pod.clone());
    let before = script.look(&[ready(0)], &[]);
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("a"));
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    assert_eq!(script.ends(start_failed("a")), ["inspect"]);
    // Neither an old look nor another job's end stands in for the new one.
    assert_eq!(script.step(Input::Observed(before)), NOTHING);
    assert_eq!(script.passes(20), ["inspect"]);
    // It runs after all.
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), NOTHING);
    assert_eq!(script.passes(60), NOTHING);
}

/// POD-23, POD-19: what ran and was ended for its hook's failure is started again as any other end allows, the first time
/// at once; what could not be started is tried again after the pause of failures.
#[test]
fn a_container_whose_start_hook_failed_waits_by_its_back_off_alone() {
    for (reason, is_started) in [(StartReason::PostStartHookError, true), (StartReason::RunContainerError, false)] {
        let pod = a_pod("Always", &[], &["a"]);
        let (mut script, _) = Script::new(pod.clone());
        script.sees(&[ready(0)], &[]);
        script.ends(JobEnd::Prepared(Ok(true)));
        script.ends(image_there("a"));
        let failure = StartFailure { reason, message: "it failed".to_owned() };
        assert_eq!(script.ends(JobEnd::Started("a".to_owned(), Err(failure))), ["inspect"]);
        let ended = exited(&running(&pod, "a", 0), 137, script.moment);
        script.sees(&[ready(0)], &[ended]);
        let began = script.ends(image_there("a"));
        assert_eq!(began == ["start a 1 in s0 of app:1"], is_started, "{reason}: {began:?}");
    }
}

/// A pod whose new worker finds a container that was made and does not run.
fn half_made() -> (Script, Pod, RuntimeContainer) {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let mut script = Script::unseen(pod.clone());
    let made = RuntimeContainer { state: ContainerState::Created, ..running(&pod, "a", 0) };
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&made)), ["prepare", "image b"]);
    script.ends(JobEnd::Prepared(Ok(false)));
    (script, pod, made)
}

#[test]
fn a_container_that_was_only_made_goes_once_it_cannot_start_any_more_and_is_no_restart() {
    let (mut script, pod, made) = half_made();
    assert_eq!(script.wakes_in(), Some(10.0));
    // The others of the pod do not wait for it.
    assert_eq!(script.ends(image_there("b")), ["start b 0 in s0 of app:1"]);
    script.ends(started("b", "b0"));
    let others = [made, running(&pod, "b", 0)];
    assert_eq!(script.sees(&[ready(0)], &others), NOTHING);
    assert_eq!(script.passes(9), NOTHING);
    assert_eq!(script.passes(1), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &others), ["remove a0"]);
    assert_eq!(script.ends(JobEnd::Removed(Ok(()))), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &others[1..]), ["image a"]);
    assert_eq!(script.ends(image_there("a")), ["start a 0 in s0 of app:1"]);
}

#[test]
fn a_container_that_was_made_and_starts_late_stays() {
    let (mut script, pod, made) = half_made();
    assert_eq!(script.passes(10), ["inspect"]);
    let seen = [RuntimeContainer { state: ContainerState::Running, ..made }, running(&pod, "b", 0)];
    assert_eq!(script.sees(&[ready(0)], &seen), NOTHING);
    assert_eq!(script.passes(100), NOTHING);
}

#[test]
fn what_was_made_in_a_sandbox_that_is_over_goes_at_once() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let made = RuntimeContainer { state: ContainerState::Created, ..running(&pod, "a", 0) };
    assert_eq!(script.sees(&[stopped(0)], std::slice::from_ref(&made)), ["replace [s0] 30s"]);
    script.ends(JobEnd::PodKilled(Ok(())));
    let actions = script.sees(&[stopped(0)], std::slice::from_ref(&made));
    assert!(actions.contains(&"remove a0".to_owned()), "{actions:?}");
}

#[test]
fn the_end_of_one_job_does_not_make_a_look_from_before_another_fresh() {
    let pod = a_pod("Always", &["i"], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let old = [exited(&running(&pod, "i", 1), 1, BEGINNING), exited(&running(&pod, "i", 0), 1, BEGINNING)];
    script.elapse(100);
    assert_eq!(script.sees(&[ready(0)], &old), ["remove i0", "prepare", "image i"]);
    script.ends(JobEnd::Prepared(Ok(false)));
    assert_eq!(script.ends(image_there("i")), ["start i 2 in s0 of app:1"]);
    assert_eq!(script.ends(JobEnd::Removed(Ok(()))), ["inspect"]);
    // The container removed is still in the old look: it is not removed again.
    assert_ne!(script.ends(started("i", "i2")), ["remove i0"]);
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "i", 2), old[0].clone()]), NOTHING);
}

/// CRI-30.
#[test]
fn an_old_look_never_takes_the_place_of_a_newer_one() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let old = script.look(&[ready(0)], &[running(&pod, "a", 0)]);
    let ended = exited(&running(&pod, "a", 0), 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), ["image a"]);
    script.step(Input::Observed(old));
    assert_eq!(script.ends(image_there("a")), ["start a 1 in s0 of app:1"]);
}

#[test]
fn a_look_that_never_comes_is_asked_for_again() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    assert_eq!(script.step(Input::Health(RuntimeHealth::default())), NOTHING);
    assert_eq!(script.passes(60), ["inspect"]);
    assert_eq!(script.step(Input::Health(RuntimeHealth::default())), NOTHING);
    assert_eq!(script.passes(60), ["inspect"]);
}

#[test]
fn a_look_that_nobody_had_room_for_is_asked_for_with_the_next_step() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    script.life.look_refused();
    assert_eq!(script.step(Input::Health(RuntimeHealth::default())), ["inspect"]);
    assert_eq!(script.step(Input::Health(RuntimeHealth::default())), NOTHING);
}

#[test]
fn a_look_asked_for_too_early_is_asked_for_again_at_once() {
    let pod = a_pod("Always", &["i"], &["a"]);
    let old = [exited(&running(&pod, "i", 1), 1, BEGINNING), exited(&running(&pod, "i", 0), 1, BEGINNING)];
    let seen = [running(&pod, "a", 0), old[0].clone(), old[1].clone()];
    let mut script = Script::unseen(pod);
    assert_eq!(script.sees(&[ready(0)], &seen), ["remove i0", "prepare"]);
    let (container, kind) = (ContainerId::from("a0"), ProbeKind::Liveness);
    assert_eq!(script.step(Input::Probed { container, kind, healthy: false }), ["kill a0 30s"]);
    assert_eq!(script.ends(JobEnd::Killed("a0".into(), Ok(()))), ["inspect"]);
    let answer = script.look(&[ready(0)], &seen);
    assert_eq!(script.ends(JobEnd::Removed(Ok(()))), ["inspect"]);
    assert_eq!(script.step(Input::Observed(answer)), NOTHING);
}

#[test]
fn a_container_of_an_old_definition_is_stopped_and_started_of_the_new_image() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let newer = with_image(pod.clone(), "a", "app:2");
    assert_eq!(script.step(Input::Spec(Arc::new(newer))), ["kill a0 30s"]);
    assert_eq!(script.ends(JobEnd::Killed("a0".into(), Ok(()))), ["inspect"]);
    let ended = exited(&running(&pod, "a", 0), 137, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), ["image a"]);
}

#[test]
fn an_image_of_an_old_definition_is_not_used() {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let (mut script, _) = Script::new(pod.clone());
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("a"));
    // One was there already, the other is being fetched.
    let newer = with_image(with_image(pod.clone(), "a", "app:2"), "b", "app:2");
    let expected = ["cancel EnsureImage(\"b\")", "image a", "image b"];
    assert_eq!(script.step(Input::Spec(Arc::new(newer))), expected);
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), NOTHING);
}

/// A postStart hook is not cut off by a restart; stops of other containers do not wait for it.
#[test]
fn a_container_whose_hook_runs_is_stopped_after_it() {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let (mut script, _) = Script::new(pod.clone());
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("a"));
    script.ends(image_there("b"));
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    assert_eq!(script.ends(started("a", "a0")), ["start b 0 in s0 of app:1"]);
    let both = [running(&pod, "a", 0), running(&pod, "b", 0)];
    assert_eq!(script.sees(&[ready(0)], &both), NOTHING);
    let fails = |container: &str| {
        let (container, kind) = (ContainerId::from(container), ProbeKind::Liveness);
        Input::Probed { container, kind, healthy: false }
    };
    assert_eq!(script.step(fails("b0")), NOTHING);
    let told = script.waits();
    assert!(told.contains(&"container b to have started, before it is stopped".to_owned()), "{told:?}");
    assert_eq!(script.step(fails("a0")), ["kill a0 30s"]);
    script.ends(JobEnd::Killed("a0".into(), Ok(())));
    script.ends(started("b", "b0"));
    let ended = exited(&both[0], 137, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended, both[1].clone()]), ["kill b0 30s"]);
}

#[test]
fn a_container_that_the_runtime_cannot_stop_says_why_until_it_is_gone() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let (container, kind) = (ContainerId::from("a0"), ProbeKind::Liveness);
    assert_eq!(script.step(Input::Probed { container, kind, healthy: false }), ["kill a0 30s"]);
    script.ends(JobEnd::Killed("a0".into(), Err("device busy".to_owned())));
    script.sees(&[ready(0)], &[running(&pod, "a", 0)]);
    let told = script.waits();
    assert_eq!(told, ["a container to stop: device busy, to be tried again"]);
    let ended = exited(&running(&pod, "a", 0), 137, script.moment);
    script.sees(&[ready(0)], &[ended]);
    assert!(!script.waits().iter().any(|wait| wait.contains("device busy")), "it has stopped");
}

#[test]
fn a_container_that_the_runtime_does_not_stop_is_stopped_again_after_a_pause() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let (container, kind) = (ContainerId::from("a0"), ProbeKind::Liveness);
    assert_eq!(script.step(Input::Probed { container, kind, healthy: false }), ["kill a0 30s"]);
    script.ends(JobEnd::Killed("a0".into(), Ok(())));
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.passes(10), ["kill a0 30s"]);
}

#[test]
fn without_a_network_only_pods_on_the_nodes_network_begin() {
    let problem = Some("cni config uninitialized".to_owned());
    let health = RuntimeHealth { runtime_problem: None, network_problem: problem, ..RuntimeHealth::default() };
    for (host_network, expected) in [(false, vec!["network"]), (true, vec!["sandbox 0", "prepare anew", "image a"])] {
        let mut pod = a_pod("Always", &[], &["a"]);
        pod.spec.as_mut().expect("has a spec").host_network = Some(host_network);
        let mut script = Script::unseen(pod);
        script.step(Input::Health(health.clone()));
        assert_eq!(script.sees(&[], &[]), expected);
        assert_eq!(script.wakes_in(), (!host_network).then_some(1.0));
    }
}

#[test]
fn while_the_runtime_is_unwell_nothing_is_begun() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    let unwell =
        RuntimeHealth { runtime_problem: Some("gone".to_owned()), network_problem: None, ..RuntimeHealth::default() };
    assert_eq!(script.step(Input::Health(unwell)), NOTHING);
    assert_eq!(script.sees(&[], &[]), NOTHING);
    assert_eq!(script.step(Input::Health(RuntimeHealth::default())), ["sandbox 0", "prepare anew", "image a"]);
}

/// POD-21: an instance that was removed before the agent started counts, if the API server has heard of it.
#[test]
fn restarts_are_counted_on_from_what_was_told() {
    let told = |restart_count: i32, has_run: bool| {
        let ended = ContainerStateTerminated { exit_code: 1, ..ContainerStateTerminated::default() };
        let last_state = ApiState { terminated: has_run.then_some(ended), ..ApiState::default() };
        let status = ContainerStatus { name: "a".to_owned(), restart_count, ..ContainerStatus::default() };
        ContainerStatus { last_state: Some(last_state), ..status }
    };
    for (told, expected) in [(told(0, false), 0), (told(0, true), 1), (told(4, false), 5), (told(-1, true), 1)] {
        let mut pod = a_pod("Always", &[], &["a"]);
        pod.status = Some(PodStatus { container_statuses: Some(vec![told.clone()]), ..PodStatus::default() });
        let (mut script, _) = Script::new(pod);
        script.ends(JobEnd::Prepared(Ok(true)));
        script.ends(image_there("a"));
        let start = format!("start a {expected} in s0 of app:1");
        assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), [start], "{told:?}");
    }
}

/// POD-11.
#[test]
fn what_fails_before_the_sandbox_is_tried_again_after_ten_seconds() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    script.ends(image_there("a"));
    assert_eq!(script.ends(JobEnd::lost(Job::SetUpSandbox, "no network".to_owned())), ["inspect"]);
    assert_eq!(script.sees(&[], &[]), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.passes(10), ["sandbox 0"]);
    assert_eq!(script.ends(JobEnd::lost(Job::Prepare, "no space".to_owned())), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.passes(10), ["prepare anew"]);
}

/// POD-11: without a container nobody saw to it that the cgroup was set, whoever made it.
#[test]
fn a_container_waits_for_its_pods_cgroup_and_its_sandbox_does_not() {
    let (mut script, actions) = Script::new(a_pod("Always", &[], &["a"]));
    assert_eq!(actions, ["sandbox 0", "prepare anew", "image a"]);
    script.ends(image_there("a"));
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), NOTHING);
    assert_eq!(script.waits(), ["the pod's cgroup"]);
    assert_eq!(script.ends(JobEnd::lost(Job::Prepare, "busy".to_owned())), ["inspect soon"]);
    assert_eq!(script.passes(10), ["prepare anew"]);
    assert_eq!(script.ends(JobEnd::Prepared(Ok(true))), ["start a 0 in s0 of app:1"]);
}

/// One that systemd made by itself, for the sandbox, would be stopped early when the node shuts down.
#[test]
fn a_sandbox_waits_for_its_pods_slice() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    script.life = script.life.with_cgroup_driver(CgroupDriver::Systemd);
    assert_eq!(script.sees(&[], &[]), ["prepare anew", "image a"]);
    assert_eq!(script.ends(JobEnd::Prepared(Ok(true))), ["sandbox 0"]);
}

/// A sandbox that is in vain for want of a cgroup is not made again and again.
#[test]
fn a_sandbox_waits_for_a_cgroup_that_could_not_be_made() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    assert_eq!(script.ends(JobEnd::lost(Job::SetUpSandbox, "no network".to_owned())), ["inspect"]);
    assert_eq!(script.sees(&[], &[]), NOTHING);
    script.elapse(5);
    assert_eq!(script.ends(JobEnd::lost(Job::Prepare, "no space".to_owned())), NOTHING);
    assert_eq!(script.passes(5), NOTHING);
    assert_eq!(script.passes(5), ["sandbox 0", "prepare anew"]);
}

#[test]
fn init_containers_of_a_former_sandbox_go_before_the_next_is_made() {
    let pod = a_pod("Always", &["i"], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let seen = [exited(&running(&pod, "a", 0), 137, BEGINNING), exited(&running(&pod, "i", 0), 0, BEGINNING)];
    assert_eq!(script.sees(&[stopped(0)], &seen), ["replace [s0] 30s"]);
    script.ends(JobEnd::PodKilled(Ok(())));
    assert_eq!(script.sees(&[stopped(0)], &seen), ["remove i0", "prepare anew", "image i"]);
    assert_eq!(script.ends(JobEnd::Prepared(Ok(true))), NOTHING);
    assert_eq!(script.ends(JobEnd::Removed(Ok(()))), ["inspect"]);
    assert_eq!(script.sees(&[stopped(0)], &seen[..1]), ["sandbox 1"]);
}

/// Has the liveness probe of the newest instance fail now, `after` seconds into its run, and lets it be stopped; says after
/// how many seconds the next one starts.
fn is_killed(
    script: &mut Script,
    pod: &Pod,
    restart_count: u32,
    before: &mut Vec<RuntimeContainer>,
    after: u64,
) -> f64 {
    script.passes(after);
    let id = ContainerId::from(format!("a{restart_count}"));
    let probed = Input::Probed { container: id.clone(), kind: ProbeKind::Liveness, healthy: false };
    assert_eq!(script.step(probed), [format!("kill {id} 30s")]);
    assert_eq!(script.ends(JobEnd::Killed(id, Ok(()))), ["inspect"]);
    before.insert(0, exited(&running(pod, "a", restart_count), 137, script.moment));
    let actions = script.sees(&[ready(0)], before);
    let wait = if actions == ["image a"] { 0.0 } else { script.wakes_in().expect("it waits") };
    if wait > 0.0 {
        assert_eq!(script.passes(wait as u64), ["image a"]);
    }
    let next = restart_count + 1;
    assert_eq!(script.ends(image_there("a")), [format!("start a {next} in s0 of app:1")]);
    script.ends(started("a", &format!("a{next}")));
    let now = [&[running(pod, "a", next)], &before[..]].concat();
    assert_eq!(script.sees(&[ready(0)], &now), NOTHING);
    wait
}

/// POD-19: what a probe stops is started in the same pass, as the end of the instance before allows; its own end counts only
/// where that one does not allow it.
#[test]
fn a_container_that_a_probe_stops_starts_by_the_end_of_the_instance_before() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let mut ended = vec![];
    // Runs of 30 s: no entry, then 10 s, 20 s are over by the next end, 40 s are not: those begin with its own end.
    let waits: Vec<f64> = (0..6).map(|count| is_killed(&mut script, &pod, count, &mut ended, 30)).collect();
    assert_eq!(waits, [0.0, 0.0, 0.0, 0.0, 40.0, 80.0]);
    // A run that is shorter than the back-off counts like any other end.
    assert!(is_killed(&mut script, &pod, 6, &mut ended, 5) > 0.0);
}

/// A runtime may say anything: there is no attempt after the last one, but the pod is not stopped for ever.
#[test]
fn a_sandbox_of_the_last_attempt_that_can_be_told_is_replaced() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let last = stopped(u32::MAX);
    let words = script.sees(std::slice::from_ref(&last), &[running(&pod, "a", 0)]);
    assert_eq!(words, [format!("replace [a0 s{}] 30s", u32::MAX)]);
    script.ends(JobEnd::PodKilled(Ok(())));
    let ended = exited(&running(&pod, "a", 0), 137, script.moment);
    let words = script.sees(&[last], &[ended]);
    assert!(words.contains(&format!("sandbox {}", u32::MAX)), "{words:?}");
}
