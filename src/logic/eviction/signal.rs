//! Signals: how much is left of what a node can run out of, and what each stands for.

use std::collections::BTreeMap;
use std::fmt;

use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::model::time::Moment;
use crate::logic::statistics::figures::{FileSystem, is_limit};
use crate::logic::statistics::sample::{RawSample, System};

/// A resource of which there can be too little, as upstream names it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::EnumString, strum::EnumIter,
)]
pub enum Signal {
    /// Memory of the node.
    #[strum(serialize = "memory.available")]
    MemoryAvailable,
    /// Memory that pods together may have.
    #[strum(serialize = "allocatableMemory.available")]
    AllocatableMemoryAvailable,
    /// Space where the agent keeps pods.
    #[strum(serialize = "nodefs.available")]
    NodeFsAvailable,
    /// Files there.
    #[strum(serialize = "nodefs.inodesFree")]
    NodeFsInodesFree,
    /// Space where the runtime keeps images.
    #[strum(serialize = "imagefs.available")]
    ImageFsAvailable,
    /// Files there.
    #[strum(serialize = "imagefs.inodesFree")]
    ImageFsInodesFree,
    /// Space where the runtime keeps writable layers.
    #[strum(serialize = "containerfs.available")]
    ContainerFsAvailable,
    /// Files there.
    #[strum(serialize = "containerfs.inodesFree")]
    ContainerFsInodesFree,
    /// Process IDs.
    #[strum(serialize = "pid.available")]
    PidAvailable,
}

/// The resource that runs short, as messages and annotations name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
pub enum Resource {
    /// Memory.
    #[strum(serialize = "memory")]
    Memory,
    /// Space on disks.
    #[strum(serialize = "ephemeral-storage")]
    EphemeralStorage,
    /// Files.
    #[strum(serialize = "inodes")]
    Inodes,
    /// Processes.
    #[strum(serialize = "pids")]
    Pids,
}

/// The condition of the Node that tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub enum Condition {
    /// Memory.
    MemoryPressure,
    /// Space or files.
    DiskPressure,
    /// Processes.
    #[strum(serialize = "PIDPressure")]
    PidPressure,
}

impl Signal {
    /// The resource that runs short.
    pub fn resource(self) -> Resource {
        match self {
            Self::MemoryAvailable | Self::AllocatableMemoryAvailable => Resource::Memory,
            Self::NodeFsAvailable | Self::ImageFsAvailable | Self::ContainerFsAvailable => Resource::EphemeralStorage,
            Self::NodeFsInodesFree | Self::ImageFsInodesFree | Self::ContainerFsInodesFree => Resource::Inodes,
            Self::PidAvailable => Resource::Pids,
        }
    }

    /// The Node's condition.
    pub fn condition(self) -> Condition {
        match self.resource() {
            Resource::Memory => Condition::MemoryPressure,
            Resource::EphemeralStorage | Resource::Inodes => Condition::DiskPressure,
            Resource::Pids => Condition::PidPressure,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

impl Resource {
    /// An amount of it, in the notation of messages.
    pub fn quantity(self, amount: u64) -> Quantity {
        let format = match self {
            Self::Memory | Self::EphemeralStorage => Format::BinarySi,
            Self::Inodes | Self::Pids => Format::DecimalSi,
        };
        Quantity::from_units(i64::try_from(amount).unwrap_or(i64::MAX), format)
    }
}

/// How much there is of a signal's resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The amount that is left.
    pub available: u64,
    /// All there can be.
    pub capacity: u64,
    /// When it was looked at.
    pub at: Moment,
}

/// The observation of each signal. A signal that cannot be observed is absent, and no threshold of it is met.
pub type Observations = BTreeMap<Signal, Observation>;

/// The signals that a look shows, from the sources that upstream takes them from.
///
/// Of the node's memory, `basis` says what counts as available.
pub fn observe(sample: &RawSample, basis: MemoryBasis) -> Observations {
    let mut found = BTreeMap::new();
    let root = &sample.node.group.figures;
    let pods = sample.systems.iter().find(|(kind, _)| *kind == System::Pods).map(|(_, group)| &group.figures);
    for (signal, figures) in [(Signal::MemoryAvailable, Some(root)), (Signal::AllocatableMemoryAvailable, pods)] {
        let Some(figures) = figures else { continue };
        let (Some(memory), capacity) = (&figures.memory, figures.memory_limits.limit) else { continue };
        if is_limit(capacity) {
            let available = capacity.saturating_sub(memory.working_set());
            found.insert(signal, Observation { available, capacity, at: figures.at });
        }
    }
    if let (Some(available), MemoryBasis::Available) = (sample.node.memory_available, basis)
        && let Some(seen) = found.get_mut(&Signal::MemoryAvailable)
    {
        seen.available = available;
    }
    if let (Some(capacity), Some(used)) = (sample.node.pids_max, sample.node.threads) {
        let available = capacity.saturating_sub(used);
        found.insert(Signal::PidAvailable, Observation { available, capacity, at: sample.at });
    }
    let Some(disks) = &sample.disks else { return found };
    let images = disks.images.and_then(|disk| disk.file_system);
    let containers = disks.containers.and_then(|disk| disk.file_system).or(images);
    let places = [
        (Signal::NodeFsAvailable, Signal::NodeFsInodesFree, Some(disks.node)),
        (Signal::ImageFsAvailable, Signal::ImageFsInodesFree, images),
        (Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree, containers),
    ];
    for (space, files, system) in places {
        // A disk without a size did not answer.
        if let Some(system) = system.filter(|system| system.capacity > 0) {
            observe_disk(space, files, &system, &mut found);
        }
    }
    found
}

/// The figure that counts as available memory of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryBasis {
    /// All but the working set, as upstream: page cache that was used lately counts as needed.
    #[default]
    WorkingSet,
    /// The kernel's `MemAvailable`: page cache that it can give back counts as available (PAIN-28).
    Available,
}

/// A group whose use was read in a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Which signal it is about.
    pub signal: Signal,
    /// The group's path.
    pub path: String,
    /// Bytes, page cache included.
    pub usage: u64,
}

/// The use of the groups behind the two signals of memory.
pub fn memory_use(sample: &RawSample) -> Vec<MemoryUse> {
    let pods = sample.systems.iter().find(|(kind, _)| *kind == System::Pods).map(|(_, group)| group);
    let groups = [(Signal::MemoryAvailable, Some(&sample.node.group)), (Signal::AllocatableMemoryAvailable, pods)];
    let of_group = groups.into_iter().filter_map(|(signal, group)| {
        let group = group?;
        Some(MemoryUse { signal, path: group.path.clone(), usage: group.figures.memory.as_ref()?.usage })
    });
    of_group.collect()
}

fn observe_disk(space: Signal, files: Signal, system: &FileSystem, found: &mut Observations) {
    let at = system.at;
    found.insert(space, Observation { available: system.available, capacity: system.capacity, at });
    // A file system without a bound on its files has no such signal.
    if system.inodes > 0 {
        found.insert(files, Observation { available: system.inodes_free, capacity: system.inodes, at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::statistics::figures::{MemoryFigures, MemoryLimits, UNLIMITED};
    use crate::logic::statistics::sample::{DiskSample, Group, RuntimeDisk};

    /// PAIN-28.
    #[test]
    fn pain_28_page_cache_counts_as_available_where_that_is_asked_for() {
        let mut sample = RawSample::default();
        sample.node.group.figures.memory = Some(MemoryFigures { usage: 900, ..MemoryFigures::default() });
        sample.node.group.figures.memory_limits.limit = 1000;
        let available = |sample: &RawSample, basis| observe(sample, basis)[&Signal::MemoryAvailable].available;
        assert_eq!(available(&sample, MemoryBasis::Available), 100, "a kernel that does not say");
        sample.node.memory_available = Some(600);
        assert_eq!(available(&sample, MemoryBasis::Available), 600);
        assert_eq!(available(&sample, MemoryBasis::WorkingSet), 100);
    }

    /// EVI-06, EVI-08, EVI-10.
    #[test]
    fn evi_06_evi_08_evi_10_signals_come_from_where_upstream_takes_them() {
        let at = Moment(7);
        let memory = MemoryFigures { usage: 700, inactive_file: 100, ..MemoryFigures::default() };
        let mut sample = RawSample::default();
        let node = &mut sample.node;
        node.group.figures.at = at;
        node.group.figures.memory = Some(memory);
        node.group.figures.memory_limits.limit = 1000;
        (node.pids_max, node.threads) = (Some(500), Some(120));
        let mut pods = Group { path: "/kubepods".to_owned(), figures: node.group.figures.clone() };
        pods.figures.memory_limits = MemoryLimits { limit: UNLIMITED, ..MemoryLimits::default() };
        sample.systems.push((System::Pods, pods));
        let node_fs = FileSystem { device: 1, at, capacity: 90, available: 30, free: 40, inodes: 9, inodes_free: 3 };
        let file_system = Some(FileSystem { capacity: 50, available: 20, inodes: 0, ..node_fs });
        let images = Some(RuntimeDisk { file_system, ..RuntimeDisk::default() });
        sample.disks = Some(DiskSample { node: node_fs, images, ..DiskSample::default() });
        let observed: Vec<_> = observe(&sample, MemoryBasis::WorkingSet)
            .into_iter()
            .map(|(signal, seen)| (<&str>::from(signal), seen.available, seen.capacity))
            .collect();
        assert_eq!(
            observed,
            [
                ("memory.available", 400, 1000),
                ("nodefs.available", 30, 90),
                ("nodefs.inodesFree", 3, 9),
                ("imagefs.available", 20, 50),
                ("containerfs.available", 20, 50),
                ("pid.available", 380, 500),
            ],
            "pods without a limit have no signal of their own, nor has a file system without a bound on files"
        );
    }
}
