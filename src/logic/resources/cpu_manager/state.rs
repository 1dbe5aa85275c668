//! Which CPUs are shared, and which are whose; upstream's `cpumanager/state`.
//!
//! Pure data, with the checks that it passes at the start of the agent.

use std::collections::BTreeMap;

use super::cpu_set::CpuSet;
use super::topology::CpuTopology;
use crate::logic::formats::go_text::quoted;
use crate::logic::model::ids::PodUid;

/// CPUs by pod and container.
pub type Assignments = BTreeMap<PodUid, BTreeMap<String, CpuSet>>;

/// Everything that the CPU manager keeps on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuState {
    /// The shared CPUs; upstream's default set. Empty under the policy `none`.
    pub shared: CpuSet,
    /// CPUs of containers. Containers without an entry run on the shared CPUs.
    pub containers: Assignments,
    /// CPUs of pods as a whole (gate `PodLevelResourceManagers`); those of the pods' containers are among them.
    pub pods: BTreeMap<PodUid, CpuSet>,
}

/// A state that the static policy cannot go on from; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Containers have CPUs, and nothing is left for the others.
    #[error("default cpuset cannot be empty")]
    NothingShared,
    /// `strict-cpu-reservation`: reserved CPUs are shared.
    #[error(
        "some of strictly reserved cpus: {} are present in defaultCpuSet: {}",
        quoted(&reserved.to_string()), quoted(&shared.to_string())
    )]
    ReservedShared {
        /// The reserved CPUs that are shared.
        reserved: CpuSet,
        /// All shared CPUs.
        shared: CpuSet,
    },
    /// Reserved CPUs are not shared.
    #[error("not all reserved cpus: \"{reserved}\" are present in defaultCpuSet: \"{shared}\"")]
    ReservedAbsent {
        /// All reserved CPUs.
        reserved: CpuSet,
        /// All shared CPUs.
        shared: CpuSet,
    },
    /// CPUs are a container's own and shared.
    #[error("pod: {pod}, container: {container} cpuset: {} overlaps with default cpuset {}",
        quoted(&cpus.to_string()), quoted(&shared.to_string()))]
    Overlap {
        /// The pod's UID.
        pod: PodUid,
        /// The container's name.
        container: String,
        /// Its CPUs.
        cpus: CpuSet,
        /// All shared CPUs.
        shared: CpuSet,
    },
    /// The machine has other CPUs than the state.
    #[error("current set of available CPUs \"{machine}\" doesn't match with CPUs in state \"{state}\"")]
    OtherMachine {
        /// CPUs of the machine.
        machine: CpuSet,
        /// CPUs of the state.
        state: CpuSet,
    },
}

impl CpuState {
    /// The CPUs of a container, if it has some of its own or of its pod's.
    pub fn of(&self, pod: &PodUid, container: &str) -> Option<&CpuSet> {
        self.containers.get(pod)?.get(container)
    }

    /// The CPUs that a container runs on.
    pub fn of_or_shared(&self, pod: &PodUid, container: &str) -> &CpuSet {
        self.of(pod, container).unwrap_or(&self.shared)
    }

    /// Every CPU that containers have for themselves.
    pub fn assigned(&self) -> CpuSet {
        let sets = self.containers.values().flat_map(BTreeMap::values);
        sets.fold(CpuSet::default(), |all, cpus| all.union(cpus))
    }

    /// Gives a container CPUs.
    pub(super) fn assign(&mut self, pod: &PodUid, container: &str, cpus: CpuSet) {
        self.containers.entry(pod.clone()).or_default().insert(container.to_owned(), cpus);
    }

    /// Takes a container's CPUs back; those that nobody else has are shared from now on. Returns whether it had some.
    pub(super) fn remove(&mut self, pod: &PodUid, container: &str) -> bool {
        let Some(of_pod) = self.containers.get_mut(pod) else { return false };
        let Some(cpus) = of_pod.remove(container) else { return false };
        let of_siblings = of_pod.values().fold(CpuSet::default(), |all, cpus| all.union(cpus));
        let was_last = of_pod.is_empty();
        if was_last {
            self.containers.remove(pod);
        }
        let freed = match (self.pods.get(pod), was_last) {
            (None, _) => cpus.difference(&of_siblings),
            // The pod keeps its CPUs as long as one of its containers has an entry.
            (Some(_), false) => return true,
            (Some(_), true) => self.pods.remove(pod).unwrap_or_default(),
        };
        self.shared = self.shared.union(&freed);
        true
    }

    /// Checks the state against the machine, and shares all CPUs where nothing was kept yet. `strict` is the option
    /// `strict-cpu-reservation`.
    ///
    /// # Errors
    /// The first thing that is wrong, in upstream's order.
    pub(super) fn start(mut self, topology: &CpuTopology, reserved: &CpuSet, strict: bool) -> Result<Self, StateError> {
        let machine = if strict { topology.all().difference(reserved) } else { topology.all().clone() };
        if self.shared.is_empty() && self.containers.is_empty() {
            self.shared = machine;
            return Ok(self);
        }
        // With reserved CPUs apart, containers may rightly have all others; upstream could not start again then.
        if self.shared.is_empty() && !strict {
            return Err(StateError::NothingShared);
        }
        self.check_reserved(reserved, strict)?;
        for (pod, containers) in &self.containers {
            for (container, cpus) in containers {
                if !cpus.is_disjoint(&self.shared) {
                    let (pod, container, cpus) = (pod.clone(), container.clone(), cpus.clone());
                    return Err(StateError::Overlap { pod, container, cpus, shared: self.shared });
                }
            }
        }
        let of_pods = self.pods.values().fold(self.shared.clone(), |all, cpus| all.union(cpus));
        let state = of_pods.union(&self.assigned());
        if state == machine { Ok(self) } else { Err(StateError::OtherMachine { machine, state }) }
    }

    fn check_reserved(&self, reserved: &CpuSet, strict: bool) -> Result<(), StateError> {
        let common = reserved.intersection(&self.shared);
        let shared = || self.shared.clone();
        match strict {
            true if !common.is_empty() => Err(StateError::ReservedShared { reserved: common, shared: shared() }),
            false if common != *reserved => {
                Err(StateError::ReservedAbsent { reserved: reserved.clone(), shared: shared() })
            }
            _ => Ok(()),
        }
    }
}
