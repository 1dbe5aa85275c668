//! A node that always says the same: for tests, and for the simulated node.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{AlarmError, Haste, LookOrder, RuntimeDiskAt, SampleError, Statistics, WalkOutcome, WalkPlace, Walked};
use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::statistics::figures::{
    CpuFigures, CpuLimits, FileSystem, GroupFigures, Interface, IoFigures, MemoryFigures, MemoryLimits, ProcessFigures,
    Traffic, UNLIMITED, Usage,
};
use crate::logic::statistics::sample::{
    Depth, DiskSample, Group, Machine, NodeSample, RawSample, RuntimeDisk, System, Wanted,
};
use crate::logic::statistics::volumes::Space;
use crate::logic::statistics::walks::WalkKey;
use crate::platform::host::clock::Clock;

/// The bytes that each container has in use.
pub const CONTAINER_BYTES: u64 = 8 << 20;

/// See the module. Processor time grows as the agent's uptime does: a tenth of a processor for each container.
#[derive(Clone)]
pub struct FixedStatistics {
    clock: Arc<dyn Clock>,
}

impl FixedStatistics {
    /// Figures as of this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }

    fn group(&self, path: impl Into<String>, containers: u64, wanted: Wanted) -> Group {
        let uptime = u64::try_from(self.clock.uptime().as_nanos()).unwrap_or(u64::MAX);
        let bytes = CONTAINER_BYTES * containers;
        let cpu = CpuFigures { total_ns: uptime / 10 * containers, ..CpuFigures::default() };
        let memory =
            MemoryFigures { usage: bytes, rss: bytes / 2, inactive_file: bytes / 4, ..MemoryFigures::default() };
        let mut figures = GroupFigures {
            at: self.clock.now(),
            cpu: Some(cpu),
            memory: Some(memory),
            memory_limits: MemoryLimits { limit: UNLIMITED, ..MemoryLimits::default() },
            ..GroupFigures::default()
        };
        if wanted.depth > Depth::Resources {
            figures.processes = Some(ProcessFigures { processes: containers, ..ProcessFigures::default() });
        }
        if wanted.depth == Depth::Everything {
            figures.cpu_limits = Some(CpuLimits { shares: 2, period_us: 100_000, quota_us: 0 });
            figures.io = Some(IoFigures::default());
        }
        Group { path: path.into(), figures }
    }

    fn file_system(&self) -> FileSystem {
        let at = self.clock.now();
        FileSystem {
            device: 1,
            at,
            capacity: 100 << 30,
            available: 60 << 30,
            free: 65 << 30,
            inodes: 1000,
            inodes_free: 900,
        }
    }

    fn usage(&self) -> Usage {
        Usage { at: self.clock.now(), bytes: 4096, inodes: 1 }
    }
}

#[async_trait]
impl Statistics for FixedStatistics {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        let (wanted, mut pods) = (order.wanted, order.pods);
        let count = |length: usize| u64::try_from(length).unwrap_or(0);
        let containers = pods.iter().map(|pod| count(pod.containers.len())).sum();
        let traffic = Traffic { bytes: 1000, packets: 10, errors: 0, dropped: 0 };
        for pod in &mut pods {
            let path = format!("/kubepods/pod{}", pod.uid);
            pod.group = Some(self.group(&path, count(pod.containers.len()), wanted));
            pod.sandbox.group = Some(self.group(format!("{path}/{}", pod.sandbox.id), 0, wanted));
            let interface = Interface { name: "eth0".to_owned(), received: traffic, sent: traffic };
            pod.sandbox.interfaces = (!pod.sandbox.host_network).then(|| vec![interface]);
            for container in &mut pod.containers {
                container.group = Some(self.group(format!("{path}/{}", container.id), 1, wanted));
                container.logs = wanted.disks.then(|| self.usage());
            }
            pod.logs = wanted.disks.then(Usage::default);
        }
        let mut root = self.group("/", containers + 1, wanted);
        root.figures.memory_limits.limit = 8 << 30;
        let of_runtime = |disk: RuntimeDiskAt| RuntimeDisk { file_system: Some(self.file_system()), ..disk.told };
        Ok(RawSample {
            at: self.clock.now(),
            node: NodeSample {
                group: root,
                pids_max: Some(32_768),
                threads: Some(100 + containers),
                machine: Machine { cpus: 2, cores: 2, sockets: 1, memory: 8 << 30, ..Machine::default() },
                ..NodeSample::default()
            },
            systems: vec![(System::Pods, self.group("/kubepods", containers, wanted))],
            pods,
            groupless: vec![],
            disks: wanted.disks.then(|| DiskSample {
                node: self.file_system(),
                logs: None,
                images: order.images.map(of_runtime),
                containers: order.containers.map(of_runtime),
            }),
            silent: vec![],
            cpu_ns: 1000,
        })
    }

    async fn memory_runs_short(&self, _watched: Vec<WatchedGroup>) -> Result<(), AlarmError> {
        std::future::pending().await
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, _: Haste) -> Vec<Walked> {
        let walked = places.into_iter().map(|(key, place)| {
            let outcome = match place {
                WalkPlace::Layer(_) => WalkOutcome::Layer(self.usage()),
                WalkPlace::Volume(..) => {
                    WalkOutcome::Volume(Space { file_system: self.file_system(), usage: Some(self.usage()) })
                }
            };
            let took = Duration::from_millis(1);
            Walked { key, took, cpu: took, outcome }
        });
        walked.collect()
    }
}
