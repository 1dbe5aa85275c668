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

/// The call may have taken effect: the runtime is looked at before anything else is asked of it.
#[test]
fn a_resize_that_was_lost_is_looked_at_and_tried_again() {
    let pod = with_cpu(a_pod("Always", &[], &["a"]), "2");
    let mut script = resized(&pod, false);
    script.step(actuated("1"));
    assert_eq!(script.ends(JobEnd::lost(Job::Resize, "it panicked".to_owned())), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), [""; 0]);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.passes(10), ["resize [a]"]);
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

#[test]
fn a_cgroup_that_was_there_is_looked_at_once_something_runs_in_it() {
    let mut script = Script::stranger();
    let (gates, options) = (ResizeGates::default(), ResourceOptions::default());
    script.life = script.life.with_resizing(ResizeMeans { gates, options, per_pod: true });
    script.step(Input::Spec(Arc::new(with_cpu(a_pod("Always", &[], &["a"]), "2"))));
    script.step(Input::Actuated(PodResources::default()));
    assert_eq!(script.sees(&[ready(0)], &[]), ["prepare anew", "image a"]);
    assert_eq!(script.ends(JobEnd::Prepared(Ok(false))), [""; 0]);
    assert_eq!(script.ends(image_there("a")), ["start a 0 in s0 of app:1"]);
    assert_eq!(script.ends(started("a", "a0")), ["resize []"]);
}

/// KEP-2837: resources of the pod as a whole change behind their gate, where they differ from those that were noted.
#[test]
fn a_pods_own_resources_are_brought_into_force_behind_their_gate() {
    let resize = vec!["resize [] and pod"];
    for (by_pod, wanted, noted, expected) in [
        (true, Some("2"), Some("1"), resize.clone()),
        (true, Some("2"), None, resize),
        (true, Some("2"), Some("2"), vec![]),
        (true, None, Some("1"), vec![]),
        (false, Some("2"), Some("1"), vec![]),
    ] {
        let mut pod = a_pod("Always", &[], &["a"]);
        pod.spec.as_mut().expect("a spec").resources = wanted.map(cpu);
        let mut script = resized_with(&pod, false, ResizeGates { by_pod, ..ResizeGates::default() });
        let read = PodResources { pod: noted.map(cpu), ..PodResources::default() };
        assert_eq!(script.step(Input::Actuated(read)), expected, "{by_pod} {wanted:?} {noted:?}");
    }
}

/// POD-26: the pod has its room before a container that needs more of it.
#[test]
fn a_container_starts_once_the_others_have_their_new_resources() {
    let pod = with_cpu(a_pod("Always", &[], &["a", "b"]), "1");
    let a = running(&pod, "a", 0);
    let mut script = Script::stranger();
    let (gates, options) = (ResizeGates::default(), ResourceOptions::default());
    script.life = script.life.with_resizing(ResizeMeans { gates, options, per_pod: false });
    script.step(Input::Spec(Arc::new(pod)));
    assert_eq!(script.sees(&[ready(0)], std::slice::from_ref(&a)), ["prepare", "image b"]);
    assert_eq!(script.ends(image_there("b")), [""; 0]);
    assert_eq!(script.step(actuated("2")), [""; 0], "the pod's cgroup comes first");
    assert_eq!(script.ends(JobEnd::Prepared(Ok(false))), ["resize [a]"]);
    assert_eq!(script.step(Input::Due), [""; 0], "it is under way");
    assert_eq!(script.ends(JobEnd::Resized(report("1"))), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &[a]), ["start b 0 in s0 of app:1"]);
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

/// A container whose start failed late may have been made, with what the pod gave it then.
#[test]
fn a_start_that_failed_counts_for_the_resources_as_far_as_the_container_may_be_there() {
    for (reason, may_be_there) in [
        (StartReason::CreateContainerConfigError, false),
        (StartReason::CreateContainerError, true),
        (StartReason::RunContainerError, true),
        (StartReason::PostStartHookError, true),
    ] {
        let pod = with_cpu(a_pod("Always", &[], &["a"]), "2");
        let (mut script, _) = Script::new(pod);
        script.step(Input::Actuated(PodResources::default()));
        for end in [JobEnd::Prepared(Ok(true)), image_there("a")] {
            script.ends(end);
        }
        assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), ["start a 0 in s0 of app:1"]);
        let failure = StartFailure { reason, message: "it failed".to_owned() };
        script.ends(JobEnd::Started("a".to_owned(), Err(failure)));
        let actuated = script.life.actuated().expect("was read");
        assert_eq!(actuated.containers.get("a"), may_be_there.then(|| cpu("2")).as_ref(), "{reason}");
    }
}
