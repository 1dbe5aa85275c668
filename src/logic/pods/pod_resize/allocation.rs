//! From a pod to what it is given, and back: which containers' resources a resize may change, and pods with what they were
//! given in the place of what they ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::{PodResources, ResizeGates};
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::resources::resource_list;

/// Whether resizes are about this container (upstream's `IsResizableContainer`).
pub fn is_resizable(kind: ContainerKind, container: &Container, gates: &ResizeGates) -> bool {
    match kind {
        ContainerKind::Regular => true,
        ContainerKind::Init => gates.init_containers || is_sidecar(container),
        ContainerKind::Ephemeral => false,
    }
}

/// The containers of a pod that resizes are about.
pub(super) fn resizable<'a>(spec: &'a PodSpec, gates: &'a ResizeGates) -> impl Iterator<Item = &'a Container> {
    let init = spec.init_containers.iter().flatten().filter(|one| is_resizable(ContainerKind::Init, one, gates));
    init.chain(&spec.containers)
}

/// The allocation of a pod that gets all that it asks for.
pub fn allocation_of(pod: &Pod, gates: &ResizeGates) -> PodResources {
    let Some(spec) = &pod.spec else { return PodResources::default() };
    let of = |container: &Container| (container.name.clone(), container.resources.clone().unwrap_or_default());
    PodResources {
        containers: Arc::new(resizable(spec, gates).map(of).collect()),
        pod: spec.resources.clone().filter(|_| gates.by_pod),
    }
}

/// The pod with what it was given in the place of what it asks for; itself where that is the same.
pub fn with_allocation(pod: &Arc<Pod>, given: &PodResources, gates: &ResizeGates) -> Arc<Pod> {
    let Some(spec) = &pod.spec else { return Arc::clone(pod) };
    let given_to = |container: &Container| given.containers.get(&container.name);
    let is_same = |container: &Container| {
        given_to(container).is_none_or(|given| same_requirements(container.resources.as_ref(), Some(given)))
    };
    let same_pod = !gates.by_pod || same_requirements(spec.resources.as_ref(), given.pod.as_ref());
    if same_pod && spec.init_containers.iter().flatten().chain(&spec.containers).all(is_same) {
        return Arc::clone(pod);
    }
    let mut pod = Pod::clone(pod);
    let spec = pod.spec.as_mut().expect("checked above");
    if !same_pod {
        spec.resources.clone_from(&given.pod);
    }
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if let Some(given) = given.containers.get(&container.name) {
            container.resources = Some(given.clone());
        }
    }
    Arc::new(pod)
}

/// Whether two requirements ask for the same, however they are written.
pub fn same_requirements(one: Option<&ResourceRequirements>, other: Option<&ResourceRequirements>) -> bool {
    type List = Option<BTreeMap<String, ApiQuantity>>;
    if one == other {
        return true; // As nearly always: then no text is read.
    }
    let same = |of: fn(&ResourceRequirements) -> &List| {
        let list = |one: Option<&ResourceRequirements>| resource_list(one.and_then(|one| of(one).as_ref()));
        list(one) == list(other)
    };
    let claims = |one: Option<&ResourceRequirements>| one.and_then(|one| one.claims.clone()).unwrap_or_default();
    same(|one| &one.requests) && same(|one| &one.limits) && claims(one) == claims(other)
}

/// Whether two pods' resources are the same, however they are written.
pub fn same_resources(one: &PodResources, other: &PodResources) -> bool {
    let same = |(name, own): (&String, &ResourceRequirements)| same_requirements(Some(own), other.containers.get(name));
    one.containers.len() == other.containers.len()
        && one.containers.iter().all(same)
        && same_requirements(one.pod.as_ref(), other.pod.as_ref())
}
