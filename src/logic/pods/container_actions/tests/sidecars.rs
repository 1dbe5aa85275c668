//! Plans of pods with restartable init containers (POD-21).

use k8s_openapi::api::core::v1::Probe;

use super::*;
use crate::logic::model::restart_policy::ALWAYS;
use ContainerState::{Created, Exited, Running, Unknown};

/// A pod whose init containers named `s…` are sidecars.
fn with_sidecars(policy: &str, init: &[&str], regular: &[&str]) -> Pod {
    let mut pod = pod(policy, init, regular);
    let spec = pod.spec.as_mut().expect("has a spec");
    for container in spec.init_containers.iter_mut().flatten().filter(|container| container.name.starts_with('s')) {
        container.restart_policy = Some(ALWAYS.to_owned());
    }
    pod
}

/// The first init container gets a startup probe.
fn with_startup_probe(mut pod: Pod) -> Pod {
    let init = pod.spec.as_mut().and_then(|spec| spec.init_containers.as_mut()).expect("has init containers");
    init[0].startup_probe = Some(Probe::default());
    pod
}

fn one(name: &str, state: ContainerState) -> RuntimeContainer {
    instance(name, 0, state, 0)
}

/// The containers that it starts, those that it kills, and whether the pod ends.
fn summary(plan: &PodPlan) -> (Vec<&str>, Vec<&str>, bool) {
    let starts = plan.start.iter().map(|start| start.name.as_str()).collect();
    (starts, plan.kill.iter().map(|kill| kill.id.as_str()).collect(), plan.kill_pod.is_some())
}

#[test]
fn the_next_container_starts_once_a_sidecar_runs() {
    type Row = (&'static [&'static str], Vec<RuntimeContainer>, &'static [&'static str], &'static [&'static str]);
    let cases: Vec<Row> = vec![
        (&["s", "i"], vec![], &["s"], &[]),
        (&["s", "i"], vec![one("s", Created)], &["s"], &[]),
        (&["s", "i"], vec![one("s", Running)], &["i"], &[]),
        (&["s", "i"], vec![one("i", Running), one("s", Running)], &[], &[]),
        (&["s", "i"], vec![one("i", Exited), one("s", Running)], &["a"], &[]),
        (&["i", "s"], vec![one("s", Running), one("i", Exited)], &["a"], &[]),
        (&["s1", "s2"], vec![one("s1", Running)], &["s2"], &[]),
        // One that ended is started again, and holds nothing up but itself.
        (&["s", "i"], vec![one("s", Exited)], &["s"], &[]),
        (&["s", "i"], vec![instance("s", 0, Exited, 3)], &["s"], &[]),
        (&["s", "i"], vec![one("i", Running), one("s", Exited)], &["s"], &[]),
        (&["s", "i"], vec![one("i", Exited), one("s", Exited)], &["s", "a"], &[]),
        // One whose instance was removed comes back, too.
        (&["s", "i"], vec![one("i", Running)], &["s"], &[]),
        (&["s"], vec![one("a", Running)], &["s"], &[]),
        (&["s"], vec![one("a", Running), one("s", Exited)], &["s"], &[]),
        (&["s"], vec![one("a", Running), one("s", Unknown)], &["s"], &["s0"]),
        // After initialisation an ordinary init container is left alone.
        (&["i", "s"], vec![one("a", Running), instance("i", 0, Exited, 1), one("s", Running)], &[], &[]),
        // A regular container that ended proves nothing: the sidecar comes first.
        (&["s"], vec![one("a", Exited)], &["s"], &[]),
        (&["s"], vec![one("a", Exited), one("s", Running)], &["a"], &[]),
    ];
    for policy in ["Always", "OnFailure"] {
        for (init, containers, starts, kills) in &cases {
            let mut containers = containers.clone();
            // With OnFailure a success is not repeated.
            containers.iter_mut().filter(|one| one.name == "a").for_each(|one| one.exit_code = 1);
            let plan = planned(&with_sidecars(policy, init, &["a"]), &ready(containers.clone()));
            assert_eq!(summary(&plan), (starts.to_vec(), kills.to_vec(), false), "{policy} {init:?} {containers:?}");
        }
    }
}

#[test]
fn a_sidecar_is_restarted_whatever_the_pods_policy_while_something_else_runs() {
    for policy in ["Always", "OnFailure", "Never"] {
        for exit_code in [0, 1] {
            let containers = vec![one("a", Running), instance("s", 4, Exited, exit_code)];
            let plan = planned(&with_sidecars(policy, &["s"], &["a"]), &ready(containers));
            assert_eq!(starts(&plan), [("s", 5)], "{policy} {exit_code}");
        }
    }
}

#[test]
fn a_sidecar_never_keeps_a_finished_pod() {
    for policy in ["OnFailure", "Never"] {
        for sidecar in [one("s", Running), one("s", Exited), one("s", Created)] {
            let plan = planned(&with_sidecars(policy, &["s"], &["a"]), &ready(vec![one("a", Exited), sidecar.clone()]));
            assert_eq!(summary(&plan), (vec![], vec![], true), "{policy} {sidecar:?}");
        }
    }
}

/// PRB-10.
#[test]
fn a_startup_probe_of_a_sidecar_holds_up_the_next_container() {
    let pod = with_startup_probe(with_sidecars("Never", &["s", "i"], &["a"]));
    let running = one("s", Running);
    let mut case = Case::new();
    let look = ready(vec![running.clone()]);
    assert_eq!(summary(&case.plan(&pod, &look)), (vec![], vec![], false), "no result yet");
    case.probes.startup.insert(running.id.clone(), true);
    assert_eq!(summary(&case.plan(&pod, &look)), (vec!["i"], vec![], false));
    case.probes.startup.insert(running.id.clone(), false);
    let plan = case.plan(&pod, &look);
    assert_eq!(summary(&plan), (vec!["s"], vec!["s0"], false));
    assert_eq!(plan.kill[0].message, "Init container s failed startup probe");
    assert_eq!((plan.kill[0].reason, plan.kill[0].kind), (KillReason::StartupProbe, ContainerKind::Init));
}

#[test]
fn a_sick_or_changed_sidecar_is_replaced_and_holds_up_nothing() {
    let pod = with_sidecars("Never", &["s", "i"], &["a"]);
    let running = one("s", Running);
    let mut case = Case::new();
    case.probes.liveness.insert(running.id.clone(), false);
    let plan = case.plan(&pod, &ready(vec![running.clone()]));
    assert_eq!(summary(&plan), (vec!["s", "i"], vec!["s0"], false));
    assert_eq!(plan.kill[0].message, "Init container s failed liveness probe");
    let old = RuntimeContainer { hash: "other".to_owned(), ..running };
    let plan = planned(&pod, &ready(vec![one("a", Running), old]));
    assert_eq!(summary(&plan), (vec!["s"], vec!["s0"], false));
    assert_eq!(plan.kill[0].message, "Init container s definition changed");
    // An ordinary init container that runs is not restarted for that.
    let old = RuntimeContainer { hash: "other".to_owned(), ..one("i", Running) };
    assert_eq!(summary(&planned(&pod, &ready(vec![old, one("s", Running)]))), (vec![], vec![], false));
}

#[test]
fn a_new_sandbox_begins_with_the_first_sidecar_and_drops_the_old_ones() {
    let broken = runtime(vec![sandbox(0, SandboxState::NotReady)], vec![one("a", Exited), one("s", Exited)]);
    let plan = planned(&with_sidecars("Always", &["s"], &["a"]), &broken);
    assert_eq!((plan.create_sandbox, starts(&plan), texts(&plan.remove)), (Some(1), vec![("s", 1)], vec!["s0"]));
}

/// PAIN-36: by a local command.
#[test]
fn what_is_asked_to_restart_is_stopped_and_started_again() {
    let mut case = Case::new();
    case.restarts.extend(["a0", "s0"].map(ContainerId::from));
    let pod = with_sidecars("Never", &["s"], &["a"]);
    let plan = case.plan(&pod, &ready(vec![one("a", Running), one("s", Running)]));
    assert_eq!(summary(&plan), (vec!["s", "a"], vec!["s0", "a0"], false));
    assert!(plan.kill.iter().all(|kill| kill.reason == KillReason::OnDemand), "{:?}", plan.kill);
    assert_eq!(plan.kill[1].message, "Container a was asked to restart, will be restarted");
}

#[test]
fn what_was_stopped_to_be_started_again_is_started_whatever_its_end_was() {
    for exit_code in [0, 1, 137] {
        let stopped = instance("a", 2, Exited, exit_code);
        let mut case = Case::new();
        case.restarts.insert(stopped.id.clone());
        let plan = case.plan(&pod("Never", &[], &["a"]), &ready(vec![stopped]));
        assert_eq!((starts(&plan), plan.kill_pod), (vec![("a", 3)], None), "{exit_code}");
    }
}
