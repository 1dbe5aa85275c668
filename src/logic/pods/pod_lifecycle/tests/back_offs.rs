//! Cases of rests between the crashes of a container.

use super::*;

const NOTHING: [&str; 0] = [];

/// Ends the container's newest instance now; says after how many seconds its next start begins.
fn crash(script: &mut Script, pod: &Pod, restart_count: u32) -> f64 {
    let instance = RuntimeContainer { created_at: script.moment, ..running(pod, "a", restart_count) };
    let ended = exited(&instance, 1, script.moment);
    // The one before was removed by the collector of dead containers.
    let mut actions = script.sees(&[ready(0)], &[ended]);
    if restart_count > 0 {
        assert_eq!(actions, [format!("confirm a{}", restart_count - 1)]);
        actions = script.confirms(&[], &[]);
    }
    let wait = script.wakes_in().unwrap_or(0.0);
    if wait > 0.0 {
        assert_eq!(actions, NOTHING);
        assert_eq!(script.life.start_errors()["a"].reason, StartReason::CrashLoopBackOff);
        assert_eq!(script.passes(wait as u64 - 1), NOTHING);
        assert_eq!(script.passes(1), ["image a"]);
    } else {
        assert_eq!(actions, ["image a"]);
    }
    let next = restart_count + 1;
    assert_eq!(script.ends(image_there("a")), [format!("start a {next} in s0 of app:1")]);
    script.ends(started("a", &format!("a{next}")));
    wait
}

#[test]
fn a_container_that_crashes_again_and_again_waits_longer_and_longer() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let waits: Vec<f64> = (0..8).map(|count| crash(&mut script, &pod, count)).collect();
    assert_eq!(waits, [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
}

#[test]
fn a_new_image_starts_the_back_off_over() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    for count in 0..4 {
        crash(&mut script, &pod, count);
    }
    let ended = exited(&running(&pod, "a", 4), 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), ["confirm a3"]);
    assert_eq!(script.confirms(&[], &[]), NOTHING);
    assert_eq!(script.wakes_in(), Some(80.0));
    let newer = with_image(pod, "a", "app:2");
    assert_eq!(script.step(Input::Spec(Arc::new(newer))), ["image a"]);
}

#[test]
fn after_a_restart_of_the_agent_the_back_off_goes_on() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let ended = exited(&running(&pod, "a", 3), 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), ["prepare"]);
    assert_eq!(script.wakes_in(), Some(40.0));
}

/// POD-19: a machine that lost its power, however often, has its pods back at once.
#[test]
fn pod_19_what_ended_with_its_sandbox_did_not_crash() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let cut_off = exited(&running(&pod, "a", 50), 255, script.moment);
    assert_eq!(script.sees(&[stopped(0)], std::slice::from_ref(&cut_off)), ["replace [s0] 30s"]);
    assert_eq!(script.ends(JobEnd::PodKilled(Ok(()))), ["inspect"]);
    let begun = script.sees(&[stopped(0)], std::slice::from_ref(&cut_off));
    assert_eq!(begun, ["sandbox 1", "prepare anew", "image a"]);

    let mut script = Script::unseen(pod.clone());
    let first = RuntimeContainer { sandbox_id: "s1".into(), ..exited(&running(&pod, "a", 51), 1, script.moment) };
    assert_eq!(script.sees(&[ready(1), stopped(0)], &[first, cut_off]), ["prepare", "image a"], "its first end here");
}

/// CRI-19: of a dead sandbox from before the machine's boot nothing is left that its stop could take down.
#[test]
fn cri_19_a_stop_may_fail_where_the_machine_was_started_anew() {
    for (sandbox, machine_uptime, expected) in
        [(stopped(0), 59, "replace [s0?] 30s"), (stopped(0), 60, "replace [s0] 30s"), (ready(0), 59, "prepare")]
    {
        let pod = a_pod("Always", &[], &["a"]);
        let mut script = Script::unseen(pod.clone());
        script.moment = script.moment.plus(Duration::from_secs(60));
        script.machine_uptime = Duration::from_secs(machine_uptime);
        let is_ready = sandbox.state == SandboxState::Ready;
        let there = running(&pod, "a", 0);
        let container = if is_ready { there } else { exited(&there, 255, script.moment) };
        assert_eq!(script.sees(&[sandbox], &[container]), [expected]);
        if is_ready {
            assert_eq!(script.removed(None), ["cancel Prepare", "inspect"], "what runs has to be stopped");
        }
    }
}
