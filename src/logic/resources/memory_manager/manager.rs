//! The memory manager: gives Guaranteed containers memory of certain NUMA nodes (KEP-1769, RES-32).
//!
//! Pure; owned by the actor that admits pods. Keeps who holds what. Upstream: `memory_manager.go`, `policy_static.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::machine::{Machine, Reserved};
use super::placing::{Placing, PlacingError};
use super::requests::{Amounts, Gates, NoWholeBytes};
use super::state::{Block, MachineState, State, cells, occupy, release};
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::resources::pod_sums::is_sidecar;
use crate::logic::resources::topology::admission::{AllocationFailure, Provider};
use crate::logic::resources::topology::hints::{Hint, Hints, NumaMask};

/// The manager's policy; upstream's names. `BestEffort` exists on Windows alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Nothing.
    None,
    /// Gives Guaranteed containers memory of certain nodes.
    Static,
}

/// No policy of this platform; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPolicy {
    /// Known on Windows.
    #[error("policy \"BestEffort\" is not available for platform \"linux\"")]
    OtherPlatform,
    /// Not known at all.
    #[error("unknown policy: {}", crate::logic::formats::go_text::quoted(.0))]
    Unknown(String),
}

impl MemoryPolicy {
    /// The policy as the configuration and the state file write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Static => "Static",
        }
    }
}

impl FromStr for MemoryPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match name {
            "None" => Ok(Self::None),
            "Static" => Ok(Self::Static),
            "BestEffort" => Err(UnknownPolicy::OtherPlatform),
            _ => Err(UnknownPolicy::Unknown(name.to_owned())),
        }
    }
}

/// Why a container or pod cannot be given memory; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// No nodes can give it.
    #[error(transparent)]
    Placing(#[from] PlacingError),
    /// The request cannot be counted.
    #[error(transparent)]
    NoWholeBytes(#[from] NoWholeBytes),
    /// Nothing would be left for init containers that share.
    #[error("pod rejected, pod has shared init containers but no {0} available for them")]
    NothingForInit(String),
    /// Nothing would be left for containers that share.
    #[error(
        "pod rejected, sum of exclusive container {0} requests equals pod budget, leaving no memory for shared \
         containers"
    )]
    NothingForShared(String),
}

impl From<MemoryError> for AllocationFailure {
    fn from(error: MemoryError) -> Self {
        let message = error.to_string();
        match error {
            MemoryError::Placing(_) | MemoryError::NoWholeBytes(_) => Self::Unexpected(message),
            MemoryError::NothingForInit(_) | MemoryError::NothingForShared(_) => {
                Self::Reasoned { reason: AdmissionReason::EmptyPodSharedPoolError, message }
            }
        }
    }
}

/// Counts of the manager since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// `memory_manager_pinning_requests_total`.
    pub pinning_requests: u64,
    /// `memory_manager_pinning_errors_total`.
    pub pinning_errors: u64,
    /// `resource_manager_allocations_total` with resource `memory` and source `node`.
    pub allocations_of_node: u64,
    /// The same with source `pod`.
    pub allocations_of_pod: u64,
    /// `resource_manager_allocation_errors_total` with resource `memory` and source `node`.
    pub errors_of_node: u64,
    /// The same with source `pod`.
    pub errors_of_pod: u64,
    /// `resource_manager_container_assignments` with resource `memory` and type `node_exclusive`.
    pub node_exclusive: u64,
    /// The same with type `pod_exclusive`.
    pub pod_exclusive: u64,
    /// The same with type `pod_shared`.
    pub pod_shared: u64,
}

impl MemoryFigures {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            pinning_requests: self.pinning_requests + more.pinning_requests,
            pinning_errors: self.pinning_errors + more.pinning_errors,
            allocations_of_node: self.allocations_of_node + more.allocations_of_node,
            allocations_of_pod: self.allocations_of_pod + more.allocations_of_pod,
            errors_of_node: self.errors_of_node + more.errors_of_node,
            errors_of_pod: self.errors_of_pod + more.errors_of_pod,
            node_exclusive: self.node_exclusive + more.node_exclusive,
            pod_exclusive: self.pod_exclusive + more.pod_exclusive,
            pod_shared: self.pod_shared + more.pod_shared,
        }
    }
}

/// Memory of init containers, of the pod that was served last, which later containers may take over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reusable {
    uid: String,
    bytes: BTreeMap<(NumaMask, String), u64>,
}

/// The memory manager of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryManager {
    pub(super) policy: MemoryPolicy,
    pub(super) gates: Gates,
    /// The machine when nobody holds anything.
    pub(super) unused: MachineState,
    pub(super) state: State,
    pub(super) figures: MemoryFigures,
    reusable: Reusable,
    marked: Option<(State, Reusable)>,
}

impl MemoryManager {
    /// A manager that has given nothing yet.
    pub fn new(policy: MemoryPolicy, gates: Gates, machine: &Machine, reserved: &Reserved) -> Self {
        let (unused, state) = match policy {
            MemoryPolicy::None => (MachineState::new(), State::default()),
            MemoryPolicy::Static => {
                let unused = machine.unused(reserved);
                let state = State { machine: unused.clone(), ..State::default() };
                (unused, state)
            }
        };
        let (figures, reusable) = (MemoryFigures::default(), Reusable::default());
        Self { policy, gates, unused, state, figures, reusable, marked: None }
    }

    /// Whether the policy is `None`.
    pub fn gives_nothing(&self) -> bool {
        self.policy == MemoryPolicy::None
    }

    /// All allocations, for the state file and for PodResources.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Growth of the counters since the last call.
    pub fn take_figures(&mut self) -> MemoryFigures {
        std::mem::take(&mut self.figures)
    }

    /// The NUMA nodes that a container's memory comes from (`cpuset.mems`); `None`: any.
    pub fn nodes_of(&self, uid: &str, container: &str) -> Option<NumaMask> {
        let blocks = self.state.blocks(uid, container).unwrap_or_default();
        let nodes = blocks.iter().fold(NumaMask::default(), |nodes, block| nodes.or(block.nodes()));
        (!nodes.is_empty()).then_some(nodes)
    }

    /// The most that containers may hold, by node and kind.
    pub fn allocatable(&self) -> Vec<Block> {
        let tables =
            self.state.machine.iter().flat_map(|(cell, node)| {
                node.memory_map.iter().map(move |(kind, table)| (*cell, kind, table.allocatable))
            });
        let block =
            |(cell, kind, size): (i64, &String, u64)| Block { numa_affinity: vec![cell], kind: kind.clone(), size };
        tables.filter(|(_, _, size)| *size > 0).map(block).collect()
    }

    /// A container is about to be created: regular init containers before it have ended for good, and their memory is
    /// free.
    pub fn container_starts(&mut self, pod: &Pod, container: &str) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        for init in inits.take_while(|init| init.name != container).filter(|init| !is_sidecar(init)) {
            self.remove_container(uid, &init.name);
        }
    }

    /// Takes back what a container holds. A pod that holds memory as a whole gives it back with its last container.
    pub fn remove_container(&mut self, uid: &str, container: &str) {
        if self.policy == MemoryPolicy::None {
            return;
        }
        if self.gates.pod_level_managers && self.state.pods.contains_key(uid) {
            self.state.delete(uid, container);
            if !self.state.assignments.contains_key(uid) {
                let entry = self.state.pods.remove(uid).unwrap_or_default();
                release(&mut self.state.machine, &entry.memory_blocks);
            }
        } else if let Some(blocks) = self.state.delete(uid, container) {
            release(&mut self.state.machine, &blocks);
        }
    }

    /// Takes back what all other containers than those of `active` pods hold (RES-67). Only for use once every source
    /// of pods was heard.
    pub fn remove_stale<'a>(&mut self, active: impl IntoIterator<Item = &'a Pod>) {
        let of_pod = |pod: &'a Pod| {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            containers(pod).map(move |container| (uid.clone(), container.name.clone()))
        };
        let active: BTreeSet<(String, String)> = active.into_iter().flat_map(of_pod).collect();
        for (uid, container) in self.state.known().difference(&active) {
            self.remove_container(uid, container);
        }
    }

    fn give(&mut self, pod: &Pod, container: &Container, affinity: &Hint) -> Result<(), MemoryError> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if let Some(blocks) = self.state.blocks(uid, &container.name).map(<[Block]>::to_vec) {
            self.note_reusable(pod, container, &blocks);
            return Ok(());
        }
        let wanted = self.gates.of_container(pod, container)?;
        let nodes = self.choose(pod, &wanted, affinity)?;
        let mut blocks = Vec::new();
        for (kind, size) in &wanted {
            blocks.push(Block::new(nodes, kind, *size));
            let reused = self.reusable(pod, nodes, kind);
            occupy(&mut self.state.machine, &cells(nodes), kind, size.saturating_sub(reused));
            self.figures.allocations_of_node += 1;
        }
        self.note_reusable(pod, container, &blocks);
        self.shrink_init_containers(pod, container, &blocks);
        self.state.set_blocks(uid, &container.name, blocks);
        self.figures.node_exclusive += 1;
        Ok(())
    }

    pub(super) fn choose(&self, pod: &Pod, wanted: &Amounts, affinity: &Hint) -> Result<NumaMask, PlacingError> {
        let reusable = |nodes: NumaMask, kind: &str| self.reusable(pod, nodes, kind);
        Placing { machine: &self.state.machine, wanted, reusable: &reusable }.choose(affinity)
    }

    fn reusable(&self, pod: &Pod, nodes: NumaMask, kind: &str) -> u64 {
        let is_of_pod = pod.metadata.uid.as_deref().unwrap_or_default() == self.reusable.uid;
        let bytes = || self.reusable.bytes.get(&(nodes, kind.to_owned())).copied();
        is_of_pod.then(bytes).flatten().unwrap_or(0)
    }

    /// Memory of a regular init container can be reused; memory of another container was reused.
    fn note_reusable(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if self.reusable.uid != uid {
            self.reusable = Reusable { uid: uid.to_owned(), bytes: BTreeMap::new() };
        }
        let inits = || pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let is_regular_init = inits().any(|init| init.name == container.name && !is_sidecar(init));
        for block in blocks {
            let bytes = self.reusable.bytes.entry((block.nodes(), block.kind.clone())).or_default();
            *bytes = if is_regular_init { block.size.max(*bytes) } else { bytes.saturating_sub(block.size) };
        }
    }

    /// Takes what a container reuses off the blocks of the init containers, so that the sum of a pod's blocks is what
    /// the pod holds. This is upstream's form of the state.
    fn shrink_init_containers(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let inits = || pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let Some(held) = self.state.assignments.get_mut(uid) else { return };
        for block in blocks {
            let mut left = block.size;
            for init in inits().take_while(|init| init.name != container.name).filter(|init| !is_sidecar(init)) {
                let of_init = held.get_mut(&init.name).into_iter().flatten();
                for other in of_init.filter(|other| other.kind == block.kind && other.nodes() == block.nodes()) {
                    let reused = other.size.min(left);
                    other.size -= reused;
                    left -= reused;
                }
            }
        }
    }

    fn calculate(&self, pod: &Pod, wanted: &Amounts) -> Hints {
        let reusable = |nodes: NumaMask, kind: &str| self.reusable(pod, nodes, kind);
        Placing { machine: &self.state.machine, wanted, reusable: &reusable }.hints()
    }
}

/// The hints of what is held already, where it is what is asked for; else none, as upstream.
fn held(blocks: &[Block], wanted: &Amounts) -> Hints {
    let fits = blocks.len() == wanted.len() && blocks.iter().all(|block| wanted.get(&block.kind) == Some(&block.size));
    if !fits {
        return Hints::new();
    }
    let mut hints: Hints = wanted.keys().map(|kind| (kind.clone(), Some(Vec::new()))).collect();
    for block in blocks {
        let hint = Hint { nodes: Some(block.nodes()), preferred: true };
        hints.entry(block.kind.clone()).or_default().get_or_insert_default().push(hint);
    }
    hints
}

/// All containers of a pod, in the order in which they are given memory.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

impl Provider for MemoryManager {
    fn hints(&self, pod: &Pod, container: &Container) -> Hints {
        if self.policy == MemoryPolicy::None || self.gates.passes_by(pod) {
            return Hints::new();
        }
        // As upstream, a request that cannot be counted is refused only when it is to be met.
        let Ok(wanted) = self.gates.of_container(pod, container) else { return Hints::new() };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        match self.state.blocks(uid, &container.name) {
            Some(blocks) => held(blocks, &wanted),
            None => self.calculate(pod, &wanted),
        }
    }

    fn pod_hints(&self, pod: &Pod) -> Hints {
        if self.policy == MemoryPolicy::None || self.gates.passes_by(pod) {
            return Hints::new();
        }
        let Ok(wanted) = self.gates.of_pod(pod) else { return Hints::new() };
        if self.gates.whole_pod(pod) && self.check_shares(pod).is_err() {
            return wanted.into_keys().map(|kind| (kind, Some(Vec::new()))).collect();
        }
        if wanted.is_empty() {
            return Hints::new();
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        match containers(pod).find_map(|container| self.state.blocks(uid, &container.name)) {
            Some(blocks) => held(blocks, &wanted),
            None => self.calculate(pod, &wanted),
        }
    }

    fn allocate(&mut self, pod: &Pod, container: &Container, affinity: &Hint) -> Result<(), AllocationFailure> {
        if self.policy == MemoryPolicy::None || self.gates.passes_by(pod) {
            return Ok(());
        }
        self.figures.pinning_requests += 1;
        self.give(pod, container, affinity).map_err(|error| {
            self.figures.pinning_errors += 1;
            self.figures.errors_of_node += 1;
            error.into()
        })
    }

    fn allocate_pod(&mut self, pod: &Pod, affinity: &Hint) -> Result<(), AllocationFailure> {
        if self.policy == MemoryPolicy::None {
            return Ok(());
        }
        self.give_pod(pod, affinity).map_err(AllocationFailure::from)
    }

    fn mark(&mut self) {
        self.marked = Some((self.state.clone(), self.reusable.clone()));
    }

    fn revert(&mut self) {
        if let Some((state, reusable)) = self.marked.take() {
            self.state = state;
            self.reusable = reusable;
        }
    }
}
