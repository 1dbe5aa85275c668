//! Statistics of the simulated node: figures that always are the same, at the simulated time. A look can be where the
//! agent is killed, and takes a little time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::appetites;
use super::outlet::Outlet;
use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::model::time::{Moment, Stamp};
use crate::logic::statistics::sample::{Depth, Group, RawSample, Wanted};
use crate::logic::statistics::walks::WalkKey;
use crate::platform::host::clock::Clock;
use crate::platform::statistics::{
    AlarmError, FixedStatistics, Haste, LookOrder, SampleError, Statistics, WalkOutcome, WalkPlace, Walked,
};

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

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, haste: Haste) -> Vec<Walked> {
        let number = self.begin_call().await;
        self.pass(LOOK).await;
        let mut walked = self.figures().walk(places, haste).await;
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
