//! Statistics of the simulated node: figures that always are the same, at the simulated time. A look can be where the
//! agent is killed, and takes a little time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::outlet::Outlet;
use super::{Node, appetites};
use crate::actors::kit::trace::lock;
use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::model::time::{Moment, Stamp};
use crate::logic::statistics::figures::FileSystem;
use crate::logic::statistics::sample::{Depth, Group, RawSample, Wanted};
use crate::logic::statistics::walks::WalkKey;
use crate::platform::host::clock::Clock;
use crate::platform::statistics::{
    AlarmError, FixedStatistics, LookOrder, SampleError, Statistics, WalkOutcome, WalkPlace, Walked,
};

/// Memory that the node is to keep, in scenarios of eviction.
pub const MEMORY_LEFT_MIN: u64 = 1 << 30;
/// Bytes that each of its disks is to keep in such scenarios: a tenth of it.
pub const DISK_LEFT_MIN: u64 = 10 << 30;
/// Files that each of its disks is to keep: a twentieth of it.
pub const FILES_LEFT_MIN: u64 = 50;
/// Processes that the node is to keep: a tenth of all there can be.
pub const PROCESSES_LEFT_MIN: u64 = 3276;
/// How often memory that grows by itself is compared with the levels that are watched.
const GROWTH_STEP: Duration = Duration::from_millis(50);
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

/// Whether less is left of anything than scenarios of eviction keep.
pub(super) fn is_short(node: &Node, sample: &RawSample) -> bool {
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

impl Outlet {
    fn figures(&self) -> FixedStatistics {
        let time = &self.node().time;
        FixedStatistics::new(Arc::new(NodeClock { now: time.now(), uptime: time.elapsed() }))
    }

    /// The fixed figures, with what pods take.
    async fn sampled(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        let mut sample = self.figures().look(order).await?;
        appetites::charge(self.node(), &mut sample);
        Ok(sample)
    }
}

#[async_trait]
impl Statistics for Outlet {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        let number = self.begin_call().await;
        self.pass(LOOK).await;
        let sample = self.sampled(order).await;
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
            if let Ok(sample) = self.sampled(order).await {
                let all = std::iter::once(&sample.node.group).chain(sample.systems.iter().map(|(_, group)| group));
                let usage = |group: &Group| group.figures.memory.as_ref().map_or(0, |memory| memory.usage);
                let reached =
                    |one: &WatchedGroup| all.clone().any(|group| group.path == one.path && usage(group) >= one.level);
                if watched.iter().any(reached) {
                    return Ok(());
                }
            }
            if appetites::something_grows(self.node()) {
                // Whether this or the change comes first makes no difference: the next look shows both.
                let _ = tokio::time::timeout(GROWTH_STEP, changed).await;
            } else {
                changed.await;
            }
        }
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, limit: Duration) -> Vec<Walked> {
        let number = self.begin_call().await;
        self.pass(LOOK).await;
        let mut walked = self.figures().walk(places, limit).await;
        for one in &mut walked {
            if let (WalkKey::Layer(id), WalkOutcome::Layer(usage)) = (&one.key, &mut one.outcome) {
                let taken = appetites::layer(self.node(), id);
                usage.bytes += taken.bytes;
                usage.inodes += taken.inodes;
            }
        }
        self.end_call(number).await;
        walked
    }
}
