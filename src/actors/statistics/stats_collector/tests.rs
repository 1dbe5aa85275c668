//! `StatsCollector` over figures that cannot be read at first, under paused time.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::*;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::eviction::alarm::WatchedGroup;
use crate::messages::root::Child;
use crate::platform::statistics::{AlarmError, FixedStatistics, LookOrder, SampleError, WalkPlace, Walked};

/// Looks that take a second each; the first one fails.
struct Moody {
    looks: AtomicUsize,
    fixed: FixedStatistics,
}

#[async_trait]
impl Statistics for Moody {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        seconds(1.0).await;
        match self.looks.fetch_add(1, Ordering::SeqCst) {
            0 => Err(SampleError::NoProc),
            _ => self.fixed.look(order).await,
        }
    }

    async fn memory_runs_short(&self, watched: Vec<WatchedGroup>) -> Result<(), AlarmError> {
        self.fixed.memory_runs_short(watched).await
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, haste: Haste) -> Vec<Walked> {
        self.fixed.walk(places, haste).await
    }
}

/// A look that fails is no answer to who asked after it began: the next look is.
#[tokio::test(start_paused = true)]
async fn an_asker_during_a_look_that_fails_gets_a_look_of_its_own() {
    let agent = played_agent(ObjectServer::default().api(), |_, adapters| {
        let fixed = FixedStatistics::new(crate::actors::node::tests::paused_clock());
        adapters.node.statistics = Arc::new(Moody { looks: AtomicUsize::new(0), fixed });
    })
    .agent;
    start_alone(Child::Pleg, &agent);
    start_alone(Child::StatsCollector, &agent);
    let ask = async |after: f64| {
        seconds(after).await;
        let (wanted, age_max) = (Wanted::RESOURCES, Duration::ZERO);
        let question = |reply| StatsCollectorMsg::Get { wanted, age_max, reply };
        let to = &agent.directory.stats_collector;
        to.ask(Cause::outside("test"), Duration::from_secs(30), question).await.expect("answered").map(drop)
    };
    let (first, second) = futures_util::future::join(ask(0.0), ask(0.5)).await;
    assert_eq!(first, Err(SampleError::NoProc.to_string()));
    assert_eq!(second, Ok(()));
}
