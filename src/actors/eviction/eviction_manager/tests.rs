//! The kernel's word at an unhappy moment, under paused time.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::*;
use crate::actors::node::tests::{PlayedAgent, paused_clock, played_agent_with};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::eviction::signal::Signal;
use crate::logic::eviction::threshold::Threshold;
use crate::logic::resources::portion::Portion;
use crate::logic::statistics::sample::RawSample;
use crate::logic::statistics::walks::WalkKey;
use crate::messages::root::Child;
use crate::platform::host::clock::Clock;
use crate::platform::statistics::{AlarmError, FixedStatistics, Haste, LookOrder, SampleError, WalkPlace, Walked};

/// How long a look takes.
const LOOK: Duration = Duration::from_secs(1);

/// A node with enough memory, whose kernel says that it may run short when the test wants it, or cannot say so.
struct Figures {
    fixed: FixedStatistics,
    clock: Arc<dyn Clock>,
    alarm: Option<Notify>,
    /// The first look gets no answer.
    hangs_first: bool,
    /// When each look began, in seconds of uptime.
    looks: Mutex<Vec<f64>>,
}

#[async_trait]
impl Statistics for Figures {
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError> {
        let number = {
            let mut looks = self.looks.lock().expect("not poisoned");
            looks.push(self.clock.uptime().as_secs_f64());
            looks.len()
        };
        if self.hangs_first && number == 1 {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(LOOK).await;
        self.fixed.look(order).await
    }

    async fn memory_runs_short(&self, _: Vec<WatchedGroup>) -> Result<(), AlarmError> {
        let alarm = self.alarm.as_ref().ok_or(AlarmError::Nothing)?;
        alarm.notified().await;
        Ok(())
    }

    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, haste: Haste) -> Vec<Walked> {
        self.fixed.walk(places, haste).await
    }
}

/// The manager of such a node of 8 GiB, with this threshold.
fn started(alarm: Option<Notify>, threshold: &str) -> (PlayedAgent, Arc<Figures>) {
    started_with(threshold, |figures| figures.alarm = alarm)
}

fn started_with(threshold: &str, adjust: impl FnOnce(&mut Figures)) -> (PlayedAgent, Arc<Figures>) {
    let clock = paused_clock();
    let fixed = FixedStatistics::new(Arc::clone(&clock));
    let (looks, hangs_first) = (Mutex::default(), false);
    let mut figures = Figures { fixed, clock: Arc::clone(&clock), alarm: None, hangs_first, looks };
    adjust(&mut figures);
    let figures = Arc::new(figures);
    let played = played_agent_with(ObjectServer::default().api(), clock, None, |settings, adapters| {
        let (value, grace) = (Portion::parse(threshold).expect("a value"), Duration::ZERO);
        let threshold = Threshold { signal: Signal::MemoryAvailable, value, grace, reclaim_min: None };
        settings.resources.eviction.thresholds = vec![threshold];
        settings.resources.eviction.local_storage = false;
        adapters.node.statistics = figures.clone();
    });
    start_alone(Child::EvictionManager, &played.agent);
    (played, figures)
}

/// EVI-34, PAIN-27: the look under way may have read the memory before.
#[tokio::test(start_paused = true)]
async fn an_alarm_during_a_look_is_followed_by_another_look() {
    let (_played, figures) = started(Some(Notify::new()), "1Gi");
    let looks = || figures.looks.lock().expect("not poisoned").clone();
    // Until the second look is under way.
    while looks().len() < 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(LOOK / 2).await;
    figures.alarm.as_ref().expect("it tells").notify_one();
    tokio::time::sleep(2 * LOOK).await;
    assert_eq!(looks().len(), 3, "{:?}", looks());
}

/// EVI-34, PAIN-27: where the kernel refuses to tell, memory is looked at as often as a disk with so little left.
#[tokio::test(start_paused = true)]
async fn memory_is_looked_at_often_where_the_kernel_refuses_to_tell() {
    let (_played, figures) = started(None, "6Gi");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let looks = figures.looks.lock().expect("not poisoned").clone();
    assert!(looks.len() >= 9, "every 2 s, and each takes a second: {looks:?}");
}

/// A kernel that does not answer once does not stop evictions for ever.
#[tokio::test(start_paused = true)]
async fn a_look_that_gets_no_answer_is_followed_by_another() {
    let (_played, figures) = started_with("1Gi", |figures| figures.hangs_first = true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let looks = figures.looks.lock().expect("not poisoned").clone();
    assert!(looks.len() >= 2, "{looks:?}");
}

