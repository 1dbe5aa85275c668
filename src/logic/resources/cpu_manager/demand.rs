//! How many CPUs a container or a pod must have for itself.
//!
//! Pure. Only whole requests of Guaranteed pods count. Pod-level resources (KEP-2837) count under the gates
//! `PodLevelResources` and `PodLevelResourceManagers` (KEP-5526).

use k8s_openapi::api::core::v1::{Container, Pod};

use super::refusal::EmptyPool;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::pod_sums::is_sidecar;
use crate::logic::resources::{
    CPU, MEMORY, QosClass, container_limits, container_requests, has_pod_level_resources, pod_qos, resource_list,
};

/// The gates that resources of whole pods stand behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLevelGates {
    /// `PodLevelResources`.
    pub resources: bool,
    /// `PodLevelResourceManagers`.
    pub managers: bool,
}

/// A pod, as the managers of resources see it.
#[derive(Clone, Copy)]
pub(super) struct Demand<'a> {
    pod: &'a Pod,
    gates: PodLevelGates,
}

impl<'a> Demand<'a> {
    pub(super) fn of(pod: &'a Pod, gates: PodLevelGates) -> Self {
        Self { pod, gates }
    }

    /// Init containers, then the others.
    pub(super) fn containers(self) -> impl Iterator<Item = &'a Container> {
        self.init_containers().iter().chain(self.app_containers())
    }

    pub(super) fn init_containers(self) -> &'a [Container] {
        self.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
    }

    pub(super) fn app_containers(self) -> &'a [Container] {
        self.pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default()
    }

    /// Whether the pod's own resources take the place of its containers'.
    pub(super) fn is_pod_level(self) -> bool {
        self.gates.managers && has_pod_level_resources(self.pod)
    }

    /// Whether the managers leave the pod alone: it has resources of its own, and a gate is off.
    pub(super) fn is_left_alone(self) -> bool {
        !(self.gates.managers && self.gates.resources) && has_pod_level_resources(self.pod)
    }

    fn is_guaranteed(self) -> bool {
        pod_qos(self.pod, self.gates.resources) == QosClass::Guaranteed
    }

    /// CPUs that a container has for itself; 0: it runs on shared ones.
    pub(super) fn container(self, container: &Container) -> usize {
        if !self.is_guaranteed() || (self.is_pod_level() && !is_guaranteed(container)) {
            return 0;
        }
        whole(container_requests(container).get(CPU).copied())
    }

    /// CPUs that a pod has for itself: its own request, else the largest moment of its containers.
    pub(super) fn pod(self) -> usize {
        if self.is_pod_level() {
            let own = self.pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
            let requests = resource_list(own.and_then(|own| own.requests.as_ref()));
            return if self.is_guaranteed() { whole(requests.get(CPU).copied()) } else { 0 };
        }
        let (mut of_sidecars, mut of_inits) = (0, 0);
        for container in self.init_containers() {
            let cpus = self.container(container);
            if is_sidecar(container) {
                of_sidecars += cpus;
            } else {
                of_inits = of_inits.max(of_sidecars + cpus);
            }
        }
        let of_apps: usize = self.app_containers().iter().map(|container| self.container(container)).sum();
        of_inits.max(of_apps + of_sidecars)
    }

    /// Whether containers without CPUs of their own find some among the pod's; upstream's `validatePodScopeResources`.
    pub(super) fn check_pool(self) -> Result<(), EmptyPool> {
        let budget = self.pod();
        let (mut exclusive, mut shares) = (0, false);
        for container in self.init_containers() {
            match (self.container(container), is_sidecar(container)) {
                (0, true) => shares = true,
                (0, false) if exclusive >= budget => return Err(EmptyPool::Init),
                (cpus, true) => exclusive += cpus,
                (_, false) => {}
            }
        }
        for container in self.app_containers() {
            match self.container(container) {
                0 => shares = true,
                cpus => exclusive += cpus,
            }
        }
        if shares && exclusive >= budget { Err(EmptyPool::App) } else { Ok(()) }
    }
}

/// Whether a container alone would be Guaranteed; upstream's `IsContainerEquivalentQOSGuaranteed`.
pub(super) fn is_guaranteed(container: &Container) -> bool {
    let (requests, limits) = (container_requests(container), container_limits(container));
    [CPU, MEMORY].into_iter().all(|name| {
        let request = requests.get(name).copied().unwrap_or_default();
        !request.is_zero() && request == limits.get(name).copied().unwrap_or_default()
    })
}

/// A whole number of CPUs; 0 where it is none.
pub(super) fn whole(cpus: Option<Quantity>) -> usize {
    let cpus = cpus.unwrap_or_default();
    let is_whole = cpus.value().checked_mul(1000) == Some(cpus.milli_value());
    if is_whole { usize::try_from(cpus.value()).unwrap_or(0) } else { 0 }
}
