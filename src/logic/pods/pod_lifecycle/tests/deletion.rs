//! Cases of a pod that ends: by an order, by itself, or because nobody knows it.

use super::*;
use crate::logic::volumes::volume_states::VolumeFailure;

const NOTHING: [&str; 0] = [];

/// Lets the kill under way end well, and shows what is left.
fn stops(script: &mut Script, sandboxes: &[RuntimeSandbox], containers: &[RuntimeContainer]) -> Vec<String> {
    assert_eq!(script.ends(JobEnd::PodKilled(Ok(()))), ["inspect"]);
    script.sees(sandboxes, containers)
}

/// POD-14.
#[test]
fn a_removed_pod_is_stopped_cleaned_and_finished() {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let mut script = Script::running(pod.clone());
    assert_eq!(script.removed(None), ["end [a0 b0 s0] 30s"]);
    assert_eq!(script.life.stage(), Stage::Terminating);
    let ended = [exited(&running(&pod, "a", 0), 0, BEGINNING), exited(&running(&pod, "b", 0), 137, BEGINNING)];
    assert_eq!(stops(&mut script, &[stopped(0)], &ended), ["clean", "remove [s0 a0 b0]"]);
    assert_eq!(script.life.stage(), Stage::Terminated);
    script.goes();
    // Said again as long as someone asks, for the word may be lost.
    assert_eq!(script.passes(60), ["finish"]);
    assert_eq!(script.removed(None), ["finish"]);
    assert_eq!(script.sees(&[], &[]), ["finish"]);
}

#[test]
fn a_pod_that_never_began_ends_without_a_kill() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    assert_eq!(script.removed(None), NOTHING);
    assert_eq!(script.sees(&[], &[]), ["clean"]);
}

#[test]
fn deletion_cancels_what_is_under_way_and_looks_at_what_it_left() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    script.ends(JobEnd::Prepared(Ok(true)));
    let before = script.look(&[], &[]);
    let expected = ["cancel SetUpSandbox", "cancel EnsureImage(\"a\")", "inspect"];
    assert_eq!(script.removed(Some(10)), expected);
    // A look from before the deletion may lack what the cancelled jobs did.
    assert_eq!(script.step(Input::Observed(before)), NOTHING);
    assert_eq!(script.life.stage(), Stage::Terminating);
    assert_eq!(script.sees(&[ready(0)], &[]), ["end [s0] 10s"]);
}

/// POD-07: a start is not cut off, since what is half started can be neither stopped nor told of.
#[test]
fn a_start_under_way_ends_before_its_pod_is_stopped() {
    let pod = a_pod("Always", &[], &["a"]);
    let leaving = || {
        let (mut script, _) = Script::new(pod.clone());
        script.ends(JobEnd::Prepared(Ok(true)));
        script.ends(image_there("a"));
        assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start a 0 in s0 of app:1"]);
        assert_eq!(script.removed(Some(20)), ["leave a"]);
        assert_eq!(script.passes(9), NOTHING);
        assert_eq!(script.waits(), ["what is being started, before all is stopped"]);
        script
    };
    assert_eq!(leaving().ends(started("a", "a0")), ["end [a0 s0] 20s"]);
    let mut script = leaving();
    assert_eq!(script.ends(JobEnd::Left("a".to_owned())), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), ["end [a0 s0] 20s"]);
    // The runtime does not answer: the others are not to run on.
    let mut script = leaving();
    assert_eq!(script.passes(1), ["cancel StartContainer(\"a\")", "inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[]), ["end [s0] 20s"]);
}

#[test]
fn a_shorter_grace_period_restarts_the_kill_at_once_and_a_longer_one_does_nothing() {
    let mut script = Script::running(a_pod("Always", &[], &["a"]));
    assert_eq!(script.removed(Some(20)), ["end [a0 s0] 20s"]);
    assert_eq!(script.removed(Some(60)), NOTHING);
    assert_eq!(script.removed(None), NOTHING);
    assert_eq!(script.removed(Some(5)), ["cancel KillPod", "end [a0 s0] 5s"]);
    assert_eq!(script.removed(Some(0)), ["cancel KillPod", "end [a0 s0] 1s"]);
    assert_eq!(script.life.grace(), Some(Duration::from_secs(1)));
}

#[test]
fn a_shorter_grace_period_that_would_end_later_leaves_the_kill_alone() {
    let mut script = Script::running(a_pod("Always", &[], &["a"]));
    assert_eq!(script.removed(Some(30)), ["end [a0 s0] 30s"]);
    script.passes(20);
    assert_eq!(script.removed(Some(15)), NOTHING);
    assert_eq!(script.removed(Some(5)), ["cancel KillPod", "end [a0 s0] 5s"]);
}

/// POD-08: the pod's own grace period counts only where none was named before.
#[test]
fn an_end_that_names_no_grace_period_leaves_a_longer_one_in_force() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut over = pod.clone();
    over.status.get_or_insert_default().phase = Some("Failed".to_owned());
    for end in [Input::Removed { grace: None }, Input::Over, Input::Spec(Arc::new(over))] {
        let mut script = Script::running(pod.clone());
        assert_eq!(script.removed(Some(60)), ["end [a0 s0] 60s"]);
        assert_eq!(script.step(end.clone()), NOTHING, "{end:?}");
        assert_eq!(script.life.grace(), Some(Duration::from_secs(60)), "{end:?}");
    }
}

#[test]
fn a_shorter_grace_period_does_not_wait_for_the_next_try() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    script.removed(Some(30));
    assert_eq!(script.ends(JobEnd::PodKilled(Err("unwell".to_owned()))), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.removed(Some(2)), ["end [a0 s0] 2s"]);
}

#[test]
fn a_kill_that_failed_is_tried_again_when_the_runtime_is_back() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    script.removed(Some(30));
    let away = RuntimeHealth { runtime_problem: Some("away".to_owned()), ..RuntimeHealth::default() };
    script.step(Input::Health(away));
    assert_eq!(script.ends(JobEnd::PodKilled(Err("away".to_owned()))), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.step(Input::Health(RuntimeHealth::default())), ["end [a0 s0] 30s"]);
}

#[test]
fn a_kill_that_fails_or_does_nothing_is_tried_again_after_a_pause() {
    let pod = a_pod("Always", &[], &["a"]);
    for end in [Ok(()), Err("unwell".to_owned())] {
        let mut script = Script::running(pod.clone());
        script.removed(None);
        assert_eq!(script.ends(JobEnd::PodKilled(end)), ["inspect"]);
        assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), NOTHING);
        assert_eq!(script.wakes_in(), Some(10.0));
        assert_eq!(script.passes(10), ["end [a0 s0] 30s"]);
        assert_eq!(stops(&mut script, &[stopped(0)], &[]), ["confirm a0"]);
        assert_eq!(script.confirms(&[], &[]), ["clean", "remove [s0]"]);
    }
}

#[test]
fn a_pod_that_runs_once_ends_by_itself_and_stays_until_it_is_removed() {
    for (policy, exit_code) in [("Never", 0), ("Never", 1), ("OnFailure", 0)] {
        let pod = a_pod(policy, &[], &["a"]);
        let mut script = Script::running(pod.clone());
        let ended = exited(&running(&pod, "a", 0), exit_code, script.moment);
        assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&ended)), ["end [s0] 30s"], "{policy}");
        assert_eq!(stops(&mut script, &[stopped(0)], std::slice::from_ref(&ended)), ["clean"], "{policy}");
        assert_eq!(script.ends(JobEnd::CleanedUp(Ok(()))), NOTHING, "{policy}");
        assert_eq!(script.passes(3600), NOTHING, "{policy}");
        assert_eq!(script.life.stage(), Stage::Terminated);
        assert_eq!(script.removed(None), ["over", "remove [s0 a0] and directory"], "{policy}");
        assert_eq!(script.remains_go(Ok(())), ["finish"], "{policy}");
    }
}

#[test]
fn a_failed_run_is_repeated_where_the_policy_says_so() {
    let pod = a_pod("OnFailure", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let ended = exited(&running(&pod, "a", 0), 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), ["image a"]);
}

#[test]
fn a_pod_removed_while_its_cgroup_is_given_back_is_still_cleaned_of_everything() {
    let pod = a_pod("Never", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let ended = exited(&running(&pod, "a", 0), 0, script.moment);
    script.sees(&[ready(0)], std::slice::from_ref(&ended));
    assert_eq!(stops(&mut script, &[stopped(0)], &[ended]), ["clean"]);
    assert_eq!(script.removed(None), ["remove [s0 a0]"]);
    script.goes();
}

#[test]
fn a_clean_up_that_fails_is_tried_again_and_the_pod_is_not_over_before_it() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    script.removed(None);
    assert_eq!(script.sees(&[], &[]), ["clean"]);
    assert_eq!(script.ends(JobEnd::CleanedUp(Err("busy".to_owned().into()))), NOTHING);
    assert!(!script.life.is_over());
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.passes(10), ["clean"]);
    // Volumes that are tried again sooner are asked after then.
    for (retry_after, seconds) in [(1, 1), (60, 10)] {
        let failure =
            VolumeFailure { retry_after: Duration::from_secs(retry_after), ..VolumeFailure::lost("busy".into()) };
        assert_eq!(script.ends(JobEnd::CleanedUp(Err(failure.into()))), NOTHING);
        assert_eq!(script.passes(seconds), ["clean"], "{retry_after}");
    }
    assert_eq!(script.ends(JobEnd::CleanedUp(Ok(()))), ["over", "remove [] and directory"]);
    assert!(script.life.is_over());
    assert_eq!(script.remains_go(Ok(())), ["finish"]);
}

/// POD-14, CRI-20: the pod is over although what is left of it cannot be removed; that is tried again, less and less often.
#[test]
fn a_removal_that_fails_holds_up_nobody_and_is_tried_again() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    script.removed(None);
    let ended = exited(&running(&pod, "a", 0), 137, script.moment);
    assert_eq!(stops(&mut script, &[stopped(0)], &[ended]), ["clean", "remove [s0 a0]"]);
    assert_eq!(script.ends(JobEnd::CleanedUp(Ok(()))), ["over"]);
    let mut waits = vec![];
    for _ in 0..5 {
        assert_eq!(script.remains_go(Err("device or resource busy".to_owned())), NOTHING);
        assert_eq!(script.problem(), None, "nobody is held up");
        let told = script.waits();
        assert_eq!(told, ["what is left of it to be removed: device or resource busy, to be tried again"]);
        let wait = script.wakes_in().expect("it is tried again");
        waits.push(wait);
        script.elapse(wait as u64);
        // The word that it is over may have been lost, and is said again.
        assert_eq!(script.step(Input::Due), ["over", "remove [s0 a0] and directory"]);
    }
    assert_eq!(waits, [10.0, 20.0, 40.0, 60.0, 60.0]);
    assert_eq!(script.remains_go(Ok(())), ["finish"]);
}

/// CRI-20: `--minimum-container-ttl-duration` counts for pods that nobody wants, too, and no clock makes it longer.
#[test]
fn dead_containers_of_a_removed_pod_are_kept_for_as_long_as_they_are_to_be() {
    let ttl = Duration::from_secs(60);
    let pod = a_pod("Always", &[], &["a", "b"]);
    let old = exited(&running(&pod, "a", 0), 0, BEGINNING);
    let young = RuntimeContainer { created_at: BEGINNING.plus(Duration::from_secs(60)), ..running(&pod, "b", 0) };
    let young = RuntimeContainer { sandbox_id: "s1".into(), ..exited(&young, 0, BEGINNING) };
    let (sandboxes, containers) = ([stopped(1), stopped(0)], [old, young]);
    for (set_back, rest) in [(0, 20_u32), (7200, 60)] {
        let mut script = Script::unseen(pod.clone());
        script.life = script.life.with_container_ttl(ttl);
        script.elapse(100);
        script.moment = Moment(script.moment.0 - set_back * 1_000_000_000);
        script.removed(None);
        assert_eq!(script.sees(&sandboxes, &containers), ["end [s1 s0] 30s"]);
        let first = stops(&mut script, &sandboxes, &containers);
        // Where the clock tells their age, the old one goes at once, with its sandbox.
        let expected = if set_back == 0 { vec!["clean", "remove [s0 a0]"] } else { vec!["clean"] };
        assert_eq!(first, expected);
        script.ends(JobEnd::CleanedUp(Ok(())));
        for _ in 0..2 {
            script.remains_go(Ok(()));
        }
        assert!(script.life.is_over());
        assert_eq!(script.waits(), ["its dead containers to be old enough to go"]);
        assert_eq!(script.wakes_in(), Some(f64::from(rest)));
        let last = script.passes(u64::from(rest));
        assert!(last.last().is_some_and(|last| last.starts_with("remove [s1")), "{last:?}");
        assert_eq!(script.remains_go(Ok(())), ["finish"]);
    }
}

#[test]
fn a_pod_whose_init_container_must_not_run_again_ends() {
    let pod = a_pod("Never", &["i"], &["a"]);
    let (mut script, _) = Script::new(pod.clone());
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image_there("i"));
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    script.ends(started("i", "i0"));
    let failed = exited(&running(&pod, "i", 0), 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[failed]), ["end [s0] 30s"]);
}

#[test]
fn a_finished_pod_is_known_again_after_a_restart_of_the_agent() {
    let pod = a_pod("Never", &[], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let ended = exited(&running(&pod, "a", 0), 1, BEGINNING);
    // It cannot know that the sandbox was stopped: to ask once more costs next to nothing.
    assert_eq!(script.sees(&[stopped(0)], std::slice::from_ref(&ended)), ["end [s0] 30s"]);
    assert_eq!(stops(&mut script, &[stopped(0)], &[ended]), ["clean"]);
    assert_eq!(script.life.stage(), Stage::Terminated);
}

/// CRI-19, POD-14: a sandbox whose processes are gone still has its network.
#[test]
fn a_sandbox_that_is_not_ready_is_stopped_until_the_runtime_says_that_it_is() {
    let pod = a_pod("Always", &[], &["a"]);
    let ended = exited(&running(&pod, "a", 0), 137, BEGINNING);
    let (sandboxes, containers) = ([stopped(1), stopped(0)], [ended]);
    let mut script = Script::unseen(pod);
    assert_eq!(script.removed(None), NOTHING);
    assert_eq!(script.sees(&sandboxes, &containers), ["end [s1 s0] 30s"]);
    for _ in 0..2 {
        assert_eq!(script.ends(JobEnd::PodKilled(Err("no network plugin".to_owned()))), ["inspect"]);
        assert_eq!(script.sees(&sandboxes, &containers), NOTHING);
        let problem = script.problem().expect("it failed");
        assert!(problem.contains("no network plugin"), "{problem}");
        assert_eq!(script.wakes_in(), Some(10.0));
        assert_eq!(script.life.stage(), Stage::Terminating);
        assert_eq!(script.passes(10), ["end [s1 s0] 30s"]);
    }
    assert_eq!(stops(&mut script, &sandboxes, &containers), ["clean", "remove [s1 s0 a0]"]);
}

/// CRI-19: a sandbox that a call which was cut off made after all is stopped, too, and the others with it.
#[test]
fn a_sandbox_that_comes_to_light_after_the_stop_is_stopped_although_it_is_dead() {
    let mut script = Script::running(a_pod("Always", &[], &["a"]));
    assert_eq!(script.removed(None), ["end [a0 s0] 30s"]);
    assert_eq!(script.ends(JobEnd::PodKilled(Ok(()))), ["inspect"]);
    assert_eq!(script.sees(&[stopped(1), stopped(0)], &[]), ["confirm a0"]);
    assert_eq!(script.confirms(&[], &[]), NOTHING);
    assert_eq!(script.passes(10), ["end [s1 s0] 30s"]);
    assert_eq!(stops(&mut script, &[stopped(1), stopped(0)], &[]), ["clean", "remove [s1 s0]"]);
}

#[test]
fn a_pod_that_nobody_knows_is_killed_with_the_least_grace_and_cleaned() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::stranger();
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), NOTHING);
    assert_eq!(script.removed(None), ["end [a0 s0] 1s"]);
    let ended = exited(&running(&pod, "a", 0), 137, script.moment);
    assert_eq!(stops(&mut script, &[stopped(0)], &[ended]), ["clean", "remove [s0 a0]"]);
    script.goes();
}

#[test]
fn a_pod_that_the_api_says_is_being_deleted_ends_with_the_grace_given_there() {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    let mut pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    pod.metadata.deletion_timestamp = Some(Time(BEGINNING.to_timestamp()));
    pod.metadata.deletion_grace_period_seconds = Some(12);
    assert_eq!(script.step(Input::Spec(Arc::new(pod.clone()))), ["end [a0 s0] 12s"]);
    pod.metadata.deletion_grace_period_seconds = Some(3);
    assert_eq!(script.step(Input::Spec(Arc::new(pod))), ["cancel KillPod", "end [a0 s0] 3s"]);
}

#[test]
fn a_pod_that_the_api_says_is_over_ends() {
    for phase in ["Failed", "Succeeded"] {
        let mut pod = a_pod("Always", &[], &["a"]);
        let mut script = Script::running(pod.clone());
        pod.status.get_or_insert_default().phase = Some(phase.to_owned());
        assert_eq!(script.step(Input::Spec(Arc::new(pod))), ["end [a0 s0] 30s"], "{phase}");
    }
}

#[test]
fn a_newer_spec_does_not_bring_an_ending_pod_back() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    script.removed(None);
    assert_eq!(script.step(Input::Spec(Arc::new(with_image(pod, "a", "app:2")))), NOTHING);
    assert_eq!(script.life.stage(), Stage::Terminating);
}

#[test]
fn a_replacement_under_way_is_not_begun_again_by_the_deletion() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    assert_eq!(script.sees(&[stopped(0)], &[running(&pod, "a", 0)]), ["replace [a0 s0] 30s"]);
    assert_eq!(script.removed(None), NOTHING);
    let ended = exited(&running(&pod, "a", 0), 137, script.moment);
    assert_eq!(stops(&mut script, &[stopped(0)], &[ended]), ["clean", "remove [s0 a0]"]);
}

/// CRI-19: a call that was cut off may take effect after the pod's volumes and its cgroup were released.
#[test]
fn what_comes_to_light_after_the_release_is_stopped_at_once_and_all_is_released_again() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    script.removed(None);
    let ended = exited(&running(&pod, "a", 0), 137, script.moment);
    assert_eq!(stops(&mut script, &[stopped(0)], std::slice::from_ref(&ended)), ["clean", "remove [s0 a0]"]);
    assert_eq!(script.ends(JobEnd::CleanedUp(Ok(()))), ["over"]);
    let late = RuntimeContainer { sandbox_id: "s1".into(), ..running(&pod, "a", 1) };
    assert_eq!(script.sees(&[ready(1), stopped(0)], &[late, ended]), ["end [a1 s1 s0] 30s"]);
    assert_eq!(script.ends(JobEnd::PodKilled(Ok(()))), ["clean"]);
}
