//! Whether a pod's resources can be aligned, and what its containers are given then (RES-36, RES-37).
//!
//! Pure. Upstream: `scope*.go`. Unlike upstream, a refused pod keeps nothing: all that this admission gave is taken
//! back at once, and not when the next pod asks.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::explanation::{Explanation, Unit};
use super::hints::{Hint, Hints};
use super::policy::{Policy, PolicyKind, Scope};
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::resources::has_pod_level_resources;

/// A manager whose resources have a place; upstream's `HintProvider`.
///
/// The caller removes what pods that are gone held before it asks, as upstream's managers do.
pub trait Provider {
    /// Where one container's resources could come from.
    fn hints(&self, pod: &Pod, container: &Container) -> Hints;
    /// Where the resources of all containers of a pod together could come from.
    fn pod_hints(&self, pod: &Pod) -> Hints;
    /// Gives one container its resources, near to the nodes of `affinity`. An earlier allocation stays.
    ///
    /// # Errors
    /// Why it cannot be given.
    fn allocate(&mut self, pod: &Pod, container: &Container, affinity: &Hint) -> Result<(), AllocationFailure>;
    /// Gives a pod with pod-level resources its resources and shares them out (`PodLevelResourceManagers`).
    ///
    /// # Errors
    /// Why it cannot be given.
    fn allocate_pod(&mut self, pod: &Pod, affinity: &Hint) -> Result<(), AllocationFailure>;
    /// Remembers what everybody holds now.
    fn mark(&mut self);
    /// Returns to what everybody held at the last [`mark`](Self::mark).
    fn revert(&mut self);
}

/// Why a manager cannot give a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationFailure {
    /// An error that upstream gives no reason of its own.
    Unexpected(String),
    /// An error with a reason of its own, `SMTAlignmentError` say.
    Reasoned {
        /// The pod's reason.
        reason: AdmissionReason,
        /// The pod's message.
        message: String,
    },
}

/// Why a pod is refused. `Display` is the message as upstream words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The policy does not admit what the hints allow.
    #[error("Resources cannot be allocated with Topology locality")]
    Unaligned,
    /// The same of a pod with pod-level resources.
    #[error("Pod Scope pod with pod-level resources failed admission {}", .0)]
    PodLevelUnaligned(PodLevelScope),
    /// A manager could not give what its hints promised.
    #[error("Allocate failed due to {0}, which is unexpected")]
    Unexpected(String),
    /// A manager refused with a reason of its own.
    #[error("{message}")]
    Reasoned {
        /// The pod's reason.
        reason: AdmissionReason,
        /// The pod's message.
        message: String,
    },
}

/// Which scope refused a pod with pod-level resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLevelScope {
    /// The container scope cannot align a pod as a whole.
    Container,
    /// The pod scope could not align it.
    Pod,
}

impl std::fmt::Display for PodLevelScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Container => "with a container-level topology manager",
            Self::Pod => "under pod-scope topology manager",
        })
    }
}

impl Refusal {
    /// The reason in the pod's status.
    pub fn reason(&self) -> AdmissionReason {
        match self {
            Self::Unaligned | Self::PodLevelUnaligned(_) => AdmissionReason::TopologyAffinityError,
            Self::Unexpected(_) => AdmissionReason::UnexpectedAdmissionError,
            Self::Reasoned { reason, .. } => reason.clone(),
        }
    }
}

impl From<AllocationFailure> for Refusal {
    fn from(failure: AllocationFailure) -> Self {
        match failure {
            AllocationFailure::Unexpected(error) => Self::Unexpected(error),
            AllocationFailure::Reasoned { reason, message } => Self::Reasoned { reason, message },
        }
    }
}

/// Counts of one admission; its duration is the caller's to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// `topology_manager_admission_requests_total`.
    pub requests: u64,
    /// `topology_manager_admission_errors_total`.
    pub errors: u64,
    /// `container_aligned_compute_resources_count` with the scope of the manager and the boundary `numa_node`.
    pub aligned: u64,
    /// `container_aligned_compute_resources_failure_count` with the same labels.
    pub alignment_failures: u64,
}

/// The outcome of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Why the pod is refused; nothing was given then.
    pub result: Result<(), Refusal>,
    /// Which nodes were chosen for what, and why not others; the last one is the one that a refusal is about.
    pub explanations: Vec<Explanation>,
    /// Its counts.
    pub figures: Figures,
}

/// The settings that admission follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyManager {
    /// The policy for this machine.
    pub policy: Policy,
    /// For what unit resources are aligned; the policy `none` aligns none.
    pub scope: Scope,
    /// The gates `PodLevelResources` and `PodLevelResourceManagers` are both on.
    pub pod_level: bool,
}

impl TopologyManager {
    /// Gives a pod its resources, all of them or none. The providers are asked in their order; upstream's is devices,
    /// CPUs, memory.
    pub fn admit(&self, providers: &mut [&mut dyn Provider], pod: &Pod) -> Admission {
        providers.iter_mut().for_each(|provider| provider.mark());
        let mut run = Run { manager: self, providers, pod, explanations: vec![], figures: Figures::default() };
        run.figures.requests = 1;
        let result = run.admit();
        if result.is_err() {
            run.providers.iter_mut().for_each(|provider| provider.revert());
        }
        Admission { result, explanations: run.explanations, figures: run.figures }
    }

    fn aligns_whole_pod(&self, pod: &Pod) -> bool {
        self.pod_level && has_pod_level_resources(pod)
    }
}

/// One admission under way.
struct Run<'a, 'b> {
    manager: &'a TopologyManager,
    providers: &'a mut [&'b mut dyn Provider],
    pod: &'a Pod,
    explanations: Vec<Explanation>,
    figures: Figures,
}

impl Run<'_, '_> {
    fn admit(&mut self) -> Result<(), Refusal> {
        match (self.manager.policy.kind(), self.manager.scope) {
            // As upstream, errors of this policy are no errors of the topology manager.
            (PolicyKind::None, _) => {
                let affinity = Hint { nodes: None, preferred: false };
                containers(self.pod).try_for_each(|container| self.allocate(container, &affinity))
            }
            (_, Scope::Container) => self.admit_containers(),
            (_, Scope::Pod) => self.admit_pod(),
        }
    }

    fn admit_containers(&mut self) -> Result<(), Refusal> {
        for container in containers(self.pod) {
            let hints: Vec<Hints> = self.providers.iter().map(|provider| provider.hints(self.pod, container)).collect();
            let affinity = self.align(Unit::Container(container.name.clone()), &hints, PodLevelScope::Container)?;
            self.allocate(container, &affinity).inspect_err(|_| self.figures.errors += 1)?;
            self.count_aligned();
        }
        Ok(())
    }

    fn admit_pod(&mut self) -> Result<(), Refusal> {
        let hints: Vec<Hints> = self.providers.iter().map(|provider| provider.pod_hints(self.pod)).collect();
        let affinity = self.align(Unit::Pod, &hints, PodLevelScope::Pod)?;
        let given = match self.manager.aligns_whole_pod(self.pod) {
            true => self.providers.iter_mut().try_for_each(|one| one.allocate_pod(self.pod, &affinity)),
            false => containers(self.pod).try_for_each(|container| {
                self.providers.iter_mut().try_for_each(|one| one.allocate(self.pod, container, &affinity))
            }),
        };
        given.map_err(Refusal::from).inspect_err(|_| self.figures.errors += 1)?;
        self.count_aligned();
        Ok(())
    }

    fn align(&mut self, unit: Unit, hints: &[Hints], scope: PodLevelScope) -> Result<Hint, Refusal> {
        let policy = &self.manager.policy;
        let verdict = policy.merge(hints);
        self.explanations.push(Explanation::of(policy, unit, hints, &verdict));
        if verdict.admit {
            return Ok(verdict.hint);
        }
        self.figures.errors += 1;
        self.figures.alignment_failures += u64::from(policy.guarantees_alignment());
        match self.manager.aligns_whole_pod(self.pod) {
            true => Err(Refusal::PodLevelUnaligned(scope)),
            false => Err(Refusal::Unaligned),
        }
    }

    fn allocate(&mut self, container: &Container, affinity: &Hint) -> Result<(), Refusal> {
        self.providers.iter_mut().try_for_each(|one| one.allocate(self.pod, container, affinity))?;
        Ok(())
    }

    fn count_aligned(&mut self) {
        self.figures.aligned += u64::from(self.manager.policy.guarantees_alignment());
    }
}

/// The containers in the order in which they are given resources: init containers first.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

#[cfg(test)]
mod tests;
