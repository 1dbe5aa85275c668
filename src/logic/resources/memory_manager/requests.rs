//! How much memory of each kind a container or pod is given for itself.
//!
//! Pure. Upstream: `getContainerRequestedResources` and `getPodRequestedResources`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::logic::model::quantity::Quantity;
use crate::logic::resources::pod_sums::is_sidecar;
use crate::logic::resources::{
    CPU, HUGEPAGES_PREFIX, MEMORY, QosClass, ResourceList, container_limits, container_requests,
    has_pod_level_resources, pod_qos, resource_list,
};

/// Bytes by kind of memory.
pub type Amounts = BTreeMap<String, u64>;

/// The gates that this manager follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// `PodLevelResources`.
    pub pod_level_resources: bool,
    /// `PodLevelResourceManagers`; it needs the other.
    pub pod_level_managers: bool,
}

/// An amount of memory that is no whole number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[memorymanager] failed to represent quantity as int64")]
pub struct NoWholeBytes;

impl Gates {
    /// Whether this pod's memory is managed as a whole.
    pub(super) fn whole_pod(self, pod: &Pod) -> bool {
        self.pod_level_managers && has_pod_level_resources(pod)
    }

    /// Whether the manager gives this pod nothing: it is not Guaranteed, or has pod-level resources that the gates
    /// do not let the manager handle.
    pub(super) fn passes_by(self, pod: &Pod) -> bool {
        pod_qos(pod, self.pod_level_resources) != QosClass::Guaranteed
            || has_pod_level_resources(pod) && !(self.pod_level_managers && self.pod_level_resources)
    }

    /// The amount that one container is given for itself. In a pod that is managed as a whole, a container whose requests
    /// are not its limits is given nothing: it shares.
    ///
    /// # Errors
    /// [`NoWholeBytes`].
    pub(super) fn of_container(self, pod: &Pod, container: &Container) -> Result<Amounts, NoWholeBytes> {
        if self.whole_pod(pod) && !is_guaranteed(container) {
            return Ok(Amounts::new());
        }
        amounts(&container_requests(container))
    }

    /// The amount that a whole pod is given: its own requests, else those of its containers at their largest moment.
    ///
    /// # Errors
    /// [`NoWholeBytes`].
    pub(super) fn of_pod(self, pod: &Pod) -> Result<Amounts, NoWholeBytes> {
        let Some(spec) = &pod.spec else { return Ok(Amounts::new()) };
        if self.whole_pod(pod) {
            let own = resource_list(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
            let mut amounts = amounts(&own)?;
            amounts.retain(|_, bytes| *bytes > 0);
            return Ok(amounts);
        }
        let (mut starting, mut sidecars) = (Amounts::new(), Amounts::new());
        for container in spec.init_containers.iter().flatten() {
            for (kind, bytes) in self.of_container(pod, container)? {
                let beside = sidecars.entry(kind.clone()).or_default();
                if is_sidecar(container) {
                    *beside = beside.saturating_add(bytes);
                } else {
                    let most = starting.entry(kind).or_default();
                    *most = beside.saturating_add(bytes).max(*most);
                }
            }
        }
        let mut sum = Amounts::new();
        for container in &spec.containers {
            for (kind, bytes) in self.of_container(pod, container)? {
                let all = sum.entry(kind).or_default();
                *all = all.saturating_add(bytes);
            }
        }
        // As upstream, a kind that only init containers ask for is not asked for.
        let at = |amounts: &Amounts, kind: &str| amounts.get(kind).copied().unwrap_or(0);
        for (kind, bytes) in &mut sum {
            *bytes = bytes.saturating_add(at(&sidecars, kind)).max(at(&starting, kind));
        }
        Ok(sum)
    }
}

/// Upstream's `IsContainerEquivalentQOSGuaranteed`.
fn is_guaranteed(container: &Container) -> bool {
    let (requests, limits) = (container_requests(container), container_limits(container));
    let amount = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or(Quantity::ZERO);
    [CPU, MEMORY].into_iter().all(|name| {
        let request = amount(&requests, name);
        !request.is_zero() && request == amount(&limits, name)
    })
}

/// The kinds of memory in a list. A request of `1.5Gi` is whole bytes; upstream takes it for none.
fn amounts(list: &ResourceList) -> Result<Amounts, NoWholeBytes> {
    let is_memory = |name: &str| name == MEMORY || name.starts_with(HUGEPAGES_PREFIX);
    let whole = |(name, quantity): (&String, &Quantity)| {
        let value = quantity.value();
        let is_whole = Quantity::from_units(value, quantity.format()) == *quantity;
        let bytes = u64::try_from(value).ok().filter(|_| is_whole).ok_or(NoWholeBytes)?;
        Ok((name.clone(), bytes))
    };
    list.iter().filter(|(name, _)| is_memory(name)).map(whole).collect()
}
