//! Looks that lack what the pod had.

use super::*;

const NOTHING: [&str; 0] = [];

/// PAIN-16, CRI-30: a list that lacks a running container starts no second instance.
#[test]
fn a_container_that_a_list_lacks_runs_until_the_runtime_denies_it() {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| running(&pod, name, 0));
    let mut script = Script::running(pod.clone());
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), ["confirm a0"]);
    assert!(script.life.observed().is_some_and(|seen| seen.runs("a")), "it counts as running meanwhile");
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), NOTHING, "it is asked about already");
    assert_eq!(script.confirms(&[], std::slice::from_ref(&a)), ["confirm a0"], "it may have ended since");
    assert_eq!(script.confirms(&[], std::slice::from_ref(&a)), NOTHING, "it is there after all");
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), ["confirm a0"], "each list is doubted anew");
    assert_eq!(script.confirms(&[], &[]), ["image a"], "the runtime has none");
    assert_eq!(script.ends(image_there("a")), ["start a 1 in s0 of app:1"]);
}

#[test]
fn nothing_starts_while_the_runtime_does_not_say() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    assert_eq!(script.sees(&[ready(0)], &[]), ["confirm a0"]);
    let failed = JobEnd::lost(Job::Confirm, "no answer".to_owned());
    assert_eq!(script.ends(failed), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert!(script.waits().iter().any(|wait| wait.ends_with("to be tried again")), "it is said what is waited for");
    assert_eq!(script.passes(10), ["confirm a0"]);
}

#[test]
fn a_container_that_has_ended_for_good_does_not_run_again_because_a_list_lacks_it() {
    let pod = a_pod("Never", &[], &["a", "b"]);
    let ended = exited(&running(&pod, "a", 0), 0, BEGINNING);
    let b = running(&pod, "b", 0);
    let mut script = Script::running(pod);
    assert_eq!(script.sees(&[ready(0)], &[ended.clone(), b.clone()]), NOTHING);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), ["confirm a0"]);
    assert_eq!(script.confirms(&[], &[ended]), NOTHING);
}

#[test]
fn a_sandbox_that_a_list_lacks_is_kept_until_the_runtime_denies_it() {
    let pod = a_pod("Always", &[], &["a"]);
    let container = running(&pod, "a", 0);
    let mut script = Script::running(pod);
    assert_eq!(script.sees(&[], std::slice::from_ref(&container)), ["confirm s0"]);
    assert_eq!(script.confirms(&[ready(0)], &[]), NOTHING);
    assert_eq!(script.sees(&[], std::slice::from_ref(&container)), ["confirm s0"]);
    assert_eq!(script.confirms(&[], &[]), ["replace [a0] 30s"]);
}

/// A pod that is deleted in the middle of a job forgets what it saw, not what it had.
#[test]
fn a_pod_does_not_end_before_what_its_last_list_lacks_is_stopped() {
    let pod = a_pod("Always", &[], &["a"]);
    let container = running(&pod, "a", 0);
    let mut script = Script::running(with_image(pod.clone(), "a", "app:1"));
    assert_eq!(script.sees(&[ready(0)], &[]), ["confirm a0"]);
    assert_eq!(script.removed(Some(5)), ["cancel Confirm", "inspect"]);
    assert_eq!(script.sees(&[], &[]), ["confirm s0 a0"]);
    assert_eq!(script.confirms(&[ready(0)], &[container]), ["end [a0 s0] 5s"]);
}

#[test]
fn a_look_that_shows_it_again_knows_better_than_the_answer_on_its_way() {
    let pod = a_pod("Never", &[], &["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| running(&pod, name, 0));
    let mut script = Script::running(pod);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), ["confirm a0"]);
    script.sees(&[ready(0)], &[exited(&a, 3, BEGINNING), b]);
    script.confirms(&[], &[a]);
    let seen = script.life.observed().and_then(|seen| seen.container("a").cloned()).expect("is known");
    assert_eq!((seen.state, seen.exit_code), (ContainerState::Exited, 3));
}

/// An answer changes nothing in the runtime: a look that began before it, and showed how the container ended, counts.
#[test]
fn a_look_on_its_way_while_the_runtime_is_asked_counts() {
    let pod = a_pod("Never", &[], &["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| running(&pod, name, 0));
    let mut script = Script::running(pod);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), ["confirm a0"]);
    let look = script.look(&[ready(0)], &[exited(&a, 3, BEGINNING), b]);
    script.confirms(&[], &[a]);
    script.step(Input::Observed(look));
    assert_eq!(script.life.observed().and_then(|seen| seen.container("a")).map(|one| one.exit_code), Some(3));
}

#[test]
fn what_is_absent_once_more_while_the_runtime_is_asked_is_asked_about_again() {
    let pod = a_pod("Never", &[], &["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| running(&pod, name, 0));
    let mut script = Script::running(pod);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), ["confirm a0"]);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&b)), NOTHING);
    assert_eq!(script.confirms(&[], std::slice::from_ref(&a)), ["confirm a0"], "it may have ended since the answer");
    script.confirms(&[], &[exited(&a, 3, BEGINNING)]);
    assert_eq!(script.life.observed().and_then(|seen| seen.container("a")).map(|one| one.exit_code), Some(3));
}

/// An end is urgent, and waits for no pause that came of an earlier failure.
#[test]
fn a_pod_that_is_to_end_asks_at_once_although_the_last_question_failed() {
    let mut script = Script::running(a_pod("Always", &[], &["a"]));
    assert_eq!(script.sees(&[ready(0)], &[]), ["confirm a0"]);
    assert_eq!(script.ends(JobEnd::lost(Job::Confirm, "no answer".to_owned())), NOTHING);
    assert_eq!(script.removed(None), ["confirm a0"]);
}

/// CRI-30: a new agent never saw the instance that the pod's status names, so that it has nothing to count it by.
#[test]
fn nothing_starts_before_the_runtime_has_answered_about_what_the_status_named() {
    let mut pod = a_pod("Always", &[], &["a"]);
    let told = serde_json::json!({ "containerStatuses": [{
        "name": "a", "containerID": "containerd://a0", "restartCount": 0, "ready": true, "image": "", "imageID": "",
        "state": { "running": {} },
    }]});
    pod.status = Some(serde_json::from_value(told).expect("a status"));
    let a = running(&pod, "a", 0);
    let mut script = Script::unseen(pod);
    assert_eq!(script.sees(&[ready(0)], &[]), ["confirm a0"]);
    assert_eq!(script.ends(JobEnd::lost(Job::Confirm, "no answer".to_owned())), NOTHING);
    assert_eq!(script.sees(&[ready(0)], &[]), NOTHING, "another list says no more");
    assert!(script.waits().iter().any(|wait| wait.ends_with("to be tried again")), "{:?}", script.waits());
    assert_eq!(script.passes(10), ["confirm a0"]);
    assert_eq!(script.confirms(&[], &[a]), ["prepare"], "it runs, and nothing is to be started");
}
