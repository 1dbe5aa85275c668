//! The waits of a pod, and the inputs after which it goes on.

use k8s_openapi::api::core::v1::Probe;

use super::volumes::{mounted, with_volume};
use super::*;
use crate::logic::images::image_policy::ImageFailure;

fn waits(script: &Script) -> Vec<String> {
    script.waits()
}

/// In the same decision that begins it, not only in the next.
#[test]
fn a_pod_waits_for_what_was_just_begun() {
    let (mut script, actions) = Script::new(with_volume(a_pod("Always", &[], &["a"])));
    assert_eq!(actions, ["volumes", "sandbox 0", "prepare anew", "image a"]);
    let begun =
        ["its volumes to be mounted", "the pod's sandbox and network", "the pod's cgroup", "the image of container a"];
    assert_eq!(waits(&script), begun);
    for end in [JobEnd::Prepared(Ok(true)), mounted(), JobEnd::SandboxUp(Ok(ready(0)))] {
        script.ends(end);
    }
    assert_eq!(script.ends(image_there("a")), ["start a 0 in s0 of app:1"]);
    assert_eq!(waits(&script), ["container a to start"]);

    let mut script = Script::running(a_pod("Always", &[], &["a"]));
    assert_eq!(waits(&script), [""; 0]);
    assert_eq!(script.removed(Some(7)), ["end [a0 s0] 7s"]);
    assert_eq!(waits(&script), ["its containers to stop, within 7s"]);
}

/// PAIN-16: the readiness that an earlier machine knew counts until probes say something else, and goes with its container.
#[test]
fn what_probes_said_before_counts_for_the_containers_that_are_there() {
    let pod = a_pod("Always", &[], &["a"]);
    let before =
        |id: &str| ProbeResults { readiness: [(ContainerId::from(id), true)].into(), ..ProbeResults::default() };
    let mut script = Script::unseen(pod.clone());
    script.life = script.life.with_probes(before("a0"));
    assert_eq!(*script.life.probes(), before("a0"));
    script.sees(&[ready(0)], &[running(&pod, "a", 0)]);
    assert_eq!(*script.life.probes(), before("a0"));
    script.sees(&[ready(0)], &[running(&pod, "a", 1)]);
    script.confirms(&[], &[]);
    script.sees(&[ready(0)], &[running(&pod, "a", 1)]);
    assert_eq!(*script.life.probes(), ProbeResults::default());
}

/// So that pods which failed together are not tried again together.
#[test]
fn a_failure_that_names_no_wait_has_up_to_half_more_than_the_usual_one() {
    for (jitter, seconds) in [(0.0, 10.0), (0.5, 12.5), (1.0, 15.0)] {
        let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
        let now = Now { jitter, ..script.now() };
        script.life.step(Input::Ended(JobEnd::Prepared(Err("no such cgroup".to_owned()))), now);
        assert_eq!(script.wakes_in(), Some(seconds), "{jitter}");

        let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
        let no_network = RuntimeHealth { network_problem: Some("cni".to_owned()), ..RuntimeHealth::default() };
        script.step(Input::Health(no_network));
        let (seen, now) = (script.look(&[], &[]), Now { jitter, ..script.now() });
        script.life.step(Input::Observed(seen), now);
        assert_eq!(script.wakes_in(), Some(NETWORK_RETRY.as_secs_f64() * seconds / 10.0), "{jitter}");

        let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
        for end in [JobEnd::Prepared(Ok(true)), JobEnd::lost(Job::SetUpSandbox, "busy".to_owned())] {
            script.ends(end);
        }
        script.removed(None);
        script.sees(&[], &[]);
        script.ends(JobEnd::CleanedUp(Ok(())));
        let now = Now { jitter, ..script.now() };
        let busy = JobEnd::RemainsRemoved(script.remains.clone(), Err("busy".to_owned()));
        script.life.step(Input::Ended(busy), now);
        assert_eq!(script.wakes_in(), Some(seconds), "{jitter}");
    }
}

/// PAIN-11: what has failed is named until it goes well.
#[test]
fn what_keeps_a_pod_from_going_on_is_named_at_each_stage() {
    let lost = |job| JobEnd::lost(job, "busy".to_owned());
    for (job, problem) in [
        (Job::Prepare, "waits for its cgroup: busy"),
        (Job::SetUpSandbox, "waits for its sandbox and network: busy"),
        (Job::MountVolumes, "waits for its volumes: busy"),
    ] {
        let (mut script, _) = Script::new(with_volume(a_pod("Always", &[], &["a"])));
        script.ends(lost(job));
        assert_eq!(script.problem().as_deref(), Some(problem));
        for end in [JobEnd::Prepared(Ok(true)), JobEnd::SandboxUp(Ok(ready(0))), mounted()] {
            script.ends(end);
        }
        assert_eq!(script.problem(), None, "{problem}");
    }
    let mut script = Script::running(a_pod("Always", &[], &["a"]));
    script.removed(None);
    script.ends(lost(Job::KillPod));
    assert_eq!(script.problem().as_deref(), Some("ends, waits for its containers to stop: busy"));
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    for end in [JobEnd::Prepared(Ok(true)), lost(Job::SetUpSandbox)] {
        script.ends(end);
    }
    script.removed(None);
    script.sees(&[], &[]);
    assert_eq!(script.life.stage(), Stage::Terminated);
    script.ends(lost(Job::CleanUp));
    let released = "has ended, waits for its volumes and its cgroup to be released: busy";
    assert_eq!(script.problem().as_deref(), Some(released));
}

/// PAIN-20.
#[test]
fn what_a_running_container_has_yet_to_do_is_waited_for() {
    let mut pod = a_pod("Always", &["one", "two"], &["app"]);
    let app = &mut pod.spec.as_mut().expect("has a spec").containers[0];
    (app.startup_probe, app.readiness_probe) = (Some(Probe::default()), Some(Probe::default()));
    let one = exited(&running(&pod, "one", 0), 0, BEGINNING);
    let mut script = Script::unseen(pod.clone());
    script.sees(&[ready(0)], &[running(&pod, "two", 0), one]);
    script.ends(JobEnd::Prepared(Ok(false)));
    assert_eq!(waits(&script), ["init container two (2 of 2) to end"]);

    let mut script = Script::running(pod.clone());
    script.sees(&[ready(0)], &[running(&pod, "app", 0)]);
    script.confirms(&[], &[]);
    assert_eq!(waits(&script), ["the startup probe of app"]);
    for (kind, healthy, expected) in [
        (ProbeKind::Startup, false, vec!["the startup probe of app"]),
        (ProbeKind::Startup, true, vec!["the readiness probe of app"]),
        (ProbeKind::Readiness, false, vec!["the readiness probe of app"]),
        (ProbeKind::Readiness, true, vec![]),
    ] {
        let mut script = script_with(&script, ProbeKind::Startup, kind == ProbeKind::Readiness);
        script.step(Input::Probed { container: "app0".into(), kind, healthy });
        let told: Vec<String> = waits(&script).into_iter().filter(|wait| wait.ends_with("of app")).collect();
        assert_eq!(told, expected, "{kind} {healthy}");
    }
}

/// The script, going on after a success of that probe, if there was one.
fn script_with(script: &Script, kind: ProbeKind, succeeded: bool) -> Script {
    let (life, remains, absent) = (script.life.clone(), script.remains.clone(), script.absent.clone());
    let mut script = Script { life, remains, absent, ..*script };
    if succeeded {
        script.step(Input::Probed { container: "app0".into(), kind, healthy: true });
    }
    script
}

#[test]
fn an_image_that_was_not_tried_says_nothing_about_the_container() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(JobEnd::SandboxUp(Ok(ready(0))));
    let failure = ImageFailure::not_tried("its Secrets are missing".to_owned());
    script.ends(JobEnd::ImageEnsured("a".to_owned(), Err(failure)));
    assert!(script.life.start_errors().is_empty());
}

/// Until the answer comes, the pod may stand still because the runtime hangs.
#[test]
fn a_look_is_awaited_from_the_question_to_the_answer() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    assert!(script.life.awaits_a_look());
    script.sees(&[], &[]);
    assert!(!script.life.awaits_a_look());
}

#[test]
fn a_runtime_that_is_not_well_is_waited_for_with_its_problem() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    let unwell = RuntimeHealth { runtime_problem: Some("gone".to_owned()), ..RuntimeHealth::default() };
    script.step(Input::Health(unwell));
    assert_eq!(script.life.health().runtime_problem.as_deref(), Some("gone"));
    assert_eq!(waits(&script), ["the container runtime: gone"]);
}
