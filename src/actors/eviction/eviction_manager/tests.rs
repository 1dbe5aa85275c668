//! The kernel's word at an unhappy moment, under paused time.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::*;
use crate::actors::node::tests::{paused_clock, played_agent_with};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::eviction::signal::Signal;
use crate::logic::eviction::threshold::Threshold;
use crate::logic::resources::portion::Portion;
use crate::logic::statistics::sample::RawSample;
use crate::logic::statistics::walks::WalkKey;
use crate::messages::root::Child;
use crate::platform::host::clock::Clock;
use crate::platform::statistics::{FixedStatistics, Haste, LookOrder, SampleError, WalkPlace, Walked};

/// How long a look takes.
const LOOK: Duration = Duration::from_secs(1);

/// A node with enough memory, whose kernel says that it may run short when the test wants it.
struct Figures {
    fixed: FixedStatistics,
    clock: Arc<dyn Clock>,
    alarm: Notify,
    /// When each look began, in seconds of uptime.
    looks: Mutex<Vec<f64>>,
}

#[async_trait]
impl Statistics for Figures {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        self.looks.lock().expect("not poisoned").push(self.clock.uptime().as_secs_f64());
        tokio::time::sleep(LOOK).await;
        self.fixed.look(order).await
    }

    async fn memory_runs_short(&self, _: Vec<WatchedGroup>) -> Result<(), AlarmError> {
        self.alarm.notified().await;
        Ok(())
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, haste: Haste) -> Vec<Walked> {
        self.fixed.walk(places, haste).await
    }
}

/// EVI-34, PAIN-27: the look under way may have read the memory before.
#[tokio::test(start_paused = true)]
async fn an_alarm_during_a_look_is_followed_by_another_look() {
    let clock = paused_clock();
    let figures = Arc::new(Figures {
        fixed: FixedStatistics::new(Arc::clone(&clock)),
        clock: Arc::clone(&clock),
        alarm: Notify::new(),
        looks: Mutex::default(),
    });
    let played = played_agent_with(ObjectServer::default().api(), clock, None, |settings, adapters| {
        let (value, grace) = (Portion::parse("1Gi").expect("a value"), Duration::ZERO);
        let threshold = Threshold { signal: Signal::MemoryAvailable, value, grace, reclaim_min: None };
        settings.resources.eviction.thresholds = vec![threshold];
        settings.resources.eviction.local_storage = false;
        adapters.node.statistics = figures.clone();
    });
    start_alone(Child::EvictionManager, &played.agent);
    let looks = || figures.looks.lock().expect("not poisoned").clone();
    // Until the second look is under way.
    while looks().len() < 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(LOOK / 2).await;
    figures.alarm.notify_one();
    tokio::time::sleep(2 * LOOK).await;
    assert_eq!(looks().len(), 3, "{:?}", looks());
}
