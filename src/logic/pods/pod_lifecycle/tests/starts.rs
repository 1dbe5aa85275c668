//! Starts in turn: which containers wait for one another, and how a stopped container comes back.

use super::*;
use crate::logic::model::restart_policy::ALWAYS;

const NOTHING: [&str; 0] = [];

/// The pod, its first init container a sidecar.
fn with_sidecar(mut pod: Pod) -> Pod {
    let init = pod.spec.as_mut().and_then(|spec| spec.init_containers.as_mut()).expect("has init containers");
    init[0].restart_policy = Some(ALWAYS.to_owned());
    pod
}

fn unhealthy(id: &str) -> Input {
    Input::Probed { container: id.into(), kind: ProbeKind::Liveness, healthy: false }
}

/// CRI-18: the runtime is asked for one container at a time.
#[test]
fn a_container_does_not_start_while_another_one_is_being_started() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a", "b"]));
    for end in [JobEnd::Prepared(Ok(true)), image_there("a"), image_there("b")] {
        script.ends(end);
    }
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start a 0 in s0 of app:1"]);
    assert_eq!(script.step(Input::Due), NOTHING);
    assert_eq!(script.waits(), ["container a to start"]);
    assert_eq!(script.ends(started("a", "a0")), ["start b 0 in s0 of app:1"]);
}

/// POD-21.
#[test]
fn a_sidecar_that_cannot_be_started_holds_up_no_regular_container() {
    for has_image in [false, true] {
        let pod = with_sidecar(a_pod("Always", &["s", "i"], &["a"]));
        let seen = ["i", "s"].map(|name| exited(&running(&pod, name, 0), 0, BEGINNING));
        let mut script = Script::unseen(pod);
        script.elapse(600);
        assert_eq!(script.sees(&[ready(0)], &seen), ["prepare", "image s", "image a"]);
        script.ends(JobEnd::Prepared(Ok(false)));
        assert_eq!(script.ends(image_there("a")), NOTHING, "the sidecar's turn comes first");
        let started = if has_image {
            assert_eq!(script.ends(image_there("s")), ["start s 1 in s0 of app:1"]);
            assert_eq!(script.ends(start_failed("s")), ["inspect"]);
            script.sees(&[ready(0)], &seen)
        } else {
            script.ends(JobEnd::lost(Job::EnsureImage("s".to_owned()), "no registry".to_owned()))
        };
        assert_eq!(started, ["start a 0 in s0 of app:1"], "has its image: {has_image}");
    }
}

/// POD-19: the agent stopped it to start it again, so its exit code does not end the pod.
#[test]
fn a_container_that_a_probe_stops_comes_back_though_it_ends_well() {
    for is_in_back_off in [false, true] {
        let pod = a_pod("OnFailure", &[], &["a"]);
        let mut script = Script::running(pod.clone());
        let before = exited(&running(&pod, "a", 0), 1, script.moment);
        let newest = RuntimeContainer { created_at: script.moment, ..running(&pod, "a", 1) };
        script.sees(&[ready(0)], &[newest.clone(), before.clone()]);
        if is_in_back_off {
            let (app, steady) = (&pod.spec.as_ref().expect("a spec").containers[0], Steady::at(script.uptime));
            script.life.restarts.crash_loops_mut().note_start(app, Some(steady), steady);
        }
        assert_eq!(script.step(unhealthy("a1")), ["kill a1 30s"]);
        script.ends(JobEnd::Killed("a1".into(), Ok(())));
        let ended = exited(&newest, 0, script.moment);
        let mut actions = script.sees(&[ready(0)], &[ended, before]);
        if is_in_back_off {
            assert_eq!(actions, NOTHING);
            assert_eq!(script.wakes_in(), Some(10.0));
            actions = script.passes(10);
        }
        assert_eq!(actions, ["image a"], "in back-off: {is_in_back_off}");
        assert_eq!(script.life.stage(), Stage::Syncing);
    }
}

/// Only a sandbox that could never be used is made anew with a pause.
#[test]
fn a_sandbox_that_breaks_right_after_it_was_made_is_replaced_at_once() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    assert_eq!(script.sees(&[stopped(0)], &[]), ["replace [s0] 30s"]);
    script.ends(JobEnd::PodKilled(Ok(())));
    assert_eq!(script.sees(&[stopped(0)], &[]), ["sandbox 1", "prepare anew"]);
}

/// A pod that needs the pod network starts nothing without it, also in the sandbox that it has.
#[test]
fn a_container_that_ended_waits_for_the_network() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let no_network = RuntimeHealth { network_problem: Some("cni".to_owned()), ..RuntimeHealth::default() };
    assert_eq!(script.step(Input::Health(no_network)), NOTHING, "all runs");
    let ended = exited(&running(&pod, "a", 0), 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), ["network"]);
    assert_eq!(script.waits(), ["network is not ready: cni"]);
    assert_eq!(script.step(Input::Health(RuntimeHealth::default())), ["image a"]);
}

/// As upstream, stops come before starts, also before those of other containers.
#[test]
fn nothing_starts_while_a_container_is_being_stopped() {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| running(&pod, name, 0));
    let mut script = Script::running(pod);
    assert_eq!(script.step(unhealthy("a0")), ["kill a0 30s"]);
    let seen = [exited(&a, 137, script.moment), exited(&b, 1, script.moment)];
    assert_eq!(script.sees(&[ready(0)], &seen), NOTHING);
    assert_eq!(script.waits(), ["a container to stop"]);
    script.ends(JobEnd::Killed("a0".into(), Ok(())));
    assert_eq!(script.sees(&[ready(0)], &seen), ["image a", "image b"]);
}

#[test]
fn no_sandbox_is_made_while_the_one_before_is_being_stopped() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    assert_eq!(script.sees(&[stopped(0)], &[running(&pod, "a", 0)]), ["replace [a0 s0] 30s"]);
    assert_eq!(script.sees(&[], &[]), ["confirm s0 a0"]);
    assert_eq!(script.confirms(&[], &[]), NOTHING);
    assert_eq!(script.waits(), ["its containers to stop"]);
}

/// CRI-16: the log directory may know of more instances than the worker, and their count goes on after their removal.
#[test]
fn a_restart_count_that_the_logs_told_goes_on_from_there() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    for end in [JobEnd::Prepared(Ok(true)), image_there("a")] {
        script.ends(end);
    }
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start a 0 in s0 of app:1"]);
    script.ends(started("a", "a5"));
    assert_eq!(script.sees(&[ready(0)], &[]), ["confirm a5"]);
    assert_eq!(script.confirms(&[], &[]), ["image a"], "the runtime holds it no more");
    assert_eq!(script.ends(image_there("a")), ["start a 6 in s0 of app:1"]);
}

/// An instance that the runtime is just making is on no list: it would outlive a stop of all that is known.
#[test]
fn a_pod_is_replaced_only_once_no_container_is_being_made() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    for end in [JobEnd::Prepared(Ok(true)), image_there("a")] {
        script.ends(end);
    }
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start a 0 in s0 of app:1"]);
    assert_eq!(script.sees(&[stopped(0)], &[]), NOTHING);
    assert_eq!(script.waits(), ["what is being started, before all is replaced"]);
    assert_eq!(script.ends(started("a", "a0")), ["replace [a0 s0] 30s"]);
}
