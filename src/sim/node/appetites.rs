//! The appetites of simulated pods: memory, disk, files and processes, more of them each second where their behaviour says
//! so. Beside them: other content of the disks, and the layout of the disks.

use std::collections::BTreeMap;

use super::Node;
use crate::actors::kit::trace::lock;
use crate::cri::ContainerState;
use crate::logic::eviction::layout::DiskLayout;
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::statistics::figures::{FileSystem, Usage};
use crate::logic::statistics::sample::{DiskSample, Group, RawSample};
use crate::sim::containers::SimContainer;

/// A container's memory unless a scenario says otherwise; the fixed figures hold it already.
const ORDINARY_BYTES: u64 = 1 << 20;
/// The rest of a full disk.
const FULL_DISK_BYTES: u64 = 1 << 30;
/// Memory that the node is to keep, in scenarios of eviction.
pub const MEMORY_LEFT_MIN: u64 = 1 << 30;
/// Bytes that each of its disks is to keep in such scenarios: a tenth of it.
pub const DISK_LEFT_MIN: u64 = 10 << 30;
/// Files that each of its disks is to keep: a twentieth of it.
pub const FILES_LEFT_MIN: u64 = 50;
/// Processes that the node is to keep: a tenth of all there can be.
pub const PROCESSES_LEFT_MIN: u64 = 3276;
/// Identities of the two file systems there may be.
const NODE_DEVICE: u64 = 1;
const IMAGE_DEVICE: u64 = 2;

/// The content of the node that belongs to no pod, and the layout of its disks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Where images and writable layers lie.
    pub layout: DiskLayout,
    /// No file can be written.
    pub refuses_writes: bool,
    /// Bytes on the agent's disk that belong to no pod.
    pub bytes: u64,
    /// Bytes on the disk of images, where that is another one, that belong to no pod.
    pub image_bytes: u64,
    /// Files on the agent's disk that belong to no pod.
    pub files: u64,
    /// Processes of no pod.
    pub processes: u64,
}

/// The use of a container, a pod or all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    memory: u64,
    swap: u64,
    processes: u64,
    logs: u64,
    layer: Usage,
}

impl Taken {
    fn of(node: &Node, container: &SimContainer) -> Self {
        let runs = container.state == ContainerState::Running;
        let lived = match container.state {
            ContainerState::Running => node.time.truly().since(container.began),
            ContainerState::Exited => container.over.since(container.began),
            ContainerState::Created | ContainerState::Unknown => std::time::Duration::ZERO,
        };
        let grown = |rate: u64| u64::try_from(lived.as_millis() * u128::from(rate) / 1000).unwrap_or(u64::MAX);
        let behaviour = &container.behaviour;
        let living = |amount: u64| if runs { amount } else { 0 };
        Self {
            memory: living(container.memory.saturating_sub(ORDINARY_BYTES) + grown(behaviour.leaks)),
            swap: living(container.swap),
            processes: living(grown(behaviour.forks)),
            logs: lock(&node.disk).bytes_of_logs(&container.log_path, node.time.truly()),
            layer: Usage { bytes: grown(behaviour.fills), inodes: grown(behaviour.litters), ..Usage::default() },
        }
    }

    fn add(&mut self, other: &Self) {
        self.memory += other.memory;
        self.swap += other.swap;
        self.processes += other.processes;
        self.logs += other.logs;
        self.layer.bytes += other.layer.bytes;
        self.layer.inodes += other.layer.inodes;
    }

    fn charge(&self, group: &mut Group) {
        if let Some(memory) = &mut group.figures.memory {
            memory.usage += self.memory;
            memory.swap += self.swap;
        }
        if let Some(processes) = &mut group.figures.processes {
            processes.processes += self.processes;
        }
    }
}

/// Whether a container takes more by itself as time passes.
pub fn something_grows(node: &Node) -> bool {
    let containers = lock(&node.containers);
    let mut running = containers.containers.values().filter(|one| one.state == ContainerState::Running);
    running.any(|one| one.behaviour.leaks > 0)
}

/// The writable layer of a container.
pub fn layer(node: &Node, id: &ContainerId) -> Usage {
    let containers = lock(&node.containers);
    containers.containers.get(id).map(|one| Taken::of(node, one).layer).unwrap_or_default()
}

/// Adds to the fixed figures what pods take, and what else is there.
pub fn charge(node: &Node, sample: &mut RawSample) {
    let (mut all, mut of_pods) = (Taken::default(), BTreeMap::<PodUid, Taken>::new());
    let mut of_containers = BTreeMap::new();
    for container in lock(&node.containers).containers.values() {
        let taken = Taken::of(node, container);
        of_containers.insert(container.id.clone(), taken);
        all.add(&taken);
        of_pods.entry(container.uid.clone()).or_default().add(&taken);
    }
    all.charge(&mut sample.node.group);
    sample.systems.iter_mut().for_each(|(_, group)| all.charge(group));
    for pod in &mut sample.pods {
        if let (Some(group), Some(taken)) = (&mut pod.group, of_pods.get(&pod.uid)) {
            taken.charge(group);
        }
        for container in &mut pod.containers {
            let Some(taken) = of_containers.get(&container.id) else { continue };
            container.group.iter_mut().for_each(|group| taken.charge(group));
            container.logs.iter_mut().for_each(|usage| usage.bytes += taken.logs);
        }
    }
    let beside = *lock(&node.beside);
    sample.node.threads = sample.node.threads.map(|threads| threads + all.processes + beside.processes);
    // Logs of pods whose containers are gone stay for a while.
    let all_logs = lock(&node.disk).bytes_of_all_logs(node.time.truly());
    if let Some(disks) = &mut sample.disks {
        fill(
            disks,
            beside,
            &Usage { bytes: all_logs, ..Usage::default() },
            &all.layer,
            lock(&node.images).disk_is_full,
        );
    }
    if is_short(node, sample) {
        node.invariants.seen_short();
        relief_is_due(node);
    } else if sample.disks.is_some() {
        node.invariants.seen_enough();
    }
}

/// Whether less is left of anything than scenarios of eviction keep.
fn is_short(node: &Node, sample: &RawSample) -> bool {
    let memory = sample.node.group.figures.memory.as_ref().map_or(0, |memory| memory.working_set());
    let disk_is_short = |disk: &FileSystem| disk.available < DISK_LEFT_MIN || disk.inodes_free < FILES_LEFT_MIN;
    let disks = sample.disks.iter().flat_map(|disks| {
        let of_runtime = [&disks.images, &disks.containers].into_iter().flatten();
        of_runtime.filter_map(|disk| disk.file_system).chain([disks.node])
    });
    let processes = sample.node.pids_max.zip(sample.node.threads).map(|(most, now)| most.saturating_sub(now));
    lock(&node.images).disk_is_full
        || sample.node.machine.memory.saturating_sub(memory) < MEMORY_LEFT_MIN
        || disks.into_iter().any(|disk| disk_is_short(&disk))
        || processes.is_some_and(|left| left < PROCESSES_LEFT_MIN)
}

/// While the node is short, and nothing goes wrong, pods that may end for that do not go on for long.
fn relief_is_due(node: &Node) {
    if !node.faults.is_quiet() || lock(&node.hung).is_some() || lock(&node.stuck).is_some() {
        return node.invariants.relief_held_up();
    }
    let containers = lock(&node.containers);
    let running = containers.containers.values().filter(|one| one.state == ContainerState::Running);
    let spared: Vec<String> = running.filter(|one| node.invariants.may_go(&one.uid)).map(SimContainer::label).collect();
    drop(containers);
    node.invariants.relief_due(&spared);
}

fn fill(disks: &mut DiskSample, beside: Beside, logs: &Usage, layers: &Usage, is_full: bool) {
    let take = |system: &mut FileSystem, usage: &Usage| {
        system.available = system.available.saturating_sub(usage.bytes);
        system.free = system.free.saturating_sub(usage.bytes);
        system.inodes_free = system.inodes_free.saturating_sub(usage.inodes);
    };
    let whole = disks.node;
    let (mut node, mut images) =
        (FileSystem { device: NODE_DEVICE, ..whole }, FileSystem { device: IMAGE_DEVICE, ..whole });
    take(&mut node, logs);
    take(&mut node, &Usage { bytes: beside.bytes, inodes: beside.files, ..Usage::default() });
    take(&mut images, &Usage { bytes: beside.image_bytes, ..Usage::default() });
    match beside.layout {
        DiskLayout::Single | DiskLayout::Split => take(&mut node, layers),
        DiskLayout::ImagesApart => take(&mut images, layers),
    }
    if is_full {
        images.available = FULL_DISK_BYTES;
    }
    if is_full && beside.layout == DiskLayout::Single {
        node.available = FULL_DISK_BYTES;
    }
    if beside.layout == DiskLayout::Single {
        images = node;
    }
    disks.node = node;
    disks.images.iter_mut().for_each(|disk| disk.file_system = Some(images));
    // Told of only where layers are not with images.
    disks.containers.iter_mut().for_each(|disk| disk.file_system = Some(node));
}
