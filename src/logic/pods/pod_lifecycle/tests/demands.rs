//! Cases of what people on the node ask of a pod, of starting over in place, and of a phase that is final.

use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes};

use super::*;

impl Script {
    fn asks(&mut self, what: Demanded, container: Option<&str>) -> Result<Vec<String>, String> {
        self.life.demand(&Demand { what, container: container.map(str::to_owned) })
    }
}

#[test]
fn a_restart_on_demand_stops_and_starts_whatever_the_policy() {
    let pod = a_pod("Never", &[], &["app", "side"]);
    let (app, side) = (running(&pod, "app", 0), running(&pod, "side", 0));
    let mut script = Script::running(pod);
    assert_eq!(script.asks(Demanded::Restart, Some("app")), Ok(vec!["app".to_owned()]));
    assert_eq!(script.step(Input::Due), ["kill app0 30s"]);
    assert_eq!(script.ends(JobEnd::Killed("app0".into(), Ok(()))), ["inspect"]);
    let ended = exited(&app, 0, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended.clone(), side.clone()]), ["image app"]);
    assert!(script.life.restarts().contains(&app.id), "its end is not its pod's");
    assert_eq!(script.ends(image_there("app")), ["start app 1 in s0 of app:1"]);
    script.ends(started("app", "app1"));
    let again = RuntimeContainer { id: "app1".into(), restart_count: 1, ..app };
    assert_eq!(script.sees(&[ready(0)], &[again.clone(), ended.clone(), side.clone()]), [""; 0]);
    // Once, not again and again.
    assert_eq!(script.passes(60), [""; 0]);
}

#[test]
fn a_back_off_that_is_reset_is_over_at_once() {
    let pod = a_pod("Always", &[], &["app"]);
    let app = running(&pod, "app", 3);
    let mut script = Script::unseen(pod);
    let ended = exited(&app, 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&ended)), ["prepare"]);
    script.ends(JobEnd::Prepared(Ok(false)));
    assert_eq!(script.wakes_in(), Some(40.0));
    assert_eq!(script.asks(Demanded::ResetBackOff, None), Ok(vec!["app".to_owned()]));
    assert_eq!(script.step(Input::Due), ["image app"]);
    assert_eq!(script.ends(image_there("app")), ["start app 4 in s0 of app:1"]);
}

/// PAIN-34: what is promised while a container is being started is done once it runs.
#[test]
fn a_restart_on_demand_of_a_container_that_is_being_started_follows_its_start() {
    let pod = a_pod("Always", &[], &["app"]);
    let app = running(&pod, "app", 0);
    let mut script = Script::running(pod);
    let ended = exited(&app, 1, script.moment);
    assert_eq!(script.asks(Demanded::ResetBackOff, None), Ok(vec!["app".to_owned()]));
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&ended)), ["image app"]);
    assert_eq!(script.ends(image_there("app")), ["start app 1 in s0 of app:1"]);
    assert_eq!(script.asks(Demanded::Restart, Some("app")), Ok(vec!["app".to_owned()]));
    assert_eq!(script.step(Input::Due), [""; 0], "not before it runs");
    assert_eq!(script.ends(started("app", "app1")), ["kill app1 30s"]);
}

#[test]
fn what_cannot_be_done_says_why() {
    let mut script = Script::running(a_pod("Always", &["setup"], &["app"]));
    let why = |answer: Result<Vec<String>, String>| answer.expect_err("cannot be done");
    assert_eq!(why(script.asks(Demanded::Restart, Some("none"))), "the pod has no container none");
    let once = "setup is an init container, which runs to its end once";
    assert_eq!(why(script.asks(Demanded::Restart, Some("setup"))), once);
    assert_eq!(script.asks(Demanded::Restart, None), Ok(vec!["app".to_owned()]), "all that may be");
    assert_eq!(script.asks(Demanded::ResetBackOff, Some("setup")), Ok(vec!["setup".to_owned()]), "it may have failed");
    let pod = a_pod("Never", &[], &["app", "side"]);
    let (app, side) = (running(&pod, "app", 0), running(&pod, "side", 0));
    let mut never = Script::running(pod);
    let ended = exited(&app, 1, never.moment);
    never.sees(&[ready(0)], &[ended, side]);
    assert_eq!(why(never.asks(Demanded::Restart, Some("app"))), "app has ended, and its restart policy keeps it so");
    assert_eq!(never.asks(Demanded::Restart, None), Ok(vec!["side".to_owned()]));
    script.removed(None);
    assert_eq!(why(script.asks(Demanded::Restart, Some("app"))), "the pod ends, or has ended");
    assert_eq!(why(Script::stranger().asks(Demanded::Restart, None)), "nothing is known of the pod yet");
}

/// A pod whose container `app` has all start over when it ends with 42.
fn starts_over(policy: &str) -> Pod {
    let mut pod = a_pod(policy, &[], &["app", "side"]);
    let codes = ContainerRestartRuleOnExitCodes { operator: "In".to_owned(), values: Some(vec![42]) };
    let rule = ContainerRestartRule { action: "RestartAllContainers".to_owned(), exit_codes: Some(codes) };
    pod.spec.as_mut().expect("has a spec").containers[0].restart_policy_rules = Some(vec![rule]);
    pod
}

#[test]
fn a_pod_starts_over_once_all_its_containers_are_gone() {
    let pod = starts_over("Never");
    let (app, side) = (running(&pod, "app", 0), running(&pod, "side", 0));
    let mut script = Script::running(pod);
    let ended = exited(&app, 42, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended.clone(), side.clone()]), ["reset side0 app0"]);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&ended)), [""; 0], "one at a time");
    assert_eq!(script.ends(JobEnd::Reset(Err("unwell".to_owned()))), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&ended)), ["confirm side0"]);
    assert_eq!(script.confirms(&[], &[]), [""; 0]);
    assert_eq!(script.passes(15), ["reset app0"], "what is left");
    assert_eq!(script.ends(JobEnd::Reset(Ok(()))), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[]), ["image app", "image side"]);
    script.ends(image_there("side"));
    assert_eq!(script.ends(image_there("app")), ["start app 1 in s0 of app:1"], "counted on");
}

#[test]
fn a_pod_whose_phase_is_final_is_stopped() {
    let pod = a_pod("Always", &[], &["app"]);
    let mut script = Script::running(pod);
    assert_eq!(script.step(Input::Over), ["end [app0 s0] 30s"]);
    assert_eq!(script.step(Input::Over), [""; 0], "said once");
    assert_eq!(script.life.stage(), Stage::Terminating);
}

/// PAIN-34: such a container is only started, and its former end is not its pod's.
#[test]
fn a_restart_on_demand_of_a_container_that_has_ended_stops_nothing() {
    let pod = a_pod("OnFailure", &[], &["app"]);
    let app = running(&pod, "app", 3);
    let mut script = Script::unseen(pod);
    let ended = exited(&app, 1, script.moment);
    script.sees(&[ready(0)], std::slice::from_ref(&ended));
    script.ends(JobEnd::Prepared(Ok(false)));
    assert_eq!(script.asks(Demanded::Restart, Some("app")), Ok(vec!["app".to_owned()]));
    assert!(script.life.restarts().contains(&app.id));
    assert_eq!(script.step(Input::Due), ["image app"]);
    assert_eq!(script.ends(image_there("app")), ["start app 4 in s0 of app:1"]);
    assert_eq!(script.ends(started("app", "app4")), ["inspect soon"]);
}

/// KEP-5532: nothing of the former life is left, neither errors nor instances, before the next one begins.
#[test]
fn a_pod_that_starts_over_forgets_its_errors_and_starts_nothing_meanwhile() {
    let pod = starts_over("Always");
    let app = running(&pod, "app", 0);
    let mut script = Script::unseen(pod);
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&app)), ["prepare", "image side"]);
    script.ends(JobEnd::Prepared(Ok(false)));
    script.ends(JobEnd::lost(Job::EnsureImage("side".to_owned()), "no registry".to_owned()));
    assert!(script.life.start_errors().contains_key("side"));
    let ended = exited(&app, 42, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), ["reset app0"]);
    assert!(script.life.start_errors().is_empty());
    assert_eq!(script.asks(Demanded::Restart, Some("app")), Ok(vec!["app".to_owned()]));
    assert_eq!(script.step(Input::Due), [""; 0]);
    assert_eq!(script.waits(), ["its containers to be removed, to start over"]);
}

#[test]
fn a_pod_starts_over_only_once_no_container_is_being_made() {
    let pod = starts_over("Always");
    let app = running(&pod, "app", 0);
    let mut script = Script::unseen(pod);
    script.sees(&[ready(0)], std::slice::from_ref(&app));
    script.ends(JobEnd::Prepared(Ok(false)));
    assert_eq!(script.ends(image_there("side")), ["start side 0 in s0 of app:1"]);
    let ended = exited(&app, 42, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended]), [""; 0]);
    assert_eq!(script.waits(), ["what is being started, before all starts over"]);
    assert_eq!(script.ends(started("side", "side0")), ["reset side0 app0"]);
}
