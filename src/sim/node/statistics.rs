//! Statistics of the simulated node: figures that always are the same, at the simulated time. A look can be where the
//! agent is killed, and takes a little time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Node;
use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::cri::ContainerState;
use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::{Moment, Stamp};
use crate::logic::statistics::sample::{Depth, Group, RawSample, Wanted};
use crate::logic::statistics::walks::WalkKey;
use crate::platform::host::clock::Clock;
use crate::platform::statistics::{AlarmError, FixedStatistics, LookOrder, SampleError, Statistics, WalkPlace, Walked};

/// A container's memory unless a scenario says otherwise; the fixed figures hold it already.
const ORDINARY_BYTES: u64 = 1 << 20;
/// The rest of a full disk.
const FULL_DISK_BYTES: u64 = 1 << 30;
/// Memory that the node is to keep, in scenarios of eviction.
pub const MEMORY_LEFT_MIN: u64 = 1 << 30;
/// How long a look takes.
const LOOK: Duration = Duration::from_millis(5);

/// The node's own time. Looks need no order of their own.
struct NodeClock {
    now: Moment,
    uptime: Duration,
}

impl Clock for NodeClock {
    fn now(&self) -> Moment {
        self.now
    }

    fn uptime(&self) -> Duration {
        self.uptime
    }

    fn stamp(&self) -> Stamp {
        Stamp(0)
    }
}

/// Bytes of memory that each pod uses beyond the ordinary.
fn beyond_ordinary(node: &Node) -> BTreeMap<PodUid, u64> {
    let mut beyond: BTreeMap<PodUid, u64> = BTreeMap::new();
    for container in lock(&node.containers).containers.values() {
        let bytes = container.memory.saturating_sub(ORDINARY_BYTES);
        if container.state == ContainerState::Running && bytes > 0 {
            *beyond.entry(container.uid.clone()).or_default() += bytes;
        }
    }
    beyond
}

/// Whether less memory or disk is left than scenarios of eviction keep.
fn is_short(node: &Node, sample: &RawSample) -> bool {
    let memory = sample.node.group.figures.memory.as_ref().map_or(0, |memory| memory.working_set());
    lock(&node.images).disk_is_full || sample.node.machine.memory.saturating_sub(memory) < MEMORY_LEFT_MIN
}

impl Outlet {
    fn figures(&self) -> FixedStatistics {
        let time = &self.node().time;
        FixedStatistics::new(Arc::new(NodeClock { now: time.now(), uptime: time.elapsed() }))
    }

    /// Adds what containers use beyond the ordinary, and a full disk.
    fn with_appetites(&self, mut sample: RawSample) -> RawSample {
        let beyond = beyond_ordinary(self.node());
        let all = beyond.values().sum();
        let add = |group: &mut Group, bytes: u64| {
            if let Some(memory) = &mut group.figures.memory {
                memory.usage += bytes;
            }
        };
        add(&mut sample.node.group, all);
        sample.systems.iter_mut().for_each(|(_, group)| add(group, all));
        for pod in &mut sample.pods {
            if let (Some(group), Some(bytes)) = (&mut pod.group, beyond.get(&pod.uid)) {
                add(group, *bytes);
            }
        }
        if lock(&self.node().images).disk_is_full
            && let Some(disks) = &mut sample.disks
        {
            let of_runtime = [&mut disks.images, &mut disks.containers].into_iter().flatten();
            let systems = of_runtime.filter_map(|disk| disk.file_system.as_mut());
            systems.chain([&mut disks.node]).for_each(|system| system.available = FULL_DISK_BYTES);
        }
        sample
    }
}

#[async_trait]
impl Statistics for Outlet {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        let number = self.begin_call().await;
        self.pass(LOOK).await;
        let sample = self.figures().look(order).await.map(|sample| self.with_appetites(sample));
        if sample.as_ref().is_ok_and(|sample| is_short(self.node(), sample)) {
            self.node().invariants.seen_short();
        }
        self.end_call(number).await;
        sample
    }

    /// As the first generation of control groups does: by the level alone.
    async fn memory_runs_short(&self, watched: Vec<WatchedGroup>) -> Result<(), AlarmError> {
        loop {
            // From before the look on, so that no change is missed.
            let changed = self.node().memory_changed.notified();
            let order = LookOrder {
                wanted: Wanted { depth: Depth::Resources, disks: false },
                pods: vec![],
                images: None,
                containers: None,
            };
            if let Ok(sample) = self.figures().look(order).await.map(|sample| self.with_appetites(sample)) {
                let all = std::iter::once(&sample.node.group).chain(sample.systems.iter().map(|(_, group)| group));
                let usage = |group: &Group| group.figures.memory.as_ref().map_or(0, |memory| memory.usage);
                let reached =
                    |one: &WatchedGroup| all.clone().any(|group| group.path == one.path && usage(group) >= one.level);
                if watched.iter().any(reached) {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, limit: Duration) -> Vec<Walked> {
        let number = self.begin_call().await;
        self.pass(LOOK).await;
        let walked = self.figures().walk(places, limit).await;
        self.end_call(number).await;
        walked
    }
}
