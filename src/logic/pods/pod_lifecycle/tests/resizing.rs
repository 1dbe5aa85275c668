//! Resources that change while a pod runs.

use k8s_openapi::api::core::v1::{ContainerResizePolicy, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::*;
use crate::logic::pods::pod_resize::{ResizeGates, ResizeReport};
use crate::logic::resources::ResourceOptions;

fn cpu(amount: &str) -> ResourceRequirements {
    let list = [("cpu".to_owned(), ApiQuantity(amount.to_owned()))].into();
    ResourceRequirements { requests: Some(list), ..ResourceRequirements::default() }
}

fn with_cpu(mut pod: Pod, amount: &str) -> Pod {
    pod.spec.as_mut().expect("a spec").containers[0].resources = Some(cpu(amount));
    pod
}

/// A pod whose one container runs; nothing is known yet of the resources that the runtime has.
fn resized(pod: &Pod, per_pod: bool) -> Script {
    resized_with(pod, per_pod, ResizeGates::default())
}

fn resized_with(pod: &Pod, per_pod: bool, gates: ResizeGates) -> Script {
    let means = ResizeMeans { gates, options: ResourceOptions::default(), per_pod };
    let mut script = Script::stranger();
    script.life = script.life.with_resizing(means);
    script.step(Input::Spec(Arc::new(pod.clone())));
    script.sees(&[ready(0)], &[running(pod, "a", 0)]);
    assert_eq!(script.ends(JobEnd::Prepared(Ok(false))), [""; 0]);
    script
}

fn actuated(amount: &str) -> Input {
    Input::Actuated(PodResources {
        containers: Arc::new([("a".to_owned(), cpu(amount))].into_iter().collect()),
        pod: None,
    })
}

fn report(amount: &str) -> ResizeReport {
    ResizeReport {
        containers: [("a".to_owned(), cpu(amount))].into_iter().collect(),
        changed: true,
        ..ResizeReport::default()
    }
}

/// POD-26.
#[test]
fn a_running_container_is_resized_once_it_is_known_what_it_has() {
    let pod = with_cpu(a_pod("Always", &[], &["a"]), "2");
    let mut script = resized(&pod, false);
    assert_eq!(script.life.is_in_force(), None, "nobody knows yet");
    assert_eq!(script.step(actuated("1")), ["resize [a]"]);
    assert_eq!(script.life.is_in_force(), Some(false));
    assert_eq!(script.ends(JobEnd::Resized(report("2"))), ["inspect"]);
    assert_eq!(script.life.is_in_force(), Some(true));
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), [""; 0]);
    assert_eq!(script.passes(60), [""; 0]);
}

#[test]
fn a_resize_that_fails_is_tried_again_and_another_one_at_once() {
    let pod = with_cpu(a_pod("Always", &[], &["a"]), "2");
    let mut script = resized(&pod, false);
    script.step(actuated("1"));
    let failed = ResizeReport { problem: Some("busy".to_owned()), ..ResizeReport::default() };
    assert_eq!(script.ends(JobEnd::Resized(failed)), [""; 0], "not without a pause");
    assert_eq!(script.life.is_in_force(), Some(false));
    let wanted = with_cpu(a_pod("Always", &[], &["a"]), "3");
    assert_eq!(script.step(Input::Spec(Arc::new(wanted))), ["resize [a]"]);
}

#[test]
fn a_policy_has_the_container_restarted_instead() {
    let mut pod = with_cpu(a_pod("Always", &[], &["a"]), "2");
    pod.spec.as_mut().expect("a spec").containers[0].resize_policy = Some(vec![ContainerResizePolicy {
        resource_name: "cpu".to_owned(),
        restart_policy: "RestartContainer".to_owned(),
    }]);
    let mut script = resized(&pod, false);
    assert_eq!(script.step(actuated("1")), ["kill a0 30s"]);
    script.ends(JobEnd::Killed("a0".into(), Ok(())));
    assert_eq!(script.sees(&[ready(0)], &[exited(&running(&pod, "a", 0), 143, Moment::EPOCH)]), ["image a"]);
    assert_eq!(script.ends(image_there("a")), ["start a 1 in s0 of app:1"]);
    // The runtime shows it before the job that starts it has ended: it is made with what it should have.
    let shown = [running(&pod, "a", 1), exited(&running(&pod, "a", 0), 143, Moment::EPOCH)];
    assert_eq!(script.sees(&[ready(0)], &shown), [""; 0]);
    assert_eq!(script.ends(started("a", "a1")), ["inspect soon"]);
    assert_eq!(script.sees(&[ready(0)], &shown), [""; 0]);
    assert_eq!(script.life.is_in_force(), Some(true));
}

/// A worker that was cut off between the container and the pod's cgroup must not leave it as it is.
#[test]
fn the_pods_cgroup_is_looked_at_once_after_a_start() {
    let pod = with_cpu(a_pod("Always", &[], &["a"]), "2");
    let mut script = resized(&pod, true);
    assert_eq!(script.step(actuated("2")), ["resize []"]);
    let cgroup = Some(PodFigures { cpu_shares: Some(2048), ..PodFigures::default() });
    assert_eq!(script.life.pod_figures(), None, "it was not looked at");
    assert_eq!(script.ends(JobEnd::Resized(ResizeReport { cgroup, ..ResizeReport::default() })), [""; 0]);
    assert_eq!(script.life.pod_figures(), cgroup.as_ref());
    assert_eq!(script.passes(60), [""; 0]);
    let wanted = with_cpu(a_pod("Always", &[], &["a"]), "1");
    assert_eq!(script.step(Input::Spec(Arc::new(wanted))), ["resize [a]"]);
}

#[test]
fn a_pods_own_resources_are_in_force_where_those_that_were_noted_are_the_same() {
    let gates = ResizeGates { by_pod: true, ..ResizeGates::default() };
    for (wanted, noted, expected) in [
        (Some("2"), Some("1"), false),
        (Some("2"), Some("2"), true),
        (Some("2"), None, true),
        (None, Some("1"), true),
        (None, None, true),
    ] {
        let mut pod = a_pod("Always", &[], &["a"]);
        pod.spec.as_mut().expect("a spec").resources = wanted.map(cpu);
        let mut script = resized_with(&pod, false, gates);
        script.step(Input::Actuated(PodResources { pod: noted.map(cpu), ..PodResources::default() }));
        assert_eq!(script.life.is_in_force(), Some(expected), "{wanted:?} {noted:?}");
    }
}

/// A cgroup that is made now has what the pod was given; one that was there before may have something else.
#[test]
fn a_cgroup_that_was_just_made_needs_no_look() {
    let gates = ResizeGates { by_pod: true, ..ResizeGates::default() };
    let means = ResizeMeans { gates, options: ResourceOptions::default(), per_pod: true };
    for made in [false, true] {
        let mut pod = with_cpu(a_pod("Always", &[], &["a"]), "2");
        pod.spec.as_mut().expect("a spec").resources = Some(cpu("4"));
        let mut script = Script::stranger();
        script.life = script.life.with_resizing(means);
        script.step(Input::Spec(Arc::new(pod)));
        script.sees(&[], &[]);
        script.step(Input::Actuated(PodResources::default()));
        script.ends(JobEnd::Prepared(Ok(made)));
        assert_eq!(script.life.pod_figures().is_some(), made);
        let own = script.life.actuated().and_then(|actuated| actuated.pod.clone());
        assert_eq!(own, made.then(|| cpu("4")));
    }
}
