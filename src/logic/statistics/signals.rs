//! What an eviction manager decides by, taken from the same looks as the summary (upstream's signals and their sources).

use std::collections::BTreeMap;

use super::figures::{FileSystem, is_limit};
use super::sample::{Snapshot, System};
use crate::logic::model::time::Moment;

/// A resource of which there can be too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
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

/// How much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What is left.
    pub available: u64,
    /// All there can be.
    pub capacity: u64,
    /// When it was looked at.
    pub at: Moment,
}

/// Who tells signals: the snapshot of `StatsCollector`, or whatever else a test puts in its place.
pub trait Signals {
    /// All signals that are known.
    fn signals(&self) -> BTreeMap<Signal, Observation>;
}

impl Signals for Snapshot {
    fn signals(&self) -> BTreeMap<Signal, Observation> {
        let mut found = BTreeMap::new();
        let sample = &self.sample;
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
            if let Some(system) = system {
                tell(space, files, &system, &mut found);
            }
        }
        found
    }
}

fn tell(space: Signal, files: Signal, system: &FileSystem, found: &mut BTreeMap<Signal, Observation>) {
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

    #[test]
    fn signals_come_from_where_upstream_takes_them() {
        let at = Moment(7);
        let memory = MemoryFigures { usage: 700, inactive_file: 100, ..MemoryFigures::default() };
        let mut snapshot = Snapshot::default();
        let node = &mut snapshot.sample.node;
        node.group.figures.at = at;
        node.group.figures.memory = Some(memory);
        node.group.figures.memory_limits.limit = 1000;
        (node.pids_max, node.threads) = (Some(500), Some(120));
        let mut pods = Group { path: "/kubepods".to_owned(), figures: node.group.figures.clone() };
        pods.figures.memory_limits = MemoryLimits { limit: UNLIMITED, ..MemoryLimits::default() };
        snapshot.sample.systems.push((System::Pods, pods));
        let node_fs = FileSystem { at, capacity: 90, available: 30, free: 40, inodes: 9, inodes_free: 3 };
        let file_system = Some(FileSystem { capacity: 50, available: 20, inodes: 0, ..node_fs });
        let images = Some(RuntimeDisk { file_system, ..RuntimeDisk::default() });
        snapshot.sample.disks = Some(DiskSample { node: node_fs, images, ..DiskSample::default() });
        let told: Vec<_> = snapshot
            .signals()
            .into_iter()
            .map(|(signal, seen)| (<&str>::from(signal), seen.available, seen.capacity))
            .collect();
        assert_eq!(
            told,
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
