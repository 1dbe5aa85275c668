//! Allocations of pods, and pods with their allocation in the place of their wishes.

use k8s_openapi::api::core::v1::{EphemeralContainer, ResourceClaim};

use super::*;
use crate::logic::pods::pod_containers::ContainerKind;

const NO_INITS: ResizeGates = ResizeGates { init_containers: false, ..GATES };
const NO_PODS: ResizeGates = ResizeGates { by_pod: false, ..GATES };

#[test]
fn a_pod_with_its_allocation_has_what_it_was_given_and_all_else_as_it_is() {
    let before = pod("cpu=100m,memory=64Mi", "cpu=200m");
    let given = allocation_of(&before, &GATES);
    let mut after = pod("cpu=300m,memory=64Mi", "cpu=400m");
    spec(&mut after).containers[0].image = Some("app:2".to_owned());
    let after = Arc::new(after);
    let held = with_allocation(&after, &given, &GATES);
    let container = &held.spec.as_ref().expect("a spec").containers[0];
    assert_eq!(container.resources, Some(requirements("cpu=100m,memory=64Mi", "cpu=200m")));
    assert_eq!(container.image.as_deref(), Some("app:2"));
    assert_eq!(held.metadata, after.metadata);
}

/// The same pod comes back, not a copy, where nothing differs: most pods are never resized.
#[test]
fn a_pod_that_has_what_it_asks_for_is_not_copied() {
    let whole = with_own(pod("cpu=100m", ""), "cpu=1", "");
    for (now, given, gates) in [
        (
            pod("cpu=100m,memory=64Mi", "cpu=200m"),
            allocation_of(&pod("cpu=0.1,memory=65536Ki", "cpu=0.2"), &GATES),
            GATES,
        ),
        (pod("cpu=2", ""), PodResources::default(), GATES),
        (pod("cpu=2", ""), given_to(&[("gone", requirements("cpu=1", ""))], None), GATES),
        (whole.clone(), allocation_of(&whole, &GATES), GATES),
        // Nobody was given resources of pods while the gate was off.
        (whole.clone(), allocation_of(&whole, &NO_PODS), NO_PODS),
        (Pod::default(), allocation_of(&whole, &GATES), GATES),
    ] {
        let now = Arc::new(now);
        assert!(Arc::ptr_eq(&with_allocation(&now, &given, &gates), &now), "{now:?}");
    }
}

#[test]
fn containers_pods_and_init_containers_get_back_what_they_were_given() {
    let whole = |own: &str, container_cpu: &str, init: &str| {
        let pod = with_own(pod(container_cpu, ""), own, "");
        with_inits(pod, vec![container("i", init, ""), sidecar("s", init, "")])
    };
    let before = whole("cpu=4", "cpu=1", "cpu=500m");
    let given = allocation_of(&before, &GATES);
    for after in [
        whole("cpu=5", "cpu=1", "cpu=500m"),
        whole("cpu=4", "cpu=2", "cpu=500m"),
        whole("cpu=4", "cpu=1", "cpu=600m"),
        whole("cpu=1", "cpu=2", "cpu=3"),
        with_inits(pod("cpu=1", ""), vec![container("i", "", ""), sidecar("s", "", "")]),
    ] {
        assert_eq!(with_allocation(&Arc::new(after.clone()), &given, &GATES).spec, before.spec, "{after:?}");
    }
    // Behind its gate the pod's own part stays what it asks for.
    let after = Arc::new(whole("cpu=5", "cpu=2", "cpu=500m"));
    assert_eq!(with_allocation(&after, &given, &NO_PODS).spec, whole("cpu=5", "cpu=1", "cpu=500m").spec);
}

/// A container that asks for nothing was given nothing: that is an allocation, too.
#[test]
fn nothing_is_an_allocation() {
    let mut bare = pod("", "");
    spec(&mut bare).containers[0].resources = None;
    let given = allocation_of(&bare, &GATES);
    assert_eq!(given.containers.get("a"), Some(&ResourceRequirements::default()));
    let more = Arc::new(pod("cpu=1", ""));
    let held = with_allocation(&more, &given, &GATES);
    assert_eq!(held.spec.as_ref().expect("a spec").containers[0].resources, Some(ResourceRequirements::default()));
    assert_eq!(allocation_of(&Pod::default(), &GATES), PodResources::default());
}

#[test]
fn ordinary_init_containers_are_resized_behind_their_gate_and_sidecars_always() {
    let pod = with_inits(pod("cpu=1", ""), vec![container("i", "cpu=1", ""), sidecar("s", "cpu=1", "")]);
    let names = |gates: ResizeGates| allocation_of(&pod, &gates).containers.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(GATES), ["a", "i", "s"]);
    assert_eq!(names(NO_INITS), ["a", "s"]);
    let (plain, side) = (container("x", "", ""), sidecar("x", "", ""));
    for (kind, one, with, without) in [
        (ContainerKind::Regular, &plain, true, true),
        (ContainerKind::Init, &plain, true, false),
        (ContainerKind::Init, &side, true, true),
        (ContainerKind::Ephemeral, &plain, false, false),
    ] {
        assert_eq!((is_resizable(kind, one, &GATES), is_resizable(kind, one, &NO_INITS)), (with, without), "{kind:?}");
    }
}

#[test]
fn containers_for_debugging_are_given_nothing() {
    let mut pod = pod("cpu=1", "");
    let debug = EphemeralContainer { name: "debug".to_owned(), ..EphemeralContainer::default() };
    spec(&mut pod).ephemeral_containers = Some(vec![debug]);
    assert_eq!(allocation_of(&pod, &GATES).containers.keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn the_pods_own_part_is_given_behind_its_gate() {
    let pod = with_own(pod("cpu=1", ""), "cpu=2", "memory=1Gi");
    assert_eq!(allocation_of(&pod, &GATES).pod, Some(requirements("cpu=2", "memory=1Gi")));
    assert_eq!(allocation_of(&pod, &NO_PODS).pod, None);
}

#[test]
fn requirements_are_the_same_by_value() {
    let none = ResourceRequirements::default();
    let empty =
        ResourceRequirements { requests: Some(BTreeMap::new()), limits: Some(BTreeMap::new()), claims: Some(vec![]) };
    let claiming = |name: &str| ResourceRequirements {
        claims: Some(vec![ResourceClaim { name: name.to_owned(), request: None }]),
        ..requirements("cpu=1", "")
    };
    for (one, other, same) in [
        (requirements("cpu=1", ""), requirements("cpu=1000m", ""), true),
        (requirements("memory=1Gi", "memory=1Gi"), requirements("memory=1024Mi", "memory=1048576Ki"), true),
        (requirements("cpu=1", ""), requirements("", "cpu=1"), false),
        (requirements("cpu=1", ""), requirements("cpu=1001m", ""), false),
        (requirements("cpu=1", ""), requirements("cpu=1,memory=1Mi", ""), false),
        (none.clone(), empty, true),
        (claiming("gpu"), claiming("gpu"), true),
        (claiming("gpu"), claiming("nic"), false),
        (claiming("gpu"), requirements("cpu=1", ""), false),
    ] {
        assert_eq!(same_requirements(Some(&one), Some(&other)), same, "{one:?} {other:?}");
        assert_eq!(same_requirements(Some(&other), Some(&one)), same, "{other:?} {one:?}");
    }
    assert!(same_requirements(None, Some(&none)) && same_requirements(None, None));
    assert!(!same_requirements(None, Some(&requirements("cpu=1", ""))));
}

#[test]
fn pods_resources_are_the_same_container_by_container() {
    let cpu = |amount: &str| requirements(&format!("cpu={amount}"), "");
    let base = given_to(&[("a", cpu("1")), ("b", cpu("2"))], Some(cpu("3")));
    for (other, same) in [
        (given_to(&[("a", cpu("1000m")), ("b", cpu("2"))], Some(cpu("3000m"))), true),
        (given_to(&[("a", cpu("2")), ("b", cpu("1"))], Some(cpu("3"))), false),
        (given_to(&[("a", cpu("1"))], Some(cpu("3"))), false),
        (given_to(&[("a", cpu("1")), ("c", cpu("2"))], Some(cpu("3"))), false),
        (given_to(&[("a", cpu("1")), ("b", cpu("2"))], None), false),
    ] {
        assert_eq!((same_resources(&base, &other), same_resources(&other, &base)), (same, same), "{other:?}");
    }
}
