//! The kernel's word at an unhappy moment, under paused time.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::*;
use crate::actors::kit::trace::Cause;
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
use crate::platform::host::kernel_log::{KernelLine, KernelLogError};
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

/// A kernel that has said these lines, and says no more.
struct Spoken(Mutex<Vec<KernelLine>>);

#[async_trait]
impl KernelLog for Spoken {
    async fn next(&self) -> Result<Vec<KernelLine>, KernelLogError> {
        let lines = std::mem::take(&mut *self.0.lock().expect("not poisoned"));
        if lines.is_empty() {
            std::future::pending::<()>().await;
        }
        Ok(lines)
    }
}

/// RES-61: a kill of the last minutes is an Event of the node. An old one is not, nor what a process writes into the log.
#[tokio::test(start_paused = true)]
async fn res_61_a_kill_of_the_machine_is_an_event_of_the_node() {
    let report = |age, is_kernels, pid: u32| {
        let texts =
            ["a invoked oom-killer: order=0".to_owned(), format!("Out of memory: Killed process {pid} (web) x:1")];
        texts.map(|text| KernelLine { age: Duration::from_secs(age), is_kernels, text })
    };
    let lines = [report(301, true, 1), report(299, true, 2), report(0, false, 3)].concat();
    let played = played_agent_with(ObjectServer::default().api(), paused_clock(), None, |_, adapters| {
        adapters.node.kernel_log = Arc::new(Spoken(Mutex::new(lines)));
    });
    start_alone(Child::EvictionManager, &played.agent);
    start_alone(Child::EventRecorder, &played.agent);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let recorder = &played.agent.directory.event_recorder;
    let last = |reply| EventRecorderMsg::Last(None, reply);
    let events = recorder.ask(Cause::outside("test"), Duration::from_secs(5), last).await.expect("answered");
    let events: Vec<_> = events
        .expect("no watcher")
        .iter()
        .map(|one| (one.event.reason.to_string(), one.event.message.clone()))
        .collect();
    assert_eq!(events, [("SystemOOM".to_owned(), "System OOM encountered, victim process: web, pid: 2".to_owned())]);
}
