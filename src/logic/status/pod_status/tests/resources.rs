//! Resources in the status (RES-55).

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::*;
use crate::logic::model::runtime_pod::RuntimeResources;
use crate::logic::pods::pod_resize::{PendingReason, PendingResize};
use ContainerState::{Exited, Running};

/// Of `cpu=1,memory=1Gi`.
fn list(text: &str) -> Option<BTreeMap<String, ApiQuantity>> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let list: BTreeMap<_, _> = pairs.map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned()))).collect();
    (!list.is_empty()).then_some(list)
}

fn resources(requests: &str, limits: &str) -> ResourceRequirements {
    ResourceRequirements { requests: list(requests), limits: list(limits), claims: None }
}

/// A pod whose one container was given this, and runs with what the runtime tells.
fn given(requests: &str, limits: &str, told: Option<RuntimeResources>) -> Setup {
    let running = RuntimeContainer { resources: told, ..instance("a", 0, Running, 0) };
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![running]);
    setup.spec().containers[0].resources = Some(resources(requests, limits));
    setup
}

fn resources_of(setup: &Setup) -> ResourceRequirements {
    of(&setup.status(), "a").resources.clone().expect("resources")
}

fn runtime_resources(cpu_request: i64, cpu_limit: i64, memory_limit: i64) -> Option<RuntimeResources> {
    let some = |value: i64| (value > 0).then_some(value);
    let (cpu_request, cpu_limit, memory_limit) = (some(cpu_request), some(cpu_limit), some(memory_limit));
    Some(RuntimeResources { cpu_request, cpu_limit, memory_limit })
}

#[test]
fn a_running_container_shows_what_is_in_force_and_another_what_was_given() {
    let (requests, limits) = ("cpu=100m,memory=10Mi", "cpu=200m,memory=20Mi");
    let mut setup = given(requests, limits, runtime_resources(50, 80, 16 << 20));
    assert_eq!(resources_of(&setup), resources("cpu=50m,memory=10Mi", "cpu=80m,memory=16Mi"));
    // Of memory that is asked for the runtime knows nothing: the resources that it got were noted.
    let noted = [("a".to_owned(), resources("cpu=1,memory=12Mi", "cpu=1,memory=1Gi"))].into_iter().collect();
    setup.actuated = Some(PodResources { containers: Arc::new(noted), pod: None });
    assert_eq!(resources_of(&setup), resources("cpu=50m,memory=12Mi", "cpu=80m,memory=16Mi"));
    // So has one that reports nothing at all the resources that it got.
    setup.runtime.containers[0].resources = None;
    assert_eq!(resources_of(&setup), resources("cpu=1,memory=12Mi", "cpu=1,memory=1Gi"));
    setup.runtime.containers[0] =
        RuntimeContainer { resources: runtime_resources(50, 80, 16 << 20), ..instance("a", 0, Exited, 1) };
    assert_eq!(resources_of(&setup), resources(requests, limits));
}

#[test]
fn what_nobody_tells_stays_as_it_was_shown_of_the_same_instance() {
    let mut setup = given("cpu=100m,memory=10Mi", "cpu=200m,memory=20Mi", runtime_resources(50, 80, 16 << 20));
    setup.step();
    setup.runtime.containers[0].resources = None;
    assert_eq!(resources_of(&setup), resources("cpu=50m,memory=10Mi", "cpu=80m,memory=16Mi"));
    setup.runtime.containers = vec![RuntimeContainer { resources: None, ..instance("a", 1, Running, 0) }];
    assert_eq!(resources_of(&setup), resources("cpu=100m,memory=10Mi", "cpu=200m,memory=20Mi"));
}

/// The spec holds the allocation, which a resize changes before it is in force.
#[test]
fn the_allocation_of_a_container_is_told_beside_what_is_in_force() {
    let setup = given("cpu=100m,memory=10Mi", "cpu=200m", runtime_resources(50, 80, 0));
    assert_eq!(of(&setup.status(), "a").allocated_resources, list("cpu=100m,memory=10Mi"));
}

/// A resize that is not in force yet may add an amount: none was given to the runtime so far.
#[test]
fn an_amount_that_was_not_given_to_the_runtime_is_no_zero() {
    let (requests, limits) = ("cpu=100m,memory=10Mi", "cpu=200m,memory=20Mi");
    let mut setup = given(requests, limits, None);
    let noted = [("a".to_owned(), ResourceRequirements::default())].into_iter().collect();
    setup.actuated = Some(PodResources { containers: Arc::new(noted), pod: None });
    assert_eq!(resources_of(&setup), resources(requests, limits));
}

/// The kernel takes all of them for the same.
#[test]
fn of_numbers_that_are_too_small_to_differ_the_given_ones_are_shown() {
    for (request, limit, in_force, expected) in [
        ("1m", "5m", runtime_resources(2, 10, 0), resources("cpu=1m", "cpu=5m")),
        ("1m", "5m", runtime_resources(50, 80, 0), resources("cpu=50m", "cpu=80m")),
        ("100m", "200m", runtime_resources(2, 10, 0), resources("cpu=2m", "cpu=10m")),
        ("2m", "10m", runtime_resources(1, 5, 0), resources("cpu=2m", "cpu=10m")),
    ] {
        let setup = given(&format!("cpu={request}"), &format!("cpu={limit}"), in_force);
        assert_eq!(resources_of(&setup), expected, "{request} {limit}");
    }
}

#[test]
fn a_whole_pod_shows_what_is_in_force_once_it_runs() {
    let mut setup = given("cpu=100m,memory=10Mi", "cpu=200m,memory=20Mi", None);
    assert_eq!(setup.status().resources, None, "the gate is off");
    setup.by_pod = true;
    let as_given = resources("cpu=100m,memory=10Mi", "cpu=200m,memory=20Mi");
    setup.figures = Some(PodFigures {
        cpu_shares: Some(512),
        cpu_quota: Some(150_000),
        cpu_period: Some(100_000),
        memory_limit: Some(1 << 30),
    });
    let running = std::mem::take(&mut setup.runtime.containers);
    assert_eq!(setup.status().resources, Some(as_given.clone()), "it does not run");
    assert_eq!(setup.status().allocated_resources, as_given.requests);
    setup.runtime.containers = running;
    let in_force = resources("cpu=500m,memory=10Mi", "cpu=1500m,memory=1Gi");
    assert_eq!(setup.status().resources, Some(in_force.clone()), "nobody may tell it after this status");
    setup.pod.status = Some(PodStatus { phase: Some(RUNNING.to_owned()), ..PodStatus::default() });
    assert_eq!(setup.step().resources, Some(in_force.clone()));
    // A cgroup without figures says nothing new.
    for memory_limit in [None, Some(0)] {
        setup.figures = Some(PodFigures { memory_limit, ..PodFigures::default() });
        assert_eq!(setup.status().resources, Some(in_force.clone()));
    }
    // Nor does a pod whose cgroup is gone.
    setup.figures = None;
    assert_eq!(setup.status().resources, Some(in_force));
}

/// As upstream: the status of a pod that runs has the pod's own part of the spec, CPUs and memory.
#[test]
fn other_resources_of_a_pod_are_shown_until_it_runs() {
    let asks = "cpu=100m,ephemeral-storage=1Gi,example.com/foo=1,hugepages-2Mi=4Mi,memory=10Mi";
    let mut setup = given(asks, asks, None);
    setup.by_pod = true;
    for (phase, figures, shown) in [
        (PENDING, None, asks),
        (RUNNING, Some(1 << 30), "cpu=100m,memory=10Mi"),
        (RUNNING, None, "cpu=100m,memory=10Mi"),
        ("Succeeded", None, "cpu=100m,memory=10Mi"),
    ] {
        let cpu_shares = Some(102);
        setup.figures =
            figures.map(|memory| PodFigures { cpu_shares, memory_limit: Some(memory), ..PodFigures::default() });
        setup.pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        let is_made = phase != PENDING;
        setup.runtime.containers = is_made.then(|| instance("a", 0, Running, 0)).into_iter().collect();
        assert_eq!(setup.step().resources.and_then(|all| all.requests), list(shown), "{phase} {figures:?}");
    }
}

#[test]
fn a_pod_that_asks_for_nothing_has_no_resources_to_show() {
    for phase in [PENDING, RUNNING] {
        let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, Running, 0)]);
        (setup.by_pod, setup.figures) = (true, Some(PodFigures::default()));
        setup.pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        assert_eq!((setup.status().resources, setup.status().allocated_resources), (None, None), "{phase}");
    }
    let mut asks = given("cpu=100m", "", None);
    asks.by_pod = true;
    assert_eq!(asks.status().resources, Some(resources("cpu=100m", "")), "no list of nothing");
}

#[test]
fn a_resize_that_waits_is_told_until_the_pod_is_over() {
    let (reason, message) = (PendingReason::Deferred, "no room".to_owned());
    let pending = PendingResize { reason, message, generation: Some(3), since: at(NOW) };
    let mut setup = Setup::new("Never", &[], &["a"]).holding(vec![instance("a", 0, Running, 0)]);
    setup.resize.pending = Some(pending);
    for terminal in [false, true] {
        setup.terminal = terminal;
        let told = conditions::find(&setup.status(), "PodResizePending").is_some();
        assert_eq!(told, !terminal);
    }
}
