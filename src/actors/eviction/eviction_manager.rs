//! `EvictionManager`: looks how much the node has left, tells its conditions, and has pods end when there is too little.
//!
//! Parent: Root. Restarted: after a failure; grace periods of soft thresholds and the transition periods of conditions
//! begin anew. One thing is under way at a time: a look, a reclaim, a measurement of the candidates, or the wait for the
//! end of evicted pods. As upstream, one pod goes a round, and the next round waits until that pod is over.

mod orders;
mod steps;

use std::collections::BTreeSet;
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
use crate::logic::eviction::alarm::{WatchedGroup, can_be_reached, have_moved, levels};
use crate::logic::eviction::layout::{DiskLayout, ignored};
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
use crate::logic::resources::is_critical;
use crate::messages::Ended;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::eviction_manager::{EvictionManagerMsg, EvictionWait, NodeLook};
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::pods::pod_manager::{EvictionMsg, PodManagerMsg};
use crate::messages::runtime::container_gc::ContainerGcMsg;
use crate::messages::stats_collector::StatsCollectorMsg;
use crate::platform::observer::{Observation, Observer};
use crate::platform::statistics::{AlarmError, Statistics};

/// How long the end of evicted pods is waited for before the node is looked at again; upstream's.
const CLEANUP_MAX: Duration = Duration::from_secs(30);
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
    /// Nothing; a look is due at some time, by this timer.
    Waiting(Option<OperationId>),
    /// A look.
    Looking,
    /// The node gives up what it can, because of this.
    Reclaiming(Shortage),
    /// The candidates are measured, because of this.
    Measuring(Shortage),
    /// Evicted pods end.
    Cleaning(BTreeSet<PodUid>, OperationId),
}

/// See the module.
pub struct EvictionManager {
    args: Args,
    stage: Stage,
    /// The file systems, and the thresholds that follow from them; known after the first look.
    watch: Option<Watch>,
    /// The last observations, and their uptime.
    last: Option<(Observations, Duration)>,
    /// The runtime's last answer about its disks, and its uptime.
    disks: Option<(ImageFsInfo, Duration)>,
    /// The conditions as others know them.
    pressure: Option<Pressure>,
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
        let (stage, watch, last, disks) = (Stage::Waiting(None), None, None, None);
        let records = EvictionRecords::default();
        let (alarm, rang, is_deaf, orders, aftermath) = (None, false, false, Orders::default(), None);
        let pressure = None;
        let mut manager =
            Self { args, stage, watch, last, disks, pressure, records, alarm, rang, is_deaf, orders, aftermath };
        if !manager.args.settings.thresholds.is_empty() || manager.args.settings.local_storage {
            manager.look(context);
        }
        manager
    }

    fn receive(&mut self, message: EvictionManagerMsg, context: &mut Context<EvictionManagerMsg>) {
        match message {
            EvictionManagerMsg::Repeat => {
                if let Some(pressure) = self.pressure.take() {
                    self.tell_pressure(pressure, context);
                }
            }
            EvictionManagerMsg::Why { namespace, name, reply } => {
                // The asker may have left.
                let _ = reply.send(self.records.of(&namespace, &name, context.clock().uptime()));
            }
            EvictionManagerMsg::Due(EvictionWait::LookDue) => {
                if matches!(self.stage, Stage::Waiting(_)) {
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
            EvictionManagerMsg::PodOver(uid) => {
                if let Stage::Cleaning(pods, timer) = &mut self.stage
                    && pods.remove(&uid)
                    && pods.is_empty()
                {
                    context.cancel(*timer);
                    tracing::info!("Eviction manager: pods successfully cleaned up");
                    self.aftermath = Some(Aftermath::default());
                    self.look(context);
                }
            }
            EvictionManagerMsg::Due(EvictionWait::CleanupOverdue) => {
                if let Stage::Cleaning(pods, _) = &self.stage {
                    tracing::info!(?pods, "Eviction manager: timed out waiting for pods to be cleaned up");
                    // Another pod may be the right one by now.
                    self.orders = Orders::default();
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
        if matches!(self.stage, Stage::Waiting(_)) {
            self.look(context);
        }
    }

    /// Waits for the next look. The kernel's word that came during other work is not to wait longer than one in a rest.
    fn wait(&mut self, delay: Duration, context: &mut Context<EvictionManagerMsg>) {
        let delay = if std::mem::take(&mut self.rang) { delay.min(PACE_MIN) } else { delay };
        self.stage = Stage::Waiting(Some(context.after(delay, EvictionManagerMsg::Due(EvictionWait::LookDue))));
    }

    fn look(&mut self, context: &mut Context<EvictionManagerMsg>) {
        if let Stage::Waiting(Some(timer)) = self.stage {
            context.cancel(timer);
        }
        (self.stage, self.rang) = (Stage::Looking, false);
        let work = steps::look(self.look_order(context));
        context.start("look at the node", "what is left", work, |outcome| EvictionManagerMsg::Looked(outcome.into()));
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
        self.watch_memory(levels, context);
        let over = look.limited.into_iter().filter_map(|candidate| {
            let eviction = exceeded(&candidate.pod, candidate.stats.as_ref()?, layout)?;
            Some((candidate.pod, eviction))
        });
        let mut evicted = BTreeSet::new();
        for (pod, eviction) in over.collect::<Vec<_>>() {
            let cause = EvictionCause::Limit(eviction.message.clone());
            evicted.extend(self.evict(pod, eviction, cause));
        }
        self.give_orders(context);
        match findings.shortage {
            _ if !evicted.is_empty() => self.clean(evicted, context),
            Some(shortage) => self.relieve(shortage, context),
            None => {
                self.aftermath = None;
                self.wait(next, context);
            }
        }
    }

    /// Has the kernel told from which levels on it is to wake this actor, where they have moved.
    fn watch_memory(&mut self, levels: Vec<WatchedGroup>, context: &mut Context<EvictionManagerMsg>) {
        match &self.alarm {
            Some((_, told)) if !have_moved(told, &levels) => return,
            Some((operation, _)) => context.cancel(*operation),
            None => {}
        }
        self.alarm = (!levels.is_empty()).then(|| {
            let (statistics, watched) = (Arc::clone(&self.args.statistics), levels.clone());
            let work = async move { statistics.memory_runs_short(watched).await };
            let operation = context.start("watch memory", "what is left", work, |outcome| {
                EvictionManagerMsg::MemoryRanShort(outcome.into())
            });
            (operation, levels)
        });
    }

    /// The kernel says that memory may run short. It may say so again and again while nothing is wrong, such as while much
    /// is read from files.
    fn take_alarm(&mut self, outcome: Ended<(), AlarmError>, context: &mut Context<EvictionManagerMsg>) {
        if let Err(error) = outcome.into_result() {
            // The looks go on; the alarm is asked for again when its levels have moved, which may be at each look.
            if !std::mem::replace(&mut self.is_deaf, true) {
                tracing::warn!(error, "memory is looked at now and then, not when it runs short");
                // The wait was reckoned with the kernel's word.
                match self.stage {
                    Stage::Waiting(_) => self.look(context),
                    _ => self.rang = true,
                }
            }
            return;
        }
        (self.alarm, self.is_deaf) = (None, false);
        self.rang = !matches!(self.stage, Stage::Waiting(_));
        if !self.rang {
            let uptime = context.clock().uptime();
            let since = self.last.as_ref().map_or(PACE_MIN, |(_, at)| uptime.saturating_sub(*at));
            match PACE_MIN.checked_sub(since).filter(|left| !left.is_zero()) {
                Some(left) => self.hasten(left, context),
                None => self.look(context),
            }
        }
    }

    /// The next look comes after `delay`, in place of the one that is due.
    fn hasten(&mut self, delay: Duration, context: &mut Context<EvictionManagerMsg>) {
        if let Stage::Waiting(Some(timer)) = self.stage {
            context.cancel(timer);
        }
        self.wait(delay, context);
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
        self.stage = Stage::Reclaiming(shortage);
        let (gc, images) = (self.args.container_gc.clone(), self.args.image_gc.clone());
        let work = steps::reclaim(reclaims, gc, images, self.look_order(context));
        context.start("reclaim", resource.to_string(), work, |outcome| EvictionManagerMsg::Reclaimed(outcome.into()));
    }

    fn reclaimed(&mut self, outcome: Result<Box<NodeLook>, String>, context: &mut Context<EvictionManagerMsg>) {
        let Stage::Reclaiming(shortage) = std::mem::replace(&mut self.stage, Stage::Waiting(None)) else { return };
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
        self.stage = Stage::Measuring(shortage);
        let (pods, stats) = (self.args.pod_manager.clone(), self.args.stats_collector.clone());
        let work = steps::measure(pods, stats, context.cause());
        context.start("measure pods", "candidates of eviction", work, |outcome| {
            EvictionManagerMsg::Measured(outcome.into())
        });
    }

    fn measured(&mut self, candidates: Vec<Candidate>, context: &mut Context<EvictionManagerMsg>) {
        let Stage::Measuring(shortage) = std::mem::replace(&mut self.stage, Stage::Waiting(None)) else { return };
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
            let grace = match shortage.threshold.is_hard() {
                true => GRACE_IMMEDIATE,
                false => soft_grace(&candidate.pod, self.args.settings.soft_grace_max),
            };
            let signal = shortage.threshold.signal.into();
            let eviction = Eviction { grace, message, annotations, is_disruption: true, signal };
            let cause = EvictionCause::pressure(&shortage, &ranked, place);
            if let Some(uid) = self.evict(Arc::clone(&candidate.pod), eviction, cause) {
                tracing::info!(%uid, usage, request, "Eviction manager: pod is evicted");
                self.give_orders(context);
                return self.clean([uid].into(), context);
            }
        }
        tracing::info!("Eviction manager: unable to evict any pods from the node");
        self.wait(PACE_MAX, context);
    }

    /// Decides that a pod ends, unless it is critical; gives its UID.
    fn evict(&mut self, pod: Arc<Pod>, eviction: Eviction, cause: EvictionCause) -> Option<PodUid> {
        let uid = PodUid::from(pod.metadata.uid.as_deref()?);
        if is_critical(&pod) {
            tracing::error!(%uid, "Eviction manager: cannot evict a critical pod");
            return None;
        }
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

    fn clean(&mut self, evicted: BTreeSet<PodUid>, context: &mut Context<EvictionManagerMsg>) {
        let timer = context.after(CLEANUP_MAX, EvictionManagerMsg::Due(EvictionWait::CleanupOverdue));
        self.stage = Stage::Cleaning(evicted, timer);
    }
}

#[cfg(test)]
mod tests;
