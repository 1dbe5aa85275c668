//! The CPU manager as one value: the policy, the state, and what is counted; upstream's `cpumanager.Manager`.
//!
//! Pure. One actor owns it: it asks for hints and allocates on a clone. Then it writes the clone's checkpoint to the disk
//! and goes on with the clone, so that a failed write changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod};

use super::cpu_set::CpuSet;
use super::demand::{Demand, PodLevelGates, is_guaranteed, whole};
use super::policy::{Given, Reusable, StaticPolicy};
use super::refusal::Refusal;
use super::state::{CpuState, StateError};
use super::take::Taken;
use super::{alignment, checkpoint, demand};
use crate::logic::model::ids::PodUid;
use crate::logic::resources::topology::hints::{Hints, NumaMask};
use crate::logic::resources::{CPU, container_limits};

/// `cpuManagerPolicy`.
#[derive(Clone, Debug)]
pub enum CpuPolicy {
    /// Containers run anywhere.
    None {
        /// Gates; they decide the form of the file of state.
        gates: PodLevelGates,
    },
    /// Some containers have CPUs for themselves.
    Static(StaticPolicy),
}

impl CpuPolicy {
    /// The name in the configuration and in the file of state.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None { .. } => "none",
            Self::Static(_) => "static",
        }
    }

    pub(in crate::logic::resources) fn gates(&self) -> PodLevelGates {
        match self {
            Self::None { gates } => *gates,
            Self::Static(policy) => policy.gates(),
        }
    }
}

/// How far a container's CPUs are its own; upstream's `ResourceIsolationLevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// It shares CPUs with containers of other pods.
    Host,
    /// It shares CPUs with containers of its pod.
    Pod,
    /// Nobody else runs on its CPUs.
    Container,
}

/// Counts since the start: upstream's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// `kubelet_cpu_manager_pinning_requests_total`.
    pub pinning_requests: u64,
    /// `kubelet_cpu_manager_pinning_errors_total`.
    pub pinning_errors: u64,
    /// `kubelet_container_aligned_compute_resources_count{scope="container",boundary="physical_cpu"}`.
    pub aligned_cores: u64,
    /// `kubelet_container_aligned_compute_resources_failure_count{scope="container",boundary="physical_cpu"}`.
    pub misaligned_cores: u64,
    /// `kubelet_container_aligned_compute_resources_count{scope="container",boundary="uncore_cache"}`.
    pub aligned_uncores: u64,
    /// `resource_manager_allocations_total{resource_name="cpu",source="node"}`.
    pub allocations_of_node: u64,
    /// `resource_manager_allocations_total{resource_name="cpu",source="pod"}`.
    pub allocations_of_pod: u64,
    /// `resource_manager_allocation_errors_total{resource_name="cpu",source="node"}`.
    pub errors_of_node: u64,
    /// `resource_manager_allocation_errors_total{resource_name="cpu",source="pod"}`.
    pub errors_of_pod: u64,
    /// `resource_manager_container_assignments{resource_name="cpu",assignment_type="node_exclusive"}`.
    pub node_exclusive: u64,
    /// `resource_manager_container_assignments{resource_name="cpu",assignment_type="pod_exclusive"}`.
    pub pod_exclusive: u64,
    /// `resource_manager_container_assignments{resource_name="cpu",assignment_type="pod_shared"}`.
    pub pod_shared: u64,
}

/// Figures of the CPU manager for metrics; all zero under the policy `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFigures {
    /// Counters.
    pub counts: CpuCounts,
    /// `kubelet_cpu_manager_shared_pool_size_millicores`: shared CPUs without the reserved ones.
    pub shared_pool_millicores: u64,
    /// `kubelet_cpu_manager_exclusive_cpu_allocation_count`.
    pub exclusive_cpus: u64,
    /// `kubelet_cpu_manager_allocation_per_numa`, each NUMA node of the machine.
    pub exclusive_by_node: BTreeMap<u8, u64>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CpuManager {
    policy: CpuPolicy,
    state: CpuState,
    reusable: Reusable,
    counts: CpuCounts,
    /// The state before the admission that is under way.
    marked: Option<(CpuState, Reusable)>,
    /// Allocations of that admission, by container; the empty name is the pod as a whole.
    given: Vec<(String, Given)>,
}

impl CpuManager {
    /// A manager that goes on from this state; the default one where no file was.
    ///
    /// # Errors
    /// When the static policy cannot go on from it: upstream ends then.
    pub fn new(policy: CpuPolicy, state: CpuState) -> Result<Self, StateError> {
        let state = match &policy {
            CpuPolicy::None { .. } => state,
            CpuPolicy::Static(policy) => policy.start(state)?,
        };
        let (reusable, counts) = (Reusable::default(), CpuCounts::default());
        Ok(Self { policy, state, reusable, counts, marked: None, given: vec![] })
    }

    /// The policy.
    pub fn policy(&self) -> &CpuPolicy {
        &self.policy
    }

    /// The CPUs of each container.
    pub fn state(&self) -> &CpuState {
        &self.state
    }

    /// The file of state.
    pub fn checkpoint(&self) -> Vec<u8> {
        checkpoint::print(self.policy.name(), &self.state, self.policy.gates().managers)
    }

    /// Gives a container CPUs of its own, if it must have some; `Ok(None)`: it has some already, or runs on shared ones.
    /// `affinity` is the topology manager's answer.
    ///
    /// # Errors
    /// Why the pod is refused.
    pub fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Option<NumaMask>,
    ) -> Result<Option<Given>, Refusal> {
        let CpuPolicy::Static(policy) = &self.policy else { return Ok(None) };
        let demand = Demand::of(pod, policy.gates());
        let requested = demand.container(container);
        if requested == 0 || demand.is_left_alone() {
            return Ok(None);
        }
        let uid = uid(pod);
        let whole_cores = policy.options().full_pcpus_only;
        self.counts.pinning_requests += 1;
        if let Some(cpus) = self.state.of(&uid, &container.name) {
            self.reusable.note(&uid, pod, container, cpus);
            self.counts.aligned_cores += u64::from(whole_cores);
            return Ok(None);
        }
        let reusable = self.reusable.of(&uid);
        let given = policy.check_cores(&self.state, requested).and_then(|()| {
            policy.allocate(&mut self.state, requested, affinity, &reusable).map_err(Refusal::NotEnough)
        });
        match &given {
            Ok(given) => {
                self.state.assign(&uid, &container.name, given.taken.cpus.clone());
                self.reusable.note(&uid, pod, container, &given.taken.cpus);
                self.counts.aligned_cores += u64::from(whole_cores);
                self.counts.aligned_uncores += u64::from(given.shares_uncore);
                self.counts.allocations_of_node += 1;
                self.counts.node_exclusive += 1;
            }
            Err(_) => {
                self.counts.pinning_errors += 1;
                self.counts.errors_of_node += 1;
                self.counts.misaligned_cores += u64::from(whole_cores);
            }
        }
        given.map(Some)
    }

    /// Gives a pod with resources of its own CPUs, and shares them out among its containers (gate
    /// `PodLevelResourceManagers`, topology scope `pod`). `Ok(None)`: it has some already, or needs none.
    ///
    /// # Errors
    /// Why the pod is refused.
    pub fn allocate_pod(&mut self, pod: &Pod, affinity: Option<NumaMask>) -> Result<Option<Given>, Refusal> {
        let CpuPolicy::Static(policy) = &self.policy else { return Ok(None) };
        let demand = Demand::of(pod, policy.gates());
        let uid = uid(pod);
        if demand.pod() == 0 || self.state.pods.contains_key(&uid) {
            return Ok(None);
        }
        let partition = policy.allocate_pod(&mut self.state, demand, affinity).inspect_err(|_| {
            self.counts.pinning_errors += 1;
            self.counts.errors_of_pod += 1;
        })?;
        self.state.pods.insert(uid.clone(), partition.given.taken.cpus.clone());
        for container in demand.containers() {
            let own = partition.exclusive.get(&container.name);
            let is_exclusive = demand.container(container) > 0;
            self.state.assign(&uid, &container.name, own.unwrap_or(&partition.rest).clone());
            self.counts.allocations_of_pod += 1;
            self.counts.pinning_requests += u64::from(is_exclusive);
            self.counts.pod_exclusive += u64::from(is_exclusive);
            self.counts.pod_shared += u64::from(!is_exclusive);
        }
        self.counts.aligned_uncores += u64::from(partition.given.shares_uncore);
        Ok(Some(partition.given))
    }

    /// From where a container's CPUs could come.
    pub fn hints(&self, pod: &Pod, container: &Container) -> Hints {
        let CpuPolicy::Static(policy) = &self.policy else { return alignment::none() };
        let demand = Demand::of(pod, policy.gates());
        let requested = demand.container(container);
        if requested == 0 || demand.is_left_alone() {
            return alignment::none();
        }
        let uid = uid(pod);
        match self.state.of(&uid, &container.name) {
            Some(own) if own.len() != requested => alignment::impossible(),
            Some(own) => policy.hints_among(own, &CpuSet::default(), requested),
            None => policy.hints_for(&self.state, &self.reusable.of(&uid), requested),
        }
    }

    /// From where a whole pod's CPUs could come.
    pub fn pod_hints(&self, pod: &Pod) -> Hints {
        let CpuPolicy::Static(policy) = &self.policy else { return alignment::none() };
        let demand = Demand::of(pod, policy.gates());
        let requested = demand.pod();
        if requested == 0 || demand.is_left_alone() {
            return alignment::none();
        }
        if demand.is_pod_level() && demand.check_pool().is_err() {
            return alignment::impossible();
        }
        let uid = uid(pod);
        if let Some(own) = self.state.pods.get(&uid) {
            return match own.len() == requested {
                true => policy.hints_among(own, &CpuSet::default(), requested),
                false => alignment::impossible(),
            };
        }
        let mut assigned = CpuSet::default();
        for container in demand.containers() {
            match self.state.of(&uid, &container.name) {
                Some(own) if own.len() != demand.container(container) => return alignment::impossible(),
                Some(own) => assigned = assigned.union(own),
                None => {}
            }
        }
        if assigned.len() == requested {
            return policy.hints_among(&assigned, &CpuSet::default(), requested);
        }
        policy.hints_for(&self.state, &self.reusable.of(&uid).union(&assigned), requested)
    }

    /// Takes a container's CPUs back. Returns whether it had some.
    pub fn remove_container(&mut self, pod: &PodUid, container: &str) -> bool {
        matches!(self.policy, CpuPolicy::Static(_)) && self.state.remove(pod, container)
    }

    /// Takes the CPUs of all others than these pods' containers back. Returns whether any had some. To be asked only when
    /// every source of pods was heard.
    pub fn remove_stale(&mut self, active: &BTreeMap<PodUid, BTreeSet<String>>) -> bool {
        let is_active = |pod: &PodUid, name: &String| active.get(pod).is_some_and(|names| names.contains(name));
        let containers =
            self.state.containers.iter().flat_map(|(pod, of_pod)| of_pod.keys().map(move |name| (pod, name)));
        let stale: Vec<(PodUid, String)> = containers
            .filter(|(pod, name)| !is_active(pod, name))
            .map(|(pod, name)| (pod.clone(), name.clone()))
            .collect();
        stale.into_iter().fold(false, |any, (pod, name)| self.remove_container(&pod, &name) || any)
    }

    /// CPUs that a container has for itself or with its pod; empty when it runs on shared ones. For PodResources.
    pub fn exclusive_cpus(&self, pod: &PodUid, container: &str) -> CpuSet {
        self.state.of(pod, container).cloned().unwrap_or_default()
    }

    /// CPUs that a container runs on, for `cpuset_cpus`; empty: no restriction.
    pub fn affinity(&self, pod: &PodUid, container: &str) -> CpuSet {
        self.state.of_or_shared(pod, container).clone()
    }

    /// CPUs that containers can get for themselves; none under the policy `none`. For PodResources.
    pub fn allocatable(&self) -> CpuSet {
        match &self.policy {
            CpuPolicy::None { .. } => CpuSet::default(),
            CpuPolicy::Static(policy) => policy.allocatable(),
        }
    }

    /// How far a container's CPUs are its own.
    pub fn isolation(&self, pod: &Pod, container: &Container) -> Isolation {
        if self.state.of(&uid(pod), &container.name).is_none() {
            return Isolation::Host;
        }
        let is_whole = is_guaranteed(container) && whole(container_limits(container).get(CPU).copied()) > 0;
        match Demand::of(pod, self.policy.gates()).is_pod_level() && !is_whole {
            true => Isolation::Pod,
            false => Isolation::Container,
        }
    }

    /// Whether a container has CPUs of its own, so that the gate `DisableCPUQuotaWithExclusiveCPUs` lifts its quota
    /// (RES-31).
    pub fn has_exclusive_cpus(&self, pod: &Pod, container: &Container) -> bool {
        self.isolation(pod, container) == Isolation::Container
    }

    /// Whether the quota of a whole pod is lifted: one of its containers has CPUs of its own, or all of them where the pod
    /// has resources of its own.
    pub fn pod_has_exclusive_cpus(&self, pod: &Pod) -> bool {
        let demand = demand::Demand::of(pod, self.policy.gates());
        let mut containers = demand.containers();
        match demand.is_pod_level() {
            true => containers.all(|container| self.has_exclusive_cpus(pod, container)),
            false => containers.any(|container| self.has_exclusive_cpus(pod, container)),
        }
    }

    /// Remembers what everybody holds, for an admission that begins.
    pub(super) fn set_mark(&mut self) {
        self.given.clear();
        self.marked = Some((self.state.clone(), self.reusable.clone()));
    }

    /// Returns to what everybody held when the admission began.
    pub(super) fn return_to_mark(&mut self) {
        self.given.clear();
        if let Some((state, reusable)) = self.marked.take() {
            (self.state, self.reusable) = (state, reusable);
        }
    }

    /// Keeps what the admission gave, for people who ask why.
    pub(super) fn note_given(&mut self, container: String, given: Option<Given>) {
        self.given.extend(given.map(|given| (container, given)));
    }

    /// The allocations of the last admission, by container; the empty name is the pod as a whole.
    pub fn take_given(&mut self) -> Vec<(String, Given)> {
        self.marked = None;
        std::mem::take(&mut self.given)
    }

    /// The figures for metrics.
    pub fn figures(&self) -> CpuFigures {
        let CpuPolicy::Static(policy) = &self.policy else { return CpuFigures::default() };
        let number = |count: usize| u64::try_from(count).expect("invariant: as many CPUs as a machine has");
        let assigned = self.state.assigned();
        let of_node = |(node, cpus): (&u8, &CpuSet)| (*node, number(cpus.common(&assigned)));
        CpuFigures {
            counts: self.counts,
            shared_pool_millicores: number(policy.available(&self.state).len()) * 1000,
            exclusive_cpus: number(assigned.len()),
            exclusive_by_node: policy.topology().nodes().iter().map(of_node).collect(),
        }
    }
}

/// For `podwright explain`: how the CPUs of an allocation were found.
impl Given {
    /// The CPUs.
    pub fn cpus(&self) -> &CpuSet {
        &self.taken.cpus
    }

    /// The decisions, in order.
    pub fn why(&self) -> &Taken {
        &self.taken
    }
}

fn uid(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}
