//! The managers of one node as one value: admission asks them once, and they give a pod all of its hardware or nothing.
//!
//! The owner of the value allocates on a clone, writes the clone's files to the disk, and goes on with the clone. A write
//! that fails so changes nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::held::{Allocation, Allocations, DeviceEntry, MemoryBlock};
use super::pinning::{ContainerPinning, PodPinning};
use super::record::PlacementRecord;
use crate::logic::model::histogram::Histogram;
use crate::logic::model::ids::PodUid;
use crate::logic::resources::cpu_manager::checkpoint::{self as cpu_file, KnownContainers, Unrestorable};
use crate::logic::resources::cpu_manager::{CpuFigures, CpuManager, CpuPolicy, CpuState, PodLevelGates, StateError};
use crate::logic::resources::device_manager::{DeviceManager, Places, checkpoint as device_file};
use crate::logic::resources::memory_manager::{
    self, Block, Gates, Machine, MemoryFigures, MemoryManager, MemoryPolicy, Reserved, STATE_FILE,
};
use crate::logic::resources::topology::admission::{Refusal, TopologyManager};
use crate::logic::resources::topology::machine::NumaNodes;
use crate::logic::resources::topology::policy::{Options, Policy, PolicyKind, Scope};

/// Records of refused pods that are kept; the oldest go first.
const REFUSED_MAX: usize = 100;
/// Bounds of `kubelet_topology_manager_admission_duration_ms`.
static ADMISSION_BOUNDS: [Duration; 15] = {
    let mut bounds = [Duration::from_micros(50); 15];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = Duration::from_micros(50 << at);
        at += 1;
    }
    bounds
};

/// The files of state, as the disk has them; `None`: there is none yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateFiles {
    /// `cpu_manager_state`.
    pub cpus: Option<Vec<u8>>,
    /// `memory_manager_state`.
    pub memory: Option<Vec<u8>>,
    /// `kubelet_internal_checkpoint`, in the directory of device plugins.
    pub devices: Option<Vec<u8>>,
}

impl StateFiles {
    /// The name of the CPU manager's file.
    pub const CPUS: &'static str = cpu_file::FILE_NAME;
    /// The name of the memory manager's file.
    pub const MEMORY: &'static str = STATE_FILE;
    /// The name of the device manager's file.
    pub const DEVICES: &'static str = device_file::FILE_NAME;
}

/// Why the managers cannot go on from their files; the texts are upstream's, which ends then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The CPU manager's file cannot be read.
    #[error("start cpu manager error: {0}")]
    CpuFile(Box<Unrestorable>),
    /// The CPU manager's state does not fit.
    #[error("start cpu manager error: {0}")]
    CpuState(#[from] StateError),
    /// The memory manager's file, or its state.
    #[error("start memory manager error: {0}")]
    Memory(#[from] memory_manager::RestoreError),
}

/// Counts of admissions, by the scope of the topology manager.
#[derive(Clone, Debug)]
pub struct TopologyCounts {
    /// `kubelet_topology_manager_admission_requests_total`.
    pub requests: u64,
    /// `kubelet_topology_manager_admission_errors_total`.
    pub errors: u64,
    /// `kubelet_container_aligned_compute_resources_count{boundary="numa_node"}`.
    pub aligned: u64,
    /// `kubelet_container_aligned_compute_resources_failure_count{boundary="numa_node"}`.
    pub alignment_failures: u64,
    /// `kubelet_topology_manager_admission_duration_ms`.
    pub lengths: Histogram<15>,
    /// The label `scope`.
    pub scope: &'static str,
}

/// Everything that metrics say of the managers (OBS-07).
#[derive(Clone, Debug)]
pub struct ManagerFigures {
    /// Of the CPU manager.
    pub cpus: CpuFigures,
    /// Of the memory manager.
    pub memory: MemoryFigures,
    /// Of the topology manager.
    pub topology: TopologyCounts,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ResourceManagers {
    topology: TopologyManager,
    pub(super) devices: DeviceManager,
    pub(super) cpus: CpuManager,
    pub(super) memory: MemoryManager,
    /// Gate `DisableCPUQuotaWithExclusiveCPUs`.
    lifts_quota: bool,
    records: BTreeMap<PodUid, PlacementRecord>,
    refused: VecDeque<PodUid>,
    memory_figures: MemoryFigures,
    counts: TopologyCounts,
}

impl Default for ResourceManagers {
    /// With the policies `none`.
    fn default() -> Self {
        let policy = Policy::new(PolicyKind::None, Options::default(), NumaNodes::default());
        let topology = TopologyManager {
            policy: policy.expect("invariant: the policy none takes every machine"),
            scope: Scope::Container,
            pod_level: false,
        };
        let gates = Gates { pod_level_resources: true, pod_level_managers: false };
        let memory = MemoryManager::new(MemoryPolicy::None, gates, &Machine::default(), &Reserved::new());
        let cpus = CpuPolicy::None { gates: PodLevelGates { resources: true, managers: false } };
        Self::new(topology, cpus, memory, true).expect("invariant: the policy none checks nothing")
    }
}

impl ResourceManagers {
    /// Managers that have given nothing yet.
    ///
    /// # Errors
    /// When the static policy has no CPU to share at all.
    pub fn new(
        topology: TopologyManager,
        cpus: CpuPolicy,
        memory: MemoryManager,
        lifts_quota: bool,
    ) -> Result<Self, StateError> {
        let scope = match topology.scope {
            Scope::Container => "container",
            Scope::Pod => "pod",
        };
        let counts = TopologyCounts {
            requests: 0,
            errors: 0,
            aligned: 0,
            alignment_failures: 0,
            lengths: Histogram::new(&ADMISSION_BOUNDS),
            scope,
        };
        Ok(Self {
            devices: DeviceManager::new(topology.policy.nodes()),
            topology,
            cpus: CpuManager::new(cpus, CpuState::default())?,
            memory,
            lifts_quota,
            records: BTreeMap::new(),
            refused: VecDeque::new(),
            memory_figures: MemoryFigures::default(),
            counts,
        })
    }

    /// The same managers, going on from these files. `path` gives a file's path for the error.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn restored(&self, files: &StateFiles, path: impl Fn(&str) -> String) -> Result<Self, RestoreError> {
        let mut restored = self.clone();
        if let Some(bytes) = &files.cpus {
            let policy = self.cpus.policy();
            // The oldest form names containers by ids of the runtime. No agent since 1.18 has written it.
            let known = KnownContainers::new();
            let state = cpu_file::parse(bytes, policy.name(), policy.gates().managers, &known).map_err(|error| {
                let path = path(StateFiles::CPUS);
                RestoreError::CpuFile(Box::new(Unrestorable { error, path }))
            })?;
            restored.cpus = CpuManager::new(policy.clone(), state)?;
        }
        if let Some(bytes) = &files.memory {
            restored.memory.restore(bytes, &path(StateFiles::MEMORY))?;
        }
        // As upstream, a file of devices that cannot be believed ends nothing. The reader of the files sets it aside.
        if let Some(kept) = files.devices.as_ref().and_then(|bytes| device_file::parse(bytes).ok()) {
            restored.devices.restore(kept);
        }
        Ok(restored)
    }

    /// Whether no policy gives anything: then nobody has to ask.
    pub fn is_idle(&self) -> bool {
        matches!(self.cpus.policy(), CpuPolicy::None { .. }) && self.memory.gives_nothing()
    }

    /// The files of state.
    pub fn files(&self) -> StateFiles {
        StateFiles {
            cpus: Some(self.cpus.checkpoint()),
            memory: Some(self.memory.to_file().into_bytes()),
            devices: self.devices.checkpoint(),
        }
    }

    /// Whether all files say the same of these managers.
    pub fn has_state_of(&self, other: &Self) -> bool {
        self.cpus.state() == other.cpus.state()
            && self.memory.state() == other.memory.state()
            && self.devices.has_state_of(&other.devices)
    }

    /// Gives a pod its hardware, all of it or none. A pod that has it already keeps it. Devices of plugins need
    /// [`admit`](Self::admit).
    ///
    /// # Errors
    /// Why the pod is refused.
    pub fn place(&mut self, pod: &Pod) -> Result<(), Refusal> {
        let uid = uid_of(pod);
        let explain = |container: &Container| Some((container.name.clone(), self.memory.explain(pod, container)?));
        let memory = containers(pod).filter_map(explain).collect();
        let admission = self.topology.admit(&mut [&mut self.devices, &mut self.cpus, &mut self.memory], pod);
        let given = self.cpus.take_given().into_iter().map(|(container, given)| (container, given.taken));
        let figures = admission.figures;
        self.counts.requests += figures.requests;
        self.counts.errors += figures.errors;
        self.counts.aligned += figures.aligned;
        self.counts.alignment_failures += figures.alignment_failures;
        self.memory_figures = self.memory_figures.plus(self.memory.take_figures());
        let refusal = admission.result.clone().err();
        let record = PlacementRecord {
            topology: admission.explanations,
            cpus: given.collect(),
            memory,
            devices: self.devices.taken_by_now(),
            unhealthy: BTreeMap::new(),
            refusal,
        };
        self.keep_record(&uid, record);
        admission.result
    }

    /// An admission took as long.
    pub fn note_length(&mut self, took: Duration) {
        self.counts.lengths.add(took);
    }

    /// A pod that is asked about again, and has all it wants, keeps the record of its first admission, but not of a refusal.
    pub(super) fn keep_record(&mut self, uid: &PodUid, record: PlacementRecord) {
        let gives_nothing_new = record.refusal.is_none() && record.cpus.is_empty() && record.devices.is_empty();
        if gives_nothing_new && self.records.get(uid).is_some_and(|known| known.refusal.is_none()) {
            return;
        }
        if record.is_empty() {
            self.records.remove(uid); // A refusal, which is over.
            return;
        }
        if record.refusal.is_some() && !self.refused.contains(uid) {
            self.refused.push_back(uid.clone());
            if self.refused.len() > REFUSED_MAX {
                self.refused.pop_front();
            }
        }
        self.records.insert(uid.clone(), record);
    }

    /// Takes back what other pods than these hold. Returns whether some held anything. To be asked only when every source of
    /// pods was heard.
    pub fn keep_only(&mut self, active: &BTreeSet<PodUid>) -> bool {
        let mut gone: BTreeSet<(PodUid, String)> = BTreeSet::new();
        let of_cpus = self.cpus.state().containers.iter();
        gone.extend(of_cpus.flat_map(|(uid, own)| own.keys().map(|name| (uid.clone(), name.clone()))));
        let of_memory = self.memory.state().assignments.iter();
        gone.extend(of_memory.flat_map(|(uid, own)| own.keys().map(|name| (PodUid::from(uid.as_str()), name.clone()))));
        gone.retain(|(uid, _)| !active.contains(uid));
        let had_devices = self.devices.keep_only(active);
        for (uid, container) in &gone {
            self.cpus.remove_container(uid, container);
            self.memory.remove_container(uid.as_str(), container);
        }
        let refused = &self.refused;
        self.records.retain(|uid, _| active.contains(uid) || refused.contains(uid));
        had_devices || !gone.is_empty()
    }

    /// A container is about to be created: memory of init containers before it is free.
    pub fn container_starts(&mut self, pod: &Pod, container: &str) {
        self.memory.container_starts(pod, container);
    }

    /// Where the pod's containers run.
    pub fn pinning_of(&self, pod: &Pod) -> PodPinning {
        let uid = uid_of(pod);
        let place = |container: &Container| {
            let mems = self.memory.nodes_of(uid.as_str(), &container.name);
            let place = ContainerPinning {
                cpus: self.cpus.affinity(&uid, &container.name).to_string(),
                mems: mems.map(|nodes| nodes.to_string()).unwrap_or_default(),
                no_quota: self.lifts_quota && self.cpus.has_exclusive_cpus(pod, container),
                devices: self.devices.devices_of_container(&uid, &container.name).0,
                lacks: self.devices.lacking(pod, container),
            };
            (container.name.clone(), place)
        };
        PodPinning {
            containers: containers(pod).map(place).collect(),
            no_quota: self.lifts_quota && self.cpus.pod_has_exclusive_cpus(pod),
        }
    }

    /// The CPUs of each container.
    pub fn cpu_state(&self) -> &CpuState {
        self.cpus.state()
    }

    /// All that containers own, for the PodResources API.
    pub fn allocations(&self) -> Allocations {
        let mut allocations = Allocations::default();
        let of = |all: &mut Allocations, uid: PodUid, name: &str, add: &mut dyn FnMut(&mut Allocation)| {
            add(all.containers.entry(uid).or_default().entry(name.to_owned()).or_default());
        };
        for (uid, own) in &self.cpus.state().containers {
            for (name, cpus) in own {
                of(&mut allocations, uid.clone(), name, &mut |one| one.cpu_ids = cpus.iter().collect());
            }
        }
        for (uid, own) in &self.memory.state().assignments {
            for (name, blocks) in own {
                let uid = PodUid::from(uid.as_str());
                of(&mut allocations, uid, name, &mut |one| one.memory = blocks.iter().map(memory_block).collect());
            }
        }
        for ((uid, name), places) in self.devices.places() {
            of(&mut allocations, uid, &name, &mut |one| one.devices = entries(&places));
        }
        allocations.allocatable.devices = entries(&self.devices.allocatable());
        allocations.allocatable.cpu_ids = self.cpus.allocatable().iter().collect();
        allocations.allocatable.memory = self.memory.allocatable().iter().map(memory_block).collect();
        allocations
    }

    /// Why the pod was given its hardware, or was refused; `None` for a pod of which nothing is remembered.
    pub fn record(&self, uid: &PodUid) -> Option<&PlacementRecord> {
        self.records.get(uid)
    }

    /// The figures for metrics.
    pub fn figures(&self) -> ManagerFigures {
        ManagerFigures { cpus: self.cpus.figures(), memory: self.memory_figures, topology: self.counts.clone() }
    }
}

fn memory_block(block: &Block) -> MemoryBlock {
    let nodes = block.nodes().iter().map(u32::from).collect();
    MemoryBlock { memory_type: block.kind.clone(), bytes: block.size, nodes }
}

/// One entry for each device and NUMA node, as upstream.
fn entries(places: &Places) -> Vec<DeviceEntry> {
    let mut found = vec![];
    for ((resource, nodes), ids) in places {
        let near = || if nodes.is_empty() { vec![None] } else { nodes.iter().copied().map(Some).collect() };
        let entry = |id: &String, node| DeviceEntry { resource: resource.clone(), id: id.clone(), node };
        found.extend(ids.iter().flat_map(|id| near().into_iter().map(move |node| entry(id, node))));
    }
    found
}

pub(super) fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

/// The containers that can own hardware: all but ephemeral ones.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}
