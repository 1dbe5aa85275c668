//! Plans of pods that start over in place (POD-18), and of ephemeral containers (POD-22).

use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes, EphemeralContainer};

use super::*;
use ContainerState::{Exited, Running, Unknown};

/// `pod`, where an end of the container with 42 has all start over.
fn ruled(mut pod: Pod, container: &str) -> Pod {
    let spec = pod.spec.as_mut().expect("has a spec");
    let mut all = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
    let container = all.find(|other| other.name == container).expect("is one");
    container.restart_policy = Some("Never".to_owned());
    let codes = ContainerRestartRuleOnExitCodes { operator: "In".to_owned(), values: Some(vec![42]) };
    let rule = ContainerRestartRule { action: "RestartAllContainers".to_owned(), exit_codes: Some(codes) };
    container.restart_policy_rules = Some(vec![rule]);
    pod
}

fn removed(plan: &PodPlan) -> Vec<(&str, bool)> {
    plan.reset.iter().map(|reset| (reset.id.as_str(), reset.runs)).collect()
}

#[test]
fn all_instances_go_and_what_asked_for_it_goes_last() {
    let pod = ruled(pod("Never", &["i"], &["a", "b", "c"]), "b");
    let containers = vec![
        instance("c", 0, Unknown, 0),
        instance("b", 1, Exited, 42),
        instance("a", 0, Running, 0),
        instance("b", 0, Exited, 7),
        instance("i", 0, Exited, 0),
    ];
    let plan = planned(&pod, &ready(containers.clone()));
    let expected = [("a0", true), ("b0", false), ("c0", true), ("i0", false), ("b1", false)];
    assert_eq!(removed(&plan), expected);
    assert!(plan.start.is_empty() && plan.kill.is_empty() && plan.remove.is_empty() && plan.kill_pod.is_none());
    // As long as that one is there, the rest goes on being removed; then all starts over.
    let left = planned(&pod, &ready(vec![containers[1].clone()]));
    assert_eq!(removed(&left), [("b1", false)]);
    assert_eq!(starts(&planned(&pod, &ready(vec![]))), [("i", 0)]);
}

/// Upstream stops and starts such a one in one pass, so that its rules never meet the stopped instance.
#[test]
fn one_that_was_stopped_to_be_started_again_asks_for_nothing() {
    let pod = ruled(pod("Always", &[], &["a", "b"]), "b");
    let runtime = ready(vec![instance("b", 0, Exited, 42), instance("a", 0, Running, 0)]);
    let mut case = Case::new();
    assert_eq!(removed(&case.plan(&pod, &runtime)), [("a0", true), ("b0", false)]);
    case.restarts.insert(ContainerId::from("b0"));
    let plan = case.plan(&pod, &runtime);
    assert!(plan.reset.is_empty(), "{plan:?}");
    assert_eq!(starts(&plan), [("b", 1)]);
}

#[test]
fn an_init_container_may_ask_for_it_too() {
    let pod = ruled(pod("Never", &["i", "j"], &["a"]), "j");
    let plan = planned(&pod, &ready(vec![instance("j", 0, Exited, 42), instance("i", 0, Exited, 0)]));
    assert_eq!(removed(&plan), [("i0", false), ("j0", false)]);
}

/// One that is stopped for this ends as if it had failed; only one that had failed before ends its pod.
#[test]
fn an_init_container_that_is_stopped_for_it_does_not_fail_the_pod() {
    let mut pod = ruled(pod("Never", &["s", "i"], &["a"]), "s");
    pod.spec.as_mut().and_then(|spec| spec.init_containers.as_mut()).expect("has some")[0].restart_policy =
        Some("Always".to_owned());
    let source = instance("s", 0, Exited, 42);
    for (seconds, starts_over) in [(1, true), (0, false)] {
        let mut stopped = instance("i", 0, Exited, 137);
        stopped.finished_at = source.finished_at.plus(Duration::from_secs(seconds));
        let plan = planned(&pod, &ready(vec![stopped, source.clone()]));
        assert_eq!(plan.reset.len(), if starts_over { 2 } else { 0 }, "{seconds} s later");
        assert_eq!(plan.kill_pod, (!starts_over).then_some(PodKill::InitContainerFailed), "{seconds} s later");
    }
}

#[test]
fn nothing_starts_over_without_a_rule_that_matches_the_newest_end() {
    let plain = pod("Always", &[], &["a", "b"]);
    let marked = ruled(plain.clone(), "a");
    let b = || instance("b", 0, Running, 0);
    for (pod, containers) in [
        (&plain, vec![instance("a", 0, Exited, 42), b()]),
        (&marked, vec![instance("a", 0, Exited, 1), b()]),
        (&marked, vec![instance("a", 1, Running, 0), instance("a", 0, Exited, 42), b()]),
    ] {
        assert_eq!(removed(&planned(pod, &ready(containers))), []);
    }
    // A pod that is being deleted, or whose initialisation has failed for good, does not.
    let mut deleted = marked.clone();
    deleted.metadata.deletion_timestamp = Some(Time(at(NOW).to_timestamp()));
    assert_eq!(removed(&planned(&deleted, &ready(vec![instance("a", 0, Exited, 42)]))), []);
    let failing = ruled(super::pod("Never", &["i"], &["a"]), "a");
    let plan = planned(&failing, &ready(vec![instance("a", 0, Exited, 42), instance("i", 0, Exited, 1)]));
    assert_eq!((removed(&plan), plan.kill_pod), (vec![], Some(PodKill::InitContainerFailed)));
}

#[test]
fn an_ephemeral_container_starts_once_whatever_else_goes_on() {
    let mut pod = pod("Always", &["i"], &["a"]);
    let debug = EphemeralContainer { name: "e".to_owned(), ..EphemeralContainer::default() };
    pod.spec.as_mut().expect("has a spec").ephemeral_containers = Some(vec![debug]);
    let i = || instance("i", 0, Running, 0);
    let plan = planned(&pod, &ready(vec![i()]));
    assert_eq!((starts(&plan), plan.start[0].kind), (vec![("e", 0)], ContainerKind::Ephemeral));
    assert_eq!(starts(&planned(&pod, &ready(vec![]))), [("e", 0), ("i", 0)], "it is first");
    for state in [ContainerState::Created, Running, Exited, Unknown] {
        assert!(is_idle(&planned(&pod, &ready(vec![instance("e", 0, state, 1), i()]))), "{state:?}");
    }
    // It keeps no pod.
    let mut over = pod.clone();
    over.spec.as_mut().expect("has a spec").restart_policy = Some("Never".to_owned());
    let plan = planned(&over, &ready(vec![instance("e", 0, Running, 0), instance("a", 0, Exited, 0)]));
    assert_eq!(plan.kill_pod, Some(PodKill::NothingToRun));
}
