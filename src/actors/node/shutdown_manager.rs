//! `ShutdownManager`: has pods end in their order when the machine goes down, and delays it for so long (NODE-42 to NODE-48).
//!
//! Parent: Root. Restarted: after a failure; logind says that a shutdown is under way, and the pods that have not ended are
//! listed anew. The lock that delays the shutdown is the adapter's, so it outlives a restart of this actor. An agent that was
//! started during a shutdown has no lock, since logind gives none then, and ends the pods all the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::{Newest, SingleFlight};
use crate::actors::kit::trace::Cause;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::node::node_status::NodeNews;
use crate::logic::node::shutdown::sequence::{Action, Input, Shutdown};
use crate::logic::node::shutdown::times::{FILE_NAME, ShutdownTimes};
use crate::logic::node::shutdown::{NODE_PROBLEM, ShutdownSettings};
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::node::shutdown_manager::{LogindStep, ShutdownManagerMsg, TimesStep};
use crate::messages::pods::pod_manager::{PodManagerMsg, ShutdownMsg};
use crate::platform::files::checkpoints::Checkpoints;
use crate::platform::host::logind::{Logind, LogindError};
use crate::platform::observer::{Observation, Observer};

/// Wait before logind is watched again; upstream's `dbusReconnectPeriod`.
const WATCH_RETRY: Duration = Duration::from_secs(1);
/// Wait before `PodManager` gets orders again that it had no room for, or is asked again.
const ORDER_RETRY: Duration = Duration::from_millis(100);

/// How long `PodManager` may take to name its pods.
const ASK_LIMIT: Duration = Duration::from_secs(2);
/// How long the disk may take: it delays the shutdown.
const WRITE_LIMIT: Duration = Duration::from_secs(2);
/// Wait before a mailbox without room is tried again.
const TELL_RETRY: Duration = Duration::from_millis(50);
/// logind reads its configuration beside the order to do so: how often it is asked for the result, and the first wait, which
/// doubles each time. Upstream's numbers.
const READ_AGAIN: (u32, Duration) = (5, Duration::from_millis(100));

/// The actor's arguments.
pub struct Args {
    /// Which pods may take how long.
    pub settings: ShutdownSettings,
    /// Says that the machine goes down, and delays it.
    pub logind: Arc<dyn Logind>,
    /// Keeps the times of the last shutdown.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Has the same times as metrics.
    pub observer: Arc<dyn Observer>,
    /// Has pods end, and takes no more of them.
    pub pod_manager: Address<PodManagerMsg>,
    /// Says that the node is not ready.
    pub node_status: Address<NodeStatusMsg>,
    /// Events of the node.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// See the module.
pub struct ShutdownManager {
    args: Args,
    shutdown: Shutdown,
    times: ShutdownTimes,
    /// An older write never comes last.
    writes: SingleFlight<Newest<ShutdownTimes>>,
    /// The machine may go down once the times are on the disk.
    releases: bool,
    /// The time of the group that ends.
    period: Option<OperationId>,
    /// `PodManager` does not know yet whether the machine goes down.
    is_untold: bool,
    /// Pods whose end `PodManager` had no room for, with their grace periods.
    unordered: BTreeMap<PodUid, Duration>,
    /// A timer runs for them.
    is_retrying: bool,
    /// The log says already that logind cannot be watched, in these words.
    complaint: Option<String>,
}

impl Actor for ShutdownManager {
    const KIND: &'static str = "ShutdownManager";
    type Msg = ShutdownManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ShutdownManagerMsg>) -> Self {
        let mut manager = Self {
            shutdown: Shutdown::new(args.settings.periods.clone()),
            args,
            times: ShutdownTimes::default(),
            writes: SingleFlight::default(),
            releases: false,
            period: None,
            is_untold: false,
            unordered: BTreeMap::new(),
            is_retrying: false,
            complaint: None,
        };
        manager.note_times(ShutdownTimes::default());
        if manager.args.settings.is_on() {
            if manager.args.settings.keeps_times {
                let checkpoints = Arc::clone(&manager.args.checkpoints);
                let work = async move { read_times(&*checkpoints).await };
                context.start("read times", "the last shutdown", work, |outcome| {
                    ShutdownManagerMsg::Times(TimesStep::Read(outcome.into()))
                });
            }
            manager.watch(context);
        }
        manager
    }

    fn receive(&mut self, message: ShutdownManagerMsg, context: &mut Context<ShutdownManagerMsg>) {
        match message {
            ShutdownManagerMsg::Logind(step) => self.hear(step, context),
            ShutdownManagerMsg::PodsListed(outcome) => match outcome.into_result() {
                Ok(pods) => self.step(Input::Pods(pods), context),
                Err(error) => {
                    tracing::error!(error, "the pods that are to end are not known yet");
                    context.after(ORDER_RETRY, ShutdownManagerMsg::ListDue);
                }
            },
            ShutdownManagerMsg::ListDue => self.list_pods(context),
            ShutdownManagerMsg::OrderAgain => {
                self.is_retrying = false;
                self.order(context);
            }
            ShutdownManagerMsg::PeriodOver(group) => {
                tracing::info!(group, "Shutdown manager pod killing time out");
                self.step(Input::PeriodOver(group), context);
            }
            ShutdownManagerMsg::Times(step) => self.take_times(step, context),
            ShutdownManagerMsg::PodOver(uid) => {
                self.unordered.remove(&uid);
                self.step(Input::PodOver(uid), context);
            }
            ShutdownManagerMsg::Repeat => self.step(Input::Repeat, context),
        }
    }
}

impl ShutdownManager {
    fn hear(&mut self, step: LogindStep, context: &mut Context<ShutdownManagerMsg>) {
        match step {
            LogindStep::Prepare(ends) => self.step(Input::Prepare(ends), context),
            LogindStep::WatchEnded(why) => {
                let why = why.map_or_else(|loss| loss.to_string(), |error| error.to_string());
                if self.complaint.as_ref() != Some(&why) {
                    tracing::error!(err = why, "Unable to watch the node for shutdown events");
                    self.complaint = Some(why);
                }
                context.after(WATCH_RETRY, ShutdownManagerMsg::Logind(LogindStep::WatchDue));
            }
            LogindStep::WatchDue => self.watch(context),
            LogindStep::Delayed(outcome) => {
                if let Err(error) = outcome.into_result() {
                    tracing::error!(error, "the next shutdown is not delayed");
                }
            }
        }
    }

    fn take_times(&mut self, step: TimesStep, context: &mut Context<ShutdownManagerMsg>) {
        match step {
            TimesStep::Read(outcome) => match outcome.into_result() {
                // A shutdown that began since is the newer one.
                Ok(Some(times)) if self.times.began.is_none() => self.note_times(times),
                Ok(_) => {}
                Err(error) => tracing::error!(error, "Failed to load graceful shutdown state"),
            },
            TimesStep::Written(outcome) => {
                if let Err(error) = outcome.into_result() {
                    tracing::error!(error, "Failed to store graceful shutdown state");
                }
                match self.writes.end() {
                    (_, Some(Newest(times))) => self.write(times, context),
                    (_, None) if std::mem::take(&mut self.releases) => self.release(),
                    (_, None) => {}
                }
            }
        }
    }

    fn watch(&self, context: &mut Context<ShutdownManagerMsg>) {
        let (logind, total) = (Arc::clone(&self.args.logind), self.args.settings.total());
        let work = watch(logind, total, context.address().clone(), context.cause());
        context.start("watch logind", "the machine goes down", work, |why| {
            ShutdownManagerMsg::Logind(LogindStep::WatchEnded(why))
        });
    }

    fn step(&mut self, input: Input, context: &mut Context<ShutdownManagerMsg>) {
        for action in self.shutdown.step(input) {
            match action {
                Action::Announce { ends, is_new } => self.announce(ends, is_new, context),
                Action::ListPods => self.list_pods(context),
                Action::EndPod { uid, grace } => drop(self.unordered.insert(uid, grace)),
                Action::Await { group, period } => self.wait_for(group, period, context),
                Action::Release => self.finish(context),
                Action::Delay => {
                    let logind = Arc::clone(&self.args.logind);
                    let work = async move { logind.delay().await };
                    context.start("delay shutdown", "the next one", work, |outcome| {
                        ShutdownManagerMsg::Logind(LogindStep::Delayed(outcome.into()))
                    });
                }
            }
        }
        self.order(context);
    }

    /// Everybody hears whether the machine goes down.
    fn announce(&mut self, ends: bool, is_new: bool, context: &mut Context<ShutdownManagerMsg>) {
        if is_new {
            let text = match ends {
                true => "Shutdown manager detected shutdown event",
                false => "Shutdown manager detected shutdown cancellation",
            };
            tracing::info!("{text}");
            let node = EventSubject::node(&self.args.settings.node_name);
            context.tell(&self.args.event_recorder, node.normal(EventReason::Shutdown, text));
        }
        if is_new && ends {
            self.keep_times(ShutdownTimes { began: Some(context.now()), ended: None }, context);
        }
        if !ends {
            self.stop_waiting(context);
            (self.releases, self.unordered) = (false, BTreeMap::new());
        }
        let problem = ends.then(|| NODE_PROBLEM.to_owned());
        context.tell(&self.args.node_status, NodeStatusMsg::News(NodeNews::ShutdownProblem(problem)));
        self.is_untold = true;
    }

    fn list_pods(&self, context: &mut Context<ShutdownManagerMsg>) {
        let work = list(self.args.pod_manager.clone(), context.cause());
        context.start("list pods", "those that are to end", work, |outcome| {
            ShutdownManagerMsg::PodsListed(outcome.into())
        });
    }

    /// Gives `PodManager` all that it does not know yet, in order.
    fn order(&mut self, context: &mut Context<ShutdownManagerMsg>) {
        let tell = |message| context.try_tell(&self.args.pod_manager, PodManagerMsg::Shutdown(message));
        if self.is_untold {
            self.is_untold = !tell(ShutdownMsg::Changed(self.shutdown.is_under_way()));
        }
        if !self.is_untold {
            self.unordered.retain(|uid, grace| !tell(ShutdownMsg::End { uid: uid.clone(), grace: *grace }));
        }
        if (self.is_untold || !self.unordered.is_empty()) && !std::mem::replace(&mut self.is_retrying, true) {
            context.after(ORDER_RETRY, ShutdownManagerMsg::OrderAgain);
        }
    }

    fn wait_for(&mut self, group: u64, period: Duration, context: &mut Context<ShutdownManagerMsg>) {
        tracing::info!(group, pods = self.unordered.len(), ?period, "Shutdown manager killing pods");
        self.stop_waiting(context);
        self.period = Some(context.after(period, ShutdownManagerMsg::PeriodOver(group)));
    }

    fn stop_waiting(&mut self, context: &mut Context<ShutdownManagerMsg>) {
        if let Some(timer) = self.period.take() {
            context.cancel(timer);
        }
    }

    /// All pods have ended, or their time is over.
    fn finish(&mut self, context: &mut Context<ShutdownManagerMsg>) {
        self.stop_waiting(context);
        let times = ShutdownTimes { ended: Some(context.now()), ..self.times };
        self.releases = self.keep_times(times, context);
        if !self.releases {
            self.release();
        }
    }

    fn release(&self) {
        tracing::info!("Shutdown manager completed processing shutdown event, node will shutdown shortly");
        self.args.logind.release();
    }

    /// Whether they are to be on the disk.
    fn keep_times(&mut self, times: ShutdownTimes, context: &mut Context<ShutdownManagerMsg>) -> bool {
        self.note_times(times);
        if self.args.settings.keeps_times {
            self.write(times, context);
        }
        self.args.settings.keeps_times
    }

    fn write(&mut self, times: ShutdownTimes, context: &mut Context<ShutdownManagerMsg>) {
        if self.writes.want(Newest(times)).is_none() {
            return;
        }
        let checkpoints = Arc::clone(&self.args.checkpoints);
        let work = async move { write_times(&*checkpoints, times).await };
        context.start("write times", "this shutdown", work, |outcome| {
            ShutdownManagerMsg::Times(TimesStep::Written(outcome.into()))
        });
    }

    fn note_times(&mut self, times: ShutdownTimes) {
        self.times = times;
        if self.args.settings.keeps_times {
            self.args.observer.observe(Observation::NodeShutdown(times));
        }
    }
}

/// Delays shutdowns for as long as pods may take, and tells of each that begins or is cancelled. Ends with a failure.
async fn watch(logind: Arc<dyn Logind>, total: Duration, to: Address<ShutdownManagerMsg>, cause: Cause) -> LogindError {
    follow(&*logind, total, &to, &cause).await.err().unwrap_or(LogindError::Lost)
}

async fn follow(
    logind: &dyn Logind,
    total: Duration,
    to: &Address<ShutdownManagerMsg>,
    cause: &Cause,
) -> Result<(), LogindError> {
    lengthen(logind, total).await?;
    let mut states = logind.watch().await?;
    let mut is_first = true;
    while let Some(ends) = states.next().await {
        // While a shutdown is under way logind gives no lock.
        if std::mem::take(&mut is_first) && !ends {
            logind.delay().await?;
        }
        while to.tell(cause.clone(), ShutdownManagerMsg::Logind(LogindStep::Prepare(ends))).is_err() {
            tokio::time::sleep(TELL_RETRY).await;
        }
    }
    Ok(())
}

/// Has logind delay shutdowns for as long as pods may take, where it would not.
async fn lengthen(logind: &dyn Logind, total: Duration) -> Result<(), LogindError> {
    let mut found = logind.delay_max().await?;
    if found >= total {
        return Ok(());
    }
    logind.set_delay_max(total).await?;
    let (attempts, mut wait) = READ_AGAIN;
    for attempt in 1..=attempts {
        found = logind.delay_max().await?;
        if found >= total {
            return Ok(());
        }
        if attempt < attempts {
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
    }
    Err(LogindError::TooShort { attempts, wanted: total, found })
}

async fn list(pods: Address<PodManagerMsg>, cause: Cause) -> Result<Vec<Arc<Pod>>, String> {
    let question = |reply| PodManagerMsg::Shutdown(ShutdownMsg::Active(reply));
    pods.ask(cause, ASK_LIMIT, question).await.map_err(|error| error.to_string())
}

async fn read_times(files: &dyn Checkpoints) -> Result<Option<ShutdownTimes>, String> {
    let bytes = files.read(FILE_NAME).await.map_err(|error| error.to_string())?;
    bytes.map(|bytes| ShutdownTimes::parse(&bytes).map_err(|error| format!("{FILE_NAME}: {error}"))).transpose()
}

async fn write_times(files: &dyn Checkpoints, times: ShutdownTimes) -> Result<(), String> {
    match tokio::time::timeout(WRITE_LIMIT, files.write(FILE_NAME, times.to_json())).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err(format!("{FILE_NAME} was not written within 2 s")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use futures_util::stream::{self, BoxStream};

    use super::*;
    use crate::actors::kit::trace::lock;
    use crate::actors::node::tests::played_agent;
    use crate::actors::played_api::ObjectServer;
    use crate::actors::wiring::start_alone;
    use crate::logic::node::shutdown::ShutdownPeriod;
    use crate::messages::Ended;
    use crate::messages::root::Child;
    use crate::platform::files::FileError;

    /// The machine goes down.
    #[derive(Default)]
    struct GoingDown {
        released: AtomicBool,
    }

    #[async_trait]
    impl Logind for GoingDown {
        async fn delay_max(&self) -> Result<Duration, LogindError> {
            Ok(Duration::from_secs(60))
        }
        async fn set_delay_max(&self, _: Duration) -> Result<(), LogindError> {
            Ok(())
        }
        async fn delay(&self) -> Result<(), LogindError> {
            Ok(())
        }
        fn release(&self) {
            self.released.store(true, Ordering::Relaxed);
        }
        async fn watch(&self) -> Result<BoxStream<'static, bool>, LogindError> {
            Ok(stream::iter([true]).chain(stream::pending()).boxed())
        }
    }

    /// A disk that takes a second for the first file.
    #[derive(Default)]
    struct SlowDisk {
        is_awake: AtomicBool,
        content: Mutex<Vec<u8>>,
    }

    #[async_trait]
    impl Checkpoints for SlowDisk {
        async fn read(&self, _: &'static str) -> Result<Option<Vec<u8>>, FileError> {
            Ok(None)
        }
        async fn write(&self, _: &'static str, bytes: Vec<u8>) -> Result<(), FileError> {
            if !self.is_awake.swap(true, Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            *lock(&self.content) = bytes;
            Ok(())
        }
        async fn set_aside(&self, _: &'static str) -> Result<(), FileError> {
            Ok(())
        }
    }

    /// NODE-48: of a shutdown that is soon over the disk has the end as well, and the machine waits for it.
    #[tokio::test(start_paused = true)]
    async fn node_48_the_times_of_a_short_shutdown_are_written_in_order() {
        let (logind, disk) = (Arc::new(GoingDown::default()), Arc::new(SlowDisk::default()));
        let given: (Arc<dyn Logind>, Arc<dyn Checkpoints>) = (Arc::clone(&logind) as _, Arc::clone(&disk) as _);
        let played = played_agent(ObjectServer::default().api(), move |settings, adapters| {
            let shutdown = &mut settings.node.shutdown;
            shutdown.periods = vec![ShutdownPeriod { priority: 0, period: Duration::from_secs(20) }];
            shutdown.keeps_times = true;
            (adapters.node.logind, adapters.checkpoints) = given;
        });
        start_alone(Child::ShutdownManager, &played.agent);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let no_pods = ShutdownManagerMsg::PodsListed(Ended::Done(vec![]));
        played.agent.directory.shutdown_manager.tell(Cause::outside("test"), no_pods).expect("has room");
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!logind.released.load(Ordering::Relaxed), "the disk has nothing yet");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let times = ShutdownTimes::parse(&lock(&disk.content)).expect("read");
        assert!(times.began.is_some() && times.ended.is_some(), "{times:?}");
        assert!(logind.released.load(Ordering::Relaxed));
    }
}
