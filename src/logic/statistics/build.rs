//! From a snapshot to `/stats/summary`: upstream's derivations (SRV-24, SRV-25).
//!
//! Figures that the kernel does not have are left out, but for pressure: upstream shows zeros where the kernel has no
//! figures.

mod told;

use super::figures::{FileSystem, GroupFigures, Interface, Pressure, Usage, is_limit};
use super::sample::{ContainerSample, DiskSample, Group, PodSample, RuntimeDisk, Snapshot, System};
use super::summary::{
    ContainerStats, CpuStats, FsStats, InterfaceStats, IoStats, MemoryStats, NetworkStats, NodeStats, PodReference,
    PodStats, ProcessStats, PsiStats, RlimitStats, RuntimeStats, Summary, SwapStats, Time,
};
use super::told::LayerUse;
use crate::logic::model::time::Moment;

/// The interface that counts as a pod's or node's own.
const DEFAULT_INTERFACE: &str = "eth0";

/// The parts of the summary beside the figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The node's name.
    pub node_name: String,
    /// When it booted; the epoch where not known.
    pub booted: Moment,
    /// When the agent started.
    pub agent_started: Moment,
    /// Gate `KubeletPSI`: whether the summary has pressure.
    pub pressure: bool,
}

/// The whole answer.
pub fn summary(snapshot: &Snapshot, facts: &Facts) -> Summary {
    Builder { snapshot, whole: true, pressure: facts.pressure }.summary(facts)
}

/// The answer to `only_cpu_and_memory=true`.
pub fn cpu_and_memory(snapshot: &Snapshot, facts: &Facts) -> Summary {
    Builder { snapshot, whole: false, pressure: facts.pressure }.summary(facts)
}

struct Builder<'a> {
    snapshot: &'a Snapshot,
    /// Or processor time, memory and swap alone.
    whole: bool,
    /// See [`Facts::pressure`].
    pressure: bool,
}

impl Builder<'_> {
    fn summary(&self, facts: &Facts) -> Summary {
        let pods = self.snapshot.sample.pods.iter();
        let pods = match &self.snapshot.told {
            None => pods.filter(|pod| !pod.containers.is_empty()).map(|pod| self.pod(pod)).collect(),
            Some(told) => pods.filter_map(|pod| Some(self.told_pod(pod, told.get(&pod.sandbox.id)?))).collect(),
        };
        Summary { node: self.node(facts), pods }
    }

    fn node(&self, facts: &Facts) -> NodeStats {
        let sample = &self.snapshot.sample;
        let node = &sample.node;
        let root = &node.group;
        let mut stats = NodeStats {
            node_name: facts.node_name.clone(),
            system_containers: self.systems(facts),
            start_time: Time(facts.booted),
            cpu: self.cpu(root),
            memory: self.memory(&root.figures),
            swap: swap(&root.figures),
            ..NodeStats::default()
        };
        if !self.whole {
            return stats;
        }
        stats.io = self.io(&root.figures);
        stats.network = (!node.interfaces.is_empty()).then(|| network(root.figures.at, &node.interfaces));
        stats.rlimit = Some(RlimitStats { time: Time(sample.at), max_pid: node.pids_max, current: node.threads });
        if let Some(disks) = &sample.disks {
            stats.fs = Some(FsStats {
                used_bytes: Some(disks.node.used()),
                inodes_used: Some(disks.node.inodes_used()),
                ..space(&disks.node)
            });
            let image_fs = disks.images.as_ref().map(runtime_disk);
            let container_fs = disks.containers.as_ref().map(runtime_disk).or(image_fs);
            stats.runtime = Some(RuntimeStats { image_fs, container_fs });
        }
        stats
    }

    fn systems(&self, facts: &Facts) -> Vec<ContainerStats> {
        let systems = self.snapshot.sample.systems.iter().filter(|(kind, _)| *kind != System::Tier);
        let stats = systems.map(|(kind, group)| {
            let name: &'static str = kind.into();
            let start = match kind {
                System::Kubelet => facts.agent_started,
                _ => group.figures.created.unwrap_or(Moment::EPOCH),
            };
            let io = self.io(&group.figures);
            ContainerStats {
                name: name.to_owned(),
                start_time: Time(start),
                cpu: self.cpu(group),
                memory: self.memory(&group.figures),
                swap: swap(&group.figures),
                io,
                ..ContainerStats::default()
            }
        });
        stats.collect()
    }

    fn pod(&self, pod: &PodSample) -> PodStats {
        let containers: Vec<_> = pod.containers.iter().map(|container| self.container(container)).collect();
        let mut stats = named(pod);
        match &pod.group {
            Some(group) => {
                stats.cpu = self.cpu(group);
                stats.memory = self.memory(&group.figures);
                stats.swap = swap(&group.figures);
                stats.io = self.io(&group.figures);
            }
            None => sum_up(&mut stats, &containers),
        }
        if self.whole {
            let at = pod.sandbox.group.as_ref().map_or(self.snapshot.sample.at, |group| group.figures.at);
            stats.network = pod.sandbox.interfaces.as_ref().map(|interfaces| network(at, interfaces));
            stats.process_stats = processes(pod);
            self.add_storage(&mut stats, pod, &containers);
        }
        stats.containers = containers;
        stats
    }

    /// A pod's volumes and its part of the node's disk: nobody but the agent knows them.
    fn add_storage(&self, stats: &mut PodStats, pod: &PodSample, containers: &[ContainerStats]) {
        let volumes = self.snapshot.volumes.get(&pod.uid).map_or(&[][..], Vec::as_slice);
        // Ephemeral ones first, as upstream has it.
        let (ephemeral, others): (Vec<_>, Vec<_>) = volumes.iter().partition(|volume| volume.is_ephemeral);
        stats.volumes = ephemeral.iter().chain(&others).map(|volume| volume.stats()).collect();
        if let Some(disks) = &self.snapshot.sample.disks {
            let ephemeral: Vec<_> = ephemeral.iter().map(|volume| volume.stats().space).collect();
            stats.ephemeral_storage = Some(ephemeral_storage(pod, containers, &ephemeral, disks));
        }
    }

    fn container(&self, container: &ContainerSample) -> ContainerStats {
        let mut stats = ContainerStats {
            name: container.name.clone(),
            start_time: Time(container.created),
            ..ContainerStats::default()
        };
        if let Some(group) = &container.group {
            stats.cpu = self.cpu(group);
            stats.memory = self.memory(&group.figures);
            stats.swap = swap(&group.figures);
            stats.io = self.io(&group.figures);
        }
        let layer = self.snapshot.layers.get(&container.id).map(|usage| LayerUse::from(*usage));
        self.add_disks(&mut stats, container, layer);
        stats
    }

    /// A container's writable layer and its logs.
    fn add_disks(&self, stats: &mut ContainerStats, container: &ContainerSample, layer: Option<LayerUse>) {
        let Some(disks) = self.snapshot.sample.disks.as_ref().filter(|_| self.whole) else { return };
        stats.rootfs = Some(rootfs(layer, disks, self.snapshot.sample.at));
        let logs_on = disks.logs.as_ref().unwrap_or(&disks.node);
        stats.logs = container.logs.map(|usage| used(logs_on, usage));
    }

    fn cpu(&self, group: &Group) -> Option<CpuStats> {
        let cpu = group.figures.cpu.as_ref()?;
        Some(CpuStats {
            time: Time(group.figures.at),
            usage_nano_cores: self.snapshot.nano_cores.get(&group.path).copied(),
            usage_core_nano_seconds: Some(cpu.total_ns),
            psi: self.psi(cpu.pressure),
        })
    }

    fn memory(&self, figures: &GroupFigures) -> Option<MemoryStats> {
        let memory = figures.memory.as_ref()?;
        let limit = Some(figures.memory_limits.limit).filter(|limit| is_limit(*limit));
        Some(MemoryStats {
            time: Time(figures.at),
            available_bytes: limit.map(|limit| limit.saturating_sub(memory.working_set())),
            usage_bytes: Some(memory.usage),
            working_set_bytes: Some(memory.working_set()),
            rss_bytes: Some(memory.rss),
            page_faults: Some(memory.page_faults),
            major_page_faults: Some(memory.major_page_faults),
            psi: self.psi(memory.pressure),
        })
    }

    /// The summary has nothing of input and output but pressure.
    fn io(&self, figures: &GroupFigures) -> Option<IoStats> {
        let pressure = figures.io.as_ref().and_then(|io| io.pressure);
        let shown = self.whole && self.pressure;
        shown.then(|| IoStats { time: Time(figures.at), psi: self.psi(pressure) })
    }

    /// Under the gate always there, as upstream has it: zeros where the kernel has no figures.
    fn psi(&self, pressure: Option<Pressure>) -> Option<PsiStats> {
        self.pressure.then(|| pressure.unwrap_or_default().into())
    }
}

/// A pod with its names alone.
fn named(pod: &PodSample) -> PodStats {
    let pod_ref = PodReference { name: pod.name.clone(), namespace: pod.namespace.clone(), uid: pod.uid.to_string() };
    PodStats { pod_ref, start_time: Time(pod.created), ..PodStats::default() }
}

fn swap(figures: &GroupFigures) -> Option<SwapStats> {
    let memory = figures.memory.as_ref()?;
    let limit = Some(figures.memory_limits.swap_limit).filter(|limit| is_limit(*limit));
    Some(SwapStats {
        time: Time(figures.at),
        swap_available_bytes: limit.map(|limit| limit.saturating_sub(memory.swap)),
        swap_usage_bytes: Some(memory.swap),
    })
}

fn network(at: Moment, interfaces: &[Interface]) -> NetworkStats {
    let show = |interface: &Interface| InterfaceStats {
        name: interface.name.clone(),
        rx_bytes: Some(interface.received.bytes),
        rx_errors: Some(interface.received.errors),
        tx_bytes: Some(interface.sent.bytes),
        tx_errors: Some(interface.sent.errors),
    };
    let default = interfaces.iter().find(|interface| interface.name == DEFAULT_INTERFACE);
    NetworkStats {
        time: Time(at),
        default: default.map(show).unwrap_or_default(),
        interfaces: interfaces.iter().map(show).collect(),
    }
}

/// Processes of the pod's containers; its sandbox does not count.
fn processes(pod: &PodSample) -> Option<ProcessStats> {
    let counts = pod.containers.iter().filter_map(|container| container.group.as_ref()?.figures.processes);
    let counts: Vec<u64> = counts.map(|figures| figures.processes).collect();
    (!counts.is_empty()).then(|| ProcessStats { process_count: counts.iter().sum() })
}

/// The space of a file system, with nothing said of its users.
fn space(system: &FileSystem) -> FsStats {
    FsStats {
        time: Time(system.at),
        available_bytes: Some(system.available),
        capacity_bytes: Some(system.capacity),
        used_bytes: None,
        inodes_free: Some(system.inodes_free),
        inodes: Some(system.inodes),
        inodes_used: None,
    }
}

fn used(system: &FileSystem, usage: Usage) -> FsStats {
    FsStats {
        time: Time(system.at.max(usage.at)),
        used_bytes: Some(usage.bytes),
        inodes_used: Some(usage.inodes),
        ..space(system)
    }
}

fn runtime_disk(disk: &RuntimeDisk) -> FsStats {
    FsStats {
        time: Time(disk.at),
        used_bytes: disk.used,
        inodes_used: disk.inodes_used,
        ..disk.file_system.as_ref().map(space).unwrap_or_default()
    }
}

fn rootfs(layer: Option<LayerUse>, disks: &DiskSample, at: Moment) -> FsStats {
    let on = disks.containers.as_ref().or(disks.images.as_ref());
    let on = on.and_then(|disk| disk.file_system).as_ref().map(space).unwrap_or_default();
    FsStats {
        time: Time(layer.map_or(at, |layer| layer.at)),
        used_bytes: layer.and_then(|layer| layer.bytes),
        inodes_used: layer.and_then(|layer| layer.inodes),
        ..on
    }
}

/// Writable layers and logs of the containers, volumes on the disk, other files in the log directory, the hosts file. The
/// space that is left is the node's.
fn ephemeral_storage(
    pod: &PodSample,
    containers: &[ContainerStats],
    volumes: &[FsStats],
    disks: &DiskSample,
) -> FsStats {
    let mut sum = space(&disks.node);
    let mut add = |part: &FsStats| {
        sum.used_bytes = plus(sum.used_bytes, part.used_bytes);
        sum.inodes_used = plus(sum.inodes_used, part.inodes_used);
        sum.time = sum.time.max(part.time);
    };
    for container in containers {
        container.rootfs.iter().chain(&container.logs).for_each(&mut add);
    }
    volumes.iter().for_each(&mut add);
    for usage in [pod.logs, pod.hosts_file].into_iter().flatten() {
        add(&used(&disks.node, usage));
    }
    sum
}

fn plus(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// A pod without a group of its own is the sum of its containers.
fn sum_up(pod: &mut PodStats, containers: &[ContainerStats]) {
    for container in containers {
        if let Some(one) = &container.cpu {
            let sum = pod.cpu.get_or_insert_default();
            sum.time = one.time;
            sum.usage_core_nano_seconds = plus(sum.usage_core_nano_seconds, one.usage_core_nano_seconds);
            sum.usage_nano_cores = plus(sum.usage_nano_cores, one.usage_nano_cores);
        }
        if let Some(one) = &container.memory {
            let sum = pod.memory.get_or_insert_default();
            sum.time = one.time;
            sum.available_bytes = plus(sum.available_bytes, one.available_bytes);
            sum.usage_bytes = plus(sum.usage_bytes, one.usage_bytes);
            sum.working_set_bytes = plus(sum.working_set_bytes, one.working_set_bytes);
            sum.rss_bytes = plus(sum.rss_bytes, one.rss_bytes);
            sum.page_faults = plus(sum.page_faults, one.page_faults);
            sum.major_page_faults = plus(sum.major_page_faults, one.major_page_faults);
        }
        if let Some(one) = &container.io {
            // Pressure of groups does not add up; upstream shows the time alone.
            pod.io.get_or_insert(IoStats { time: one.time, psi: None });
        }
        if let Some(one) = &container.swap {
            let sum = pod.swap.get_or_insert_default();
            sum.time = one.time;
            sum.swap_available_bytes = plus(sum.swap_available_bytes, one.swap_available_bytes);
            sum.swap_usage_bytes = plus(sum.swap_usage_bytes, one.swap_usage_bytes);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
