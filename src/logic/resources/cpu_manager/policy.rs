//! The static policy: what it knows of the machine and the configuration, and how it gives CPUs to containers and pods.
//!
//! Pure; made once at the start. The state that it works on is the caller's.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::cpu_set::CpuSet;
use super::demand::{Demand, PodLevelGates};
use super::options::{OptionError, StaticOptions};
use super::refusal::Refusal;
use super::state::{CpuState, StateError};
use super::take::{Manner, NotEnough, Taken, take};
use super::topology::CpuTopology;
use crate::logic::model::ids::PodUid;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::pod_sums::is_sidecar;
use crate::logic::resources::topology::hints::NumaMask;

/// Settings of the static policy.
#[derive(Clone, Debug)]
pub struct StaticSettings {
    /// Its options.
    pub options: StaticOptions,
    /// CPUs that are kept for the host: `kubeReserved` and `systemReserved` together; their number is rounded up.
    pub reserved: Quantity,
    /// `reservedSystemCPUs`; empty: the policy chooses them.
    pub reserved_cpus: CpuSet,
    /// The topology manager's policy is `single-numa-node`.
    pub single_numa_node: bool,
    /// Gates.
    pub gates: PodLevelGates,
}

/// Why the static policy cannot be used here; the texts are upstream's, with what upstream puts before them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Nothing is reserved: one day all CPUs would be somebody's own.
    #[error("[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")]
    NothingReserved,
    /// An option does not fit.
    #[error("new static policy error: {0}")]
    Option(#[from] OptionError),
    /// Fewer or more CPUs are reserved than the amount says.
    #[error(
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of {cpus} did not \
         equal {count})"
    )]
    OtherCount {
        /// The reserved CPUs.
        cpus: CpuSet,
        /// How many there should be.
        count: usize,
    },
    /// The machine does not have a reserved CPU.
    #[error(
        "new static policy error: [cpumanager] unable to build the reserved physical CPUs from the reserved set: \
         unknown CPU ID: {0}"
    )]
    UnknownCpu(u32),
}

/// The allocation of a container or pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The CPUs, and as which parts of the machine.
    pub taken: Taken,
    /// All of them share one cache.
    pub shares_uncore: bool,
}

/// CPUs of a pod by container, and what the pod was given as a whole.
pub(super) struct Partition {
    pub(super) given: Given,
    pub(super) exclusive: BTreeMap<String, CpuSet>,
    pub(super) rest: CpuSet,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct StaticPolicy {
    topology: Arc<CpuTopology>,
    options: StaticOptions,
    gates: PodLevelGates,
    reserved: CpuSet,
    /// The reserved CPUs and the other threads of their cores.
    reserved_cores: CpuSet,
}

impl StaticPolicy {
    /// The policy for this machine.
    ///
    /// # Errors
    /// When the settings do not fit the machine.
    pub fn new(topology: Arc<CpuTopology>, settings: &StaticSettings) -> Result<Self, PolicyError> {
        if !settings.reserved.is_positive() {
            return Err(PolicyError::NothingReserved);
        }
        settings.options.check(&topology, settings.single_numa_node)?;
        let count = usize::try_from(settings.reserved.value()).unwrap_or(usize::MAX);
        let mut policy = Self {
            topology,
            options: settings.options,
            gates: settings.gates,
            reserved: settings.reserved_cpus.clone(),
            reserved_cores: CpuSet::default(),
        };
        if policy.reserved.is_empty() {
            policy.reserved = policy.take(policy.topology.all(), count).map(|taken| taken.cpus).unwrap_or_default();
        }
        if policy.reserved.len() != count {
            return Err(PolicyError::OtherCount { cpus: policy.reserved, count });
        }
        if let Some(cpu) = policy.reserved.difference(policy.topology.all()).iter().next() {
            return Err(PolicyError::UnknownCpu(cpu));
        }
        policy.reserved_cores = policy.topology.whole_cores_of(&policy.reserved);
        Ok(policy)
    }

    /// The machine.
    pub fn topology(&self) -> &CpuTopology {
        &self.topology
    }

    /// Its options.
    pub fn options(&self) -> StaticOptions {
        self.options
    }

    /// CPUs that nobody gets for himself.
    pub fn reserved(&self) -> &CpuSet {
        &self.reserved
    }

    /// CPUs that containers can get for themselves.
    pub fn allocatable(&self) -> CpuSet {
        self.topology.all().difference(&self.reserved)
    }

    /// Gates.
    pub(super) fn gates(&self) -> PodLevelGates {
        self.gates
    }

    pub(super) fn start(&self, state: CpuState) -> Result<CpuState, StateError> {
        state.start(&self.topology, &self.reserved, self.options.strict_reservation)
    }

    /// CPUs that a container could get now.
    pub(super) fn available(&self, state: &CpuState) -> CpuSet {
        state.shared.difference(&self.reserved)
    }

    fn take(&self, available: &CpuSet, count: usize) -> Result<Taken, NotEnough> {
        let whole_cores = if self.options.full_pcpus_only { self.topology.cpus_per_core() } else { 1 };
        let manner = Manner {
            spread: self.options.distribute_across_cores,
            by_uncore: self.options.prefer_uncore,
            group: self.options.distribute_across_numa.then_some(whole_cores),
        };
        take(&self.topology, available, count, manner)
    }

    /// Under `full-pcpus-only`: whether the request is a number of whole cores, and as many are free.
    pub(super) fn check_cores(&self, state: &CpuState, requested: usize) -> Result<(), Refusal> {
        let cpus_per_core = self.topology.cpus_per_core();
        if !self.options.full_pcpus_only {
            return Ok(());
        }
        if !requested.is_multiple_of(cpus_per_core) {
            return Err(Refusal::SplitsCore { requested, cpus_per_core });
        }
        let available = state.shared.difference(&self.reserved_cores).len();
        if requested > available {
            return Err(Refusal::FewCores { available, requested, cpus_per_core });
        }
        Ok(())
    }

    /// Takes CPUs out of the shared ones, those of the given NUMA nodes first. `reusable` belong to the pod already.
    pub(super) fn allocate(
        &self,
        state: &mut CpuState,
        requested: usize,
        affinity: Option<NumaMask>,
        reusable: &CpuSet,
    ) -> Result<Given, NotEnough> {
        let allocatable = self.available(state).union(reusable);
        let mut taken = Taken::default();
        if let Some(nodes) = affinity {
            let aligned = allocatable.intersection(&self.cpus_near(nodes));
            taken = self.take(&aligned, requested.min(aligned.len()))?;
        }
        let rest = allocatable.difference(&taken.cpus);
        taken.extend(self.take(&rest, requested - taken.cpus.len())?);
        state.shared = state.shared.difference(&taken.cpus);
        let shares_uncore = self.topology.share_uncore(&taken.cpus);
        Ok(Given { taken, shares_uncore })
    }

    /// The CPUs of NUMA nodes, or of their sockets under `align-by-socket`.
    fn cpus_near(&self, nodes: NumaMask) -> CpuSet {
        if !self.options.align_by_socket {
            return self.topology.cpus_of_nodes(nodes);
        }
        let sockets = self.topology.sockets_of_nodes(nodes);
        sockets.iter().fold(CpuSet::default(), |cpus, socket| cpus.union(&self.topology.sockets()[socket]))
    }

    /// Takes CPUs for a whole pod and shares them out among its containers.
    pub(super) fn allocate_pod(
        &self,
        state: &mut CpuState,
        demand: Demand<'_>,
        affinity: Option<NumaMask>,
    ) -> Result<Partition, Refusal> {
        demand.check_pool().map_err(Refusal::EmptyPool)?;
        let requested = demand.pod();
        self.check_cores(state, requested)?;
        let mut after = state.clone();
        let given = self.allocate(&mut after, requested, affinity, &CpuSet::default()).map_err(Refusal::NotEnough)?;
        let (mut exclusive, mut of_sidecars) = (BTreeMap::new(), CpuSet::default());
        for container in demand.init_containers() {
            let left = given.taken.cpus.difference(&of_sidecars);
            let cpus = match (demand.container(container), is_sidecar(container)) {
                // It shares with the others, of which more is known below.
                (0, true) => continue,
                (0, false) => left,
                (count, _) => self.take(&left, count).map_err(Refusal::NotEnough)?.cpus,
            };
            if is_sidecar(container) {
                of_sidecars = of_sidecars.union(&cpus);
            }
            exclusive.insert(container.name.clone(), cpus);
        }
        let mut rest = given.taken.cpus.difference(&of_sidecars);
        for container in demand.app_containers() {
            let count = demand.container(container);
            if count > 0 {
                let cpus = self.take(&rest, count).map_err(Refusal::NotEnough)?.cpus;
                rest = rest.difference(&cpus);
                exclusive.insert(container.name.clone(), cpus);
            }
        }
        *state = after;
        Ok(Partition { given, exclusive, rest })
    }
}

/// CPUs of a pod's init containers that its later containers can have. Those of one pod are kept, of the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reusable {
    pod: Option<PodUid>,
    cpus: CpuSet,
}

impl Reusable {
    pub(super) fn of(&self, pod: &PodUid) -> CpuSet {
        if self.pod.as_ref() == Some(pod) { self.cpus.clone() } else { CpuSet::default() }
    }

    /// Notes what a container has: an init container gives it on, unless it keeps running.
    pub(super) fn note(&mut self, uid: &PodUid, pod: &Pod, container: &Container, cpus: &CpuSet) {
        let before = self.of(uid);
        let inits = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let gives_on = inits.iter().find(|init| init.name == container.name).is_some_and(|init| !is_sidecar(init));
        let cpus = if gives_on { before.union(cpus) } else { before.difference(cpus) };
        *self = Self { pod: Some(uid.clone()), cpus };
    }
}
