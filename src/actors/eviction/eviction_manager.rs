//! `EvictionManager`: looks how much the node has left, tells its conditions, and has pods end when there is too little.
//!
//! Parent: Root. Restarted: after a failure; grace periods of soft thresholds and the transition periods of conditions
//! begin anew. One thing is under way at a time: a look, a reclaim, or a measurement of the candidates. As upstream, one pod
//! goes a round, and the next round waits until that pod is over; looks go on meanwhile.

mod kernel_log;
mod orders;
mod steps;
mod waking;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use self::orders::{Order, Orders};
use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::cri::{ImageFsInfo, ImageService};
use crate::logic::events::reasons::EventReason;
use crate::logic::eviction::aftermath::{Aftermath, SPACE_PACE};
use crate::logic::eviction::alarm::{WatchedGroup, can_be_reached, levels};
use crate::logic::eviction::layout::{DiskLayout, ignored};
use crate::logic::eviction::leaving::Leaving;
use crate::logic::eviction::message::message;
use crate::logic::eviction::monitor::Shortage;
use crate::logic::eviction::pace::{PACE_MAX, PACE_MIN, next_look};
use crate::logic::eviction::ranking::{Candidate, Ranked, rank};
use crate::logic::eviction::record::{EvictionCause, EvictionRecords};
use crate::logic::eviction::signal::Observations;
use crate::logic::eviction::storage_limits::exceeded;
use crate::logic::eviction::watch::Watch;
use crate::logic::eviction::{Eviction, EvictionSettings, GRACE_IMMEDIATE, soft_grace};
use crate::logic::model::ids::PodUid;
use crate::logic::model::pressure::Pressure;
use crate::logic::node::node_status::NodeNews;
use crate::logic::pods::node_stop::patience;
use crate::logic::resources::is_critical;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::eviction_manager::{EvictionManagerMsg, EvictionWait, NodeLook};
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::pods::pod_manager::{EvictionMsg, PodManagerMsg};
use crate::messages::runtime::container_gc::ContainerGcMsg;
use crate::messages::stats_collector::StatsCollectorMsg;
use crate::platform::host::kernel_log::KernelLog;
use crate::platform::observer::{Observation, Observer};
use crate::platform::statistics::Statistics;

/// An eviction that `PodManager` had no room for is ordered again after this.
const ORDER_RETRY: Duration = Duration::from_millis(100);
/// The runtime is asked again where its file systems are after this.
const DISKS_PERIOD: Duration = Duration::from_secs(300);

/// The actor's arguments.
pub struct Args {
    /// Thresholds and periods.
    pub settings: EvictionSettings,
    /// The kernel's figures.
    pub statistics: Arc<dyn Statistics>,
    /// The kernel's log, for kills that came before any eviction.
    pub kernel_log: Arc<dyn KernelLog>,
    /// The runtime, for where its file systems are.
    pub images: Arc<dyn ImageService>,
    /// Counts evictions.
    pub observer: Arc<dyn Observer>,
    /// Has pods end, and knows which there are.
    pub pod_manager: Address<PodManagerMsg>,
    /// Tells the Node's conditions.
    pub node_status: Address<NodeStatusMsg>,
    /// Measures pods.
    pub stats_collector: Address<StatsCollectorMsg>,
    /// Removes dead containers.
    pub container_gc: Address<ContainerGcMsg>,
    /// Removes unused images.
    pub image_gc: Address<ImageGcMsg>,
    /// Events of the node.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// The one thing that is under way.
enum Stage {
    /// Nothing; a look is due at some time.
    Waiting,
    /// A look.
    Looking,
    /// The node gives up what it can, because of this.
    Reclaiming(Shortage),
    /// The candidates are measured, because of this.
    Measuring(Shortage),
}

/// See the module.
pub struct EvictionManager {
    args: Args,
    stage: Stage,
    /// The timer or the operation of the stage.
    under_way: Option<OperationId>,
    /// The file systems, and the thresholds that follow from them; known after the first look.
    watch: Option<Watch>,
    /// The last observations, and their uptime.
    last: Option<(Observations, Duration)>,
    /// The runtime's last answer about its disks, and its uptime.
    disks: Option<(ImageFsInfo, Duration)>,
    /// The conditions as others know them.
    pressure: Option<Pressure>,
    /// Paths whose file systems do not answer, as `NodeStatus` knows them; `None` when it does not.
    silent: Option<Vec<String>>,
    /// Decisions of the last hour.
    records: EvictionRecords,
    /// The kernel is to tell when memory may run short, from these levels on.
    alarm: Option<(OperationId, Vec<WatchedGroup>)>,
    /// The kernel told so since the last look began.
    rang: bool,
    /// The kernel cannot tell. The log says so, and memory is looked at instead.
    is_deaf: bool,
    /// Evictions that `PodManager` had no room for yet.
    orders: Orders,
    /// Evicted pods that are not over yet.
    leaving: Leaving,
    /// Pods have just ended, whose space on disks may be on its way back.
    aftermath: Option<Aftermath>,
}

impl Actor for EvictionManager {
    const KIND: &'static str = "EvictionManager";
    type Msg = EvictionManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<EvictionManagerMsg>) -> Self {
        for text in ignored(&args.settings.thresholds) {
            tracing::warn!("{text}");
        }
        let mut manager = Self {
            args,
            stage: Stage::Waiting,
            under_way: None,
            watch: None,
            last: None,
            disks: None,
            pressure: None,
            silent: Some(vec![]),
            records: EvictionRecords::default(),
            alarm: None,
            rang: false,
            is_deaf: false,
            orders: Orders::default(),
            leaving: Leaving::default(),
            aftermath: None,
        };
        manager.follow_kernel_log(context);
        if !manager.args.settings.thresholds.is_empty() || manager.args.settings.local_storage {
            manager.look(context);
        }
        manager
    }

    fn receive(&mut self, message: EvictionManagerMsg, context: &mut Context<EvictionManagerMsg>) {
        match message {
            EvictionManagerMsg::Repeat => {
                self.silent = self.silent.take().filter(Vec::is_empty);
                if let Some(pressure) = self.pressure.take() {
                    self.tell_pressure(pressure, context);
                }
            }
            EvictionManagerMsg::Why { namespace, name, reply } => {
                // The asker may have left.
                let _ = reply.send(self.records.of(&namespace, &name, context.clock().uptime()));
            }
            EvictionManagerMsg::Due(EvictionWait::LookDue) => {
                if matches!(self.stage, Stage::Waiting) {
                    self.look(context);
                }
            }
            EvictionManagerMsg::SettingsChanged(settings) => self.follow(*settings, context),
            EvictionManagerMsg::MemoryRanShort(outcome) => self.take_alarm(outcome, context),
            EvictionManagerMsg::Looked(outcome) => match outcome.into_result() {
                Ok(look) => self.looked(*look, context),
                Err(error) => {
                    tracing::error!(error, "Eviction manager: failed to get summary stats");
                    self.wait(PACE_MAX, context);
                }
            },
            EvictionManagerMsg::Reclaimed(outcome) => {
                self.reclaimed(outcome.into_result(), context);
            }
            EvictionManagerMsg::Measured(outcome) => match outcome.into_result() {
                Ok(candidates) => self.measured(candidates, context),
                Err(error) => {
                    tracing::error!(error, "Eviction manager: failed to get summary stats");
                    self.wait(PACE_MAX, context);
                }
            },
            EvictionManagerMsg::Due(EvictionWait::OrderAgain) => self.give_orders(context),
            EvictionManagerMsg::Due(EvictionWait::KernelLogDue) => self.follow_kernel_log(context),
            EvictionManagerMsg::Kernel(news) => self.take_kernel_news(news, context),
            EvictionManagerMsg::PodOver(uid) => {
                if self.leaving.over(&uid) {
                    tracing::info!("Eviction manager: pods successfully cleaned up");
                    self.aftermath = Some(Aftermath::default());
                    // A look that is under way may have read figures from before.
                    self.look(context);
                }
            }
        }
    }
}

impl EvictionManager {
    /// Other thresholds and periods hold from now on; they are looked at as soon as nothing else is under way.
    fn follow(&mut self, settings: EvictionSettings, context: &mut Context<EvictionManagerMsg>) {
        for text in ignored(&settings.thresholds) {
            tracing::warn!("{text}");
        }
        if let Some(watch) = &mut self.watch {
            watch.reconfigure(&settings.thresholds, settings.transition);
        }
        self.args.settings = settings;
        if matches!(self.stage, Stage::Waiting) {
            self.look(context);
        }
    }

    /// Waits for the next look. The kernel's word that came during other work is not to wait longer than one in a rest.
    fn wait(&mut self, delay: Duration, context: &mut Context<EvictionManagerMsg>) {
        let delay = if std::mem::take(&mut self.rang) { delay.min(PACE_MIN) } else { delay };
        self.leave(context);
        self.under_way = Some(context.after(delay, EvictionManagerMsg::Due(EvictionWait::LookDue)));
    }

    /// Waits for the end of evicted pods, and looks at the node meanwhile.
    fn wait_for_end(&mut self, delay: Duration, context: &mut Context<EvictionManagerMsg>) {
        let uptime = context.clock().uptime();
        let overdue_in = self.leaving.next_overdue().map(|at| at.saturating_sub(uptime));
        self.wait(overdue_in.map_or(delay, |left| left.clamp(PACE_MIN, delay.max(PACE_MIN))), context);
    }

    /// Ends the wait or the work that is under way.
    fn leave(&mut self, context: &mut Context<EvictionManagerMsg>) {
        self.stage = Stage::Waiting;
        if let Some(id) = self.under_way.take() {
            context.cancel(id);
        }
    }

    fn look(&mut self, context: &mut Context<EvictionManagerMsg>) {
        self.leave(context);
        (self.stage, self.rang) = (Stage::Looking, false);
        let work = steps::look(self.look_order(context));
        let ended = |outcome: Result<_, _>| EvictionManagerMsg::Looked(outcome.into());
        self.under_way = Some(context.start("look at the node", "what is left", work, ended));
    }

    fn look_order(&self, context: &Context<EvictionManagerMsg>) -> steps::LookOrder {
        let uptime = context.clock().uptime();
        let is_new = self.disks.as_ref().is_some_and(|(_, at)| uptime.saturating_sub(*at) < DISKS_PERIOD);
        steps::LookOrder {
            statistics: Arc::clone(&self.args.statistics),
            images: Arc::clone(&self.args.images),
            memory: self.args.settings.memory,
            asks_disks: !is_new,
            known_disks: self.disks.as_ref().map(|(disks, _)| disks.clone()),
            limits_of: self
                .args
                .settings
                .local_storage
                .then(|| (self.args.pod_manager.clone(), self.args.stats_collector.clone())),
            cause: context.cause(),
        }
    }

    fn looked(&mut self, look: NodeLook, context: &mut Context<EvictionManagerMsg>) {
        let uptime = context.clock().uptime();
        if let Some(disks) = look.disks {
            self.disks = Some((disks, uptime));
        }
        let settings = &self.args.settings;
        let watch = self.watch.get_or_insert_with(|| Watch::new(&settings.thresholds, settings.transition));
        if let Err(error) = watch.learn(look.devices, settings.refuses_split, &settings.thresholds) {
            tracing::error!(%error, "Eviction manager: failed to synchronize");
        }
        let (layout, monitor) = (watch.layout(), &mut watch.monitor);
        let levels = levels(monitor.thresholds(), &look.observations, &look.memory);
        let findings = monitor.look(&look.observations, uptime);
        let (before, at) = self.last.replace((look.observations.clone(), uptime)).unwrap_or_default();
        let kernel_tells = !self.is_deaf && can_be_reached(&levels, &look.observations);
        let elapsed = uptime.saturating_sub(at);
        let mut next = next_look(monitor.thresholds(), [&before, &look.observations], elapsed, kernel_tells);
        next = findings.due_in.map_or(next, |due_in| next.min(due_in));
        self.tell_pressure(findings.pressure, context);
        self.tell_silent(look.silent, context);
        self.watch_memory(levels, context);
        self.give_up_overdue(uptime);
        let has_evicted = self.enforce_limits(look.limited, layout, context);
        match findings.shortage.map(|shortage| self.leaving.unserved(shortage)) {
            _ if has_evicted => self.wait_for_end(next, context),
            Some(Some(shortage)) => self.relieve(shortage, context),
            Some(None) => self.wait_for_end(next, context),
            None => {
                self.aftermath = None;
                self.wait_for_end(next, context);
            }
        }
    }

    /// Has pods end that are beyond a limit of their own. Whether there was one.
    fn enforce_limits(
        &mut self,
        limited: Vec<Candidate>,
        layout: DiskLayout,
        context: &mut Context<EvictionManagerMsg>,
    ) -> bool {
        let mut has_evicted = false;
        for Candidate { pod, stats } in self.choosable(limited, true) {
            if let Some(eviction) = stats.and_then(|stats| exceeded(&pod, &stats, layout)) {
                let cause = EvictionCause::Limit(eviction.message.clone());
                has_evicted |= self.evict(pod, eviction, cause, context.clock().uptime()).is_some();
            }
        }
        self.give_orders(context);
        has_evicted
    }

    /// Pods of which an eviction would change something.
    fn choosable(&self, mut candidates: Vec<Candidate>, is_hard: bool) -> Vec<Candidate> {
        let uid = |one: &Candidate| PodUid::from(one.pod.metadata.uid.as_deref().unwrap_or_default());
        candidates.retain(|one| self.leaving.may_choose(&uid(one), is_hard));
        candidates
    }

    /// Waits no longer for pods that outstay their time: another pod may be the right one by now.
    fn give_up_overdue(&mut self, uptime: Duration) {
        let pods = self.leaving.overdue(uptime);
        if !pods.is_empty() {
            tracing::info!(?pods, "Eviction manager: timed out waiting for pods to be cleaned up");
            pods.iter().for_each(|uid| self.orders.forget(uid));
        }
    }

    /// Tells the conditions where they changed. To somebody without room for them the next look tells them again.
    fn tell_pressure(&mut self, pressure: Pressure, context: &Context<EvictionManagerMsg>) {
        if self.pressure != Some(pressure) {
            let news = NodeStatusMsg::News(NodeNews::Pressure(pressure));
            let is_known = context.try_tell(&self.args.node_status, news);
            let changed = PodManagerMsg::Eviction(EvictionMsg::PressureChanged(pressure));
            self.pressure = (context.try_tell(&self.args.pod_manager, changed) && is_known).then_some(pressure);
        }
    }

    /// Names file systems that do not answer, in the log, in the Node's condition and to people who look at this actor.
    fn tell_silent(&mut self, silent: Vec<String>, context: &Context<EvictionManagerMsg>) {
        if self.silent.as_ref() == Some(&silent) {
            return;
        }
        match silent.is_empty() {
            true => tracing::info!("Eviction manager: all file systems answer again"),
            false => {
                tracing::warn!(?silent, "Eviction manager: file systems do not answer, their figures are not known")
            }
        }
        let note = (!silent.is_empty()).then(|| format!("file systems that do not answer: {}", silent.join(", ")));
        context.address().record().set_note(note);
        let news = NodeStatusMsg::News(NodeNews::SilentDisks(silent.clone()));
        self.silent = context.try_tell(&self.args.node_status, news).then_some(silent);
    }

    /// Garbage goes first; only then a pod.
    fn relieve(&mut self, shortage: Shortage, context: &mut Context<EvictionManagerMsg>) {
        let resource = shortage.resource();
        tracing::info!(resourceName = %resource, "Eviction manager: attempting to reclaim");
        let node = EventSubject::node(&self.args.settings.node_name);
        let event = node.warning(EventReason::EvictionThresholdMet, format!("Attempting to reclaim {resource}"));
        context.tell(&self.args.event_recorder, event);
        let layout = self.watch.as_ref().map_or_else(DiskLayout::default, Watch::layout);
        let reclaims = layout.reclaims(shortage.threshold.signal);
        if reclaims.is_empty() {
            return self.measure(shortage, context);
        }
        self.leave(context);
        self.stage = Stage::Reclaiming(shortage);
        let (gc, images) = (self.args.container_gc.clone(), self.args.image_gc.clone());
        let work = steps::reclaim(reclaims, gc, images, self.look_order(context));
        let ended = |outcome: Result<_, _>| EvictionManagerMsg::Reclaimed(outcome.into());
        self.under_way = Some(context.start("reclaim", resource.to_string(), work, ended));
    }

    fn reclaimed(&mut self, outcome: Result<Box<NodeLook>, String>, context: &mut Context<EvictionManagerMsg>) {
        let Stage::Reclaiming(shortage) = std::mem::replace(&mut self.stage, Stage::Waiting) else { return };
        let report = |error: &String| {
            tracing::error!(error, "Eviction manager: failed to get summary stats after resource reclaim");
        };
        let look = outcome.inspect_err(report).ok();
        let relieved = match (&look, &self.watch) {
            (Some(look), Some(watch)) => watch.monitor.is_relieved(&look.observations),
            _ => false,
        };
        if relieved {
            self.aftermath = None;
            let resource = shortage.resource();
            tracing::info!(resourceName = %resource, "Eviction manager: able to reduce resource pressure without evicting pods.");
            return self.wait(PACE_MAX, context);
        }
        let waits = |(aftermath, look): (&mut Aftermath, &NodeLook)| aftermath.waits(&shortage, &look.observations);
        if self.aftermath.as_mut().zip(look.as_deref()).is_some_and(waits) {
            return self.wait(SPACE_PACE, context);
        }
        self.aftermath = None;
        self.measure(shortage, context);
    }

    fn measure(&mut self, shortage: Shortage, context: &mut Context<EvictionManagerMsg>) {
        tracing::info!(resourceName = %shortage.resource(), "Eviction manager: must evict pod(s) to reclaim");
        self.leave(context);
        self.stage = Stage::Measuring(shortage);
        let (pods, stats) = (self.args.pod_manager.clone(), self.args.stats_collector.clone());
        let work = steps::measure(pods, stats, context.cause());
        let ended = |outcome: Result<_, _>| EvictionManagerMsg::Measured(outcome.into());
        self.under_way = Some(context.start("measure pods", "candidates of eviction", work, ended));
    }

    fn measured(&mut self, candidates: Vec<Candidate>, context: &mut Context<EvictionManagerMsg>) {
        let Stage::Measuring(shortage) = std::mem::replace(&mut self.stage, Stage::Waiting) else { return };
        let candidates = self.choosable(candidates, shortage.threshold.is_hard());
        let layout = self.watch.as_ref().map_or_else(DiskLayout::default, Watch::layout);
        let pod_level = self.args.settings.pod_level_resources;
        if candidates.is_empty() {
            tracing::error!("Eviction manager: eviction thresholds have been met, but no pods are active to evict");
            return self.wait(PACE_MAX, context);
        }
        let ranked = rank(candidates, shortage.threshold.signal, layout, pod_level);
        for (threshold, observed) in &shortage.all {
            let age = context.now().since(observed.at);
            self.args.observer.observe(Observation::EvictionStatsUsed { signal: threshold.signal.into(), age });
        }
        for (place, Ranked { candidate, usage, request }) in ranked.iter().enumerate() {
            let (message, annotations) = message(&shortage, &candidate.pod, candidate.stats.as_ref(), pod_level);
            let is_hard = shortage.threshold.is_hard();
            let grace = match is_hard {
                true => GRACE_IMMEDIATE,
                false => soft_grace(&candidate.pod, self.args.settings.soft_grace_max),
            };
            let signal = shortage.threshold.signal.into();
            let eviction = Eviction { grace, is_hard, message, annotations, is_disruption: true, signal };
            let cause = EvictionCause::pressure(&shortage, &ranked, place);
            if let Some(uid) = self.evict(Arc::clone(&candidate.pod), eviction, cause, context.clock().uptime()) {
                tracing::info!(%uid, usage, request, "Eviction manager: pod is evicted");
                self.give_orders(context);
                return self.wait_for_end(PACE_MAX, context);
            }
        }
        tracing::info!("Eviction manager: unable to evict any pods from the node");
        self.wait(PACE_MAX, context);
    }

    /// Decides that a pod ends, unless it is critical; gives its UID.
    fn evict(&mut self, pod: Arc<Pod>, eviction: Eviction, cause: EvictionCause, uptime: Duration) -> Option<PodUid> {
        let uid = PodUid::from(pod.metadata.uid.as_deref()?);
        if is_critical(&pod) {
            tracing::error!(%uid, "Eviction manager: cannot evict a critical pod");
            return None;
        }
        let kill_max = patience(&pod, Some(eviction.grace));
        self.leaving.decided(uid.clone(), eviction.is_hard, kill_max, uptime);
        self.orders.add(uid.clone(), Order { pod, eviction, cause });
        Some(uid)
    }

    /// Orders `PodManager` to end pods. An order that it has no room for is repeated soon: the next look would come half a
    /// minute later.
    fn give_orders(&mut self, context: &mut Context<EvictionManagerMsg>) {
        let (manager, cause) = (&self.args.pod_manager, context.cause());
        for (uid, order) in self.orders.give(|uid, eviction| {
            let order = EvictionMsg::Evict(uid.clone(), Box::new(eviction.clone()));
            manager.tell(cause.clone(), PodManagerMsg::Eviction(order)).is_ok()
        }) {
            self.args.observer.observe(Observation::PodEvicted { signal: order.eviction.signal });
            self.records.keep(uid, &order.pod, order.cause, context.clock().uptime());
        }
        if self.orders.wait_for_room() {
            context.after(ORDER_RETRY, EvictionManagerMsg::Due(EvictionWait::OrderAgain));
        }
    }
}

#[cfg(test)]
mod tests;
