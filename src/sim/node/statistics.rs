//! Statistics of the simulated node: figures that always are the same, at the simulated time. A look can be where the
//! agent is killed, and takes a little time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::outlet::Outlet;
use crate::logic::model::time::{Moment, Stamp};
use crate::logic::statistics::sample::RawSample;
use crate::logic::statistics::walks::WalkKey;
use crate::platform::host::clock::Clock;
use crate::platform::statistics::{FixedStatistics, LookOrder, SampleError, Statistics, WalkPlace, Walked};

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
}

#[async_trait]
impl Statistics for Outlet {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        let number = self.begin_call().await;
        self.pass(LOOK).await;
        let sample = self.figures().look(order).await;
        self.end_call(number).await;
        sample
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, limit: Duration) -> Vec<Walked> {
        let number = self.begin_call().await;
        self.pass(LOOK).await;
        let walked = self.figures().walk(places, limit).await;
        self.end_call(number).await;
        walked
    }
}
