//! `StatsCollector`: statistics of the node, its pods, containers and volumes, looked at only when somebody asks.
//!
//! Parent: Root. Restarted: after a failure; rates need two looks again, volumes and layers are walked again. Keeps the
//! last snapshot, so that many who ask share one, what two looks are compared by, and what walks counted: those are made
//! seldom, and the more seldom the longer they take. An asker waits for short walks; longer ones go on beside, as do questions
//! to drivers about their volumes.

mod driven;
mod steps;
#[cfg(test)]
mod tests;
mod told;
mod writers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use driven::Driven;
pub(in crate::actors) use steps::runtime_places;
use writers::Writers;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::single_flight::SingleFlight;
use crate::actors::volumes::volume_manager::drivers::CsiVolumes;
use crate::cri::{ImageFsInfo, ImageService, RuntimeService};
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::statistics::figures::Usage;
use crate::logic::statistics::groupless::Groupless;
use crate::logic::statistics::rates::Rates;
use crate::logic::statistics::sample::{Depth, RawSample, Snapshot, Wanted};
use crate::logic::statistics::volumes::{Figures, Space, VolumeFigures, of_claims};
use crate::logic::statistics::walks::{WalkEnd, WalkKey, WalkTerms, Walks};
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::runtime::pleg::PlegMsg;
use crate::messages::stats_collector::{
    Cost, Looked, PodFigures, SnapshotReply, StatsCollectorMsg, StatsReport, VolumeThere, VolumesThere, WalksEnded,
};
use crate::messages::volume_manager::VolumeManagerMsg;
use crate::platform::host::chance::Chance;
use crate::platform::host::clock::Clock;
use crate::platform::observer::Observer;
use crate::platform::statistics::{Haste, Statistics, WalkOutcome, WalkPlace, Walked};

/// How long who asks waits for walks.
const WALKS_MAX: Duration = Duration::from_millis(250);
/// How long walks beside may take, each time that they are begun.
const WALKS_BESIDE_MAX: Duration = Duration::from_secs(60);
/// A writable layer is walked again after this: as often as the runtime would.
const LAYER_PERIOD: Duration = Duration::from_secs(10);
/// The runtime is asked for its disks again after this.
const DISKS_PERIOD: Duration = Duration::from_secs(10);
/// The image of sandboxes is asked for again after this.
const SANDBOX_IMAGE_PERIOD: Duration = Duration::from_secs(600);
/// How long a snapshot is kept for others who ask: it is large where pods are many.
const KEPT: Duration = Duration::from_secs(10);
/// How long the runtime may take to say what nobody else can.
const RUNTIME_LIMIT: Duration = Duration::from_secs(10);
/// The most who wait for a look.
const WAITING_MAX: usize = 1024;

struct Waiting {
    wanted: Wanted,
    /// Uptime from which on a look may have begun.
    from: Duration,
    reply: SnapshotReply,
}

/// A look under way, or one whose walks are.
struct Look {
    wanted: Wanted,
    began: Duration,
    sample: Option<RawSample>,
    pods: PodFigures,
}

/// The actor's arguments.
pub struct Args {
    /// `volumeStatsAggPeriod`: how often volumes are measured, while somebody asks; `None` when they are not.
    pub volume_period: Option<Duration>,
    /// Gate `CSIVolumeHealth`: whether conditions that drivers tell of volumes count.
    pub volume_health: bool,
    /// Gate `PodAndContainerStatsFromCRI`: whether the runtime is asked for figures of pods.
    pub from_runtime: bool,
    /// Reaches the drivers of volumes.
    pub csi: CsiVolumes,
    /// Counts how long drivers take.
    pub observer: Arc<dyn Observer>,
    /// Hears of volumes in a bad condition.
    pub event_recorder: Address<EventRecorderMsg>,
    /// Figures of the node, its control groups and disks.
    pub statistics: Arc<dyn Statistics>,
    /// The runtime, for writable layers that it keeps in a way of its own.
    pub runtime: Arc<dyn RuntimeService>,
    /// The runtime's images, for its disks.
    pub images: Arc<dyn ImageService>,
    /// The agent's clock, for operations.
    pub clock: Arc<dyn Clock>,
    /// Spreads walks.
    pub chance: Arc<dyn Chance>,
    /// Is asked for pods.
    pub pleg: Address<PlegMsg>,
    /// Is asked for volumes.
    pub volume_manager: Address<VolumeManagerMsg>,
}

/// See the module.
pub struct StatsCollector {
    args: Arc<Args>,
    rates: Rates,
    /// The newest snapshot, how much it shows, and the uptime at which it was begun.
    newest: Option<(Arc<Snapshot>, Wanted, Duration)>,
    look: Option<Look>,
    waiting: Vec<Waiting>,
    walks: Walks,
    /// Whether walks are under way.
    walking: bool,
    lists: SingleFlight<()>,
    layers: BTreeMap<ContainerId, Usage>,
    volumes: BTreeMap<WalkKey, VolumeThere>,
    spaces: BTreeMap<WalkKey, Space>,
    told: RuntimeTold,
    driven: Driven,
    groupless: Groupless,
    costs: Costs,
}

/// The runtime's last answers, and the uptime of each.
#[derive(Default)]
struct RuntimeTold {
    disks: Option<(ImageFsInfo, Duration)>,
    sandbox_image: Option<(String, Duration)>,
    /// Whether the runtime told figures of pods when it was last asked, those of their layers too.
    tells_pods: bool,
}

/// The cost of looks, by how much was wanted, and of walks.
#[derive(Default)]
struct Costs {
    looks: BTreeMap<&'static str, Cost>,
    walks: Cost,
}

impl Actor for StatsCollector {
    const KIND: &'static str = "StatsCollector";
    type Msg = StatsCollectorMsg;
    type Args = Args;

    fn begin(args: Args, _: &mut Context<StatsCollectorMsg>) -> Self {
        Self {
            args: Arc::new(args),
            rates: Rates::default(),
            newest: None,
            look: None,
            waiting: vec![],
            walks: Walks::default(),
            walking: false,
            lists: SingleFlight::default(),
            layers: BTreeMap::new(),
            volumes: BTreeMap::new(),
            spaces: BTreeMap::new(),
            told: RuntimeTold::default(),
            driven: Driven::default(),
            groupless: Groupless::default(),
            costs: Costs::default(),
        }
    }

    fn receive(&mut self, message: StatsCollectorMsg, context: &mut Context<StatsCollectorMsg>) {
        match message {
            StatsCollectorMsg::Get { wanted, age_max, reply } => self.get(wanted, age_max, reply, context),
            StatsCollectorMsg::Report(reply) => {
                let _ = reply.send(self.report()); // The asker may have left.
                self.list_volumes(context);
            }
            StatsCollectorMsg::ForgetDue => {
                let uptime = context.clock().uptime();
                self.newest.take_if(|(_, _, began)| uptime.saturating_sub(*began) >= KEPT);
            }
            StatsCollectorMsg::Looked(outcome) => match outcome.into_result() {
                Ok(looked) => self.looked(*looked, context),
                Err(problem) => self.failed(&problem, context),
            },
            StatsCollectorMsg::VolumesListed(listed) => {
                let (_, wanted) = self.lists.end();
                if let Ok(Some(volumes)) = listed {
                    self.set_volumes(volumes, context);
                    self.walk_claims(context);
                }
                if wanted.is_some() {
                    self.list_volumes(context);
                }
            }
            StatsCollectorMsg::Answered(key, outcome) => self.answered(&key, outcome, context),
            StatsCollectorMsg::Walked(outcome) => {
                self.walking = false;
                let left = self.walked(outcome, context);
                self.finish(context);
                self.walk_beside(left, context);
            }
            StatsCollectorMsg::WalkedBeside(outcome) => {
                self.walking = false;
                // A walk that there was no time for now is due at the next look.
                self.walked(outcome, context);
            }
        }
    }
}

impl StatsCollector {
    fn get(
        &mut self,
        wanted: Wanted,
        age_max: Duration,
        reply: SnapshotReply,
        context: &mut Context<StatsCollectorMsg>,
    ) {
        let from = context.clock().uptime().saturating_sub(age_max);
        if let Some((snapshot, shown, began)) = &self.newest
            && !age_max.is_zero()
            && shown.covers(wanted)
            && *began >= from
        {
            let _ = reply.send(Ok(Arc::clone(snapshot))); // The asker may have left.
            return;
        }
        self.waiting.retain(|waiting| !waiting.reply.is_closed());
        if self.waiting.len() >= WAITING_MAX {
            let _ = reply.send(Err("too many wait for statistics".to_owned()));
            return;
        }
        self.waiting.push(Waiting { wanted, from, reply });
        self.begin_look(context);
    }

    /// One look for all who wait, unless one is under way: then the next one is for them.
    fn begin_look(&mut self, context: &mut Context<StatsCollectorMsg>) {
        let Some(wanted) = self.waiting.iter().map(|waiting| waiting.wanted).reduce(Wanted::and) else { return };
        if self.look.is_some() {
            return;
        }
        let uptime = context.clock().uptime();
        let known_image = self.told.sandbox_image.as_ref();
        let needs = steps::Needs {
            wanted,
            disks: wanted.disks
                && self.told.disks.as_ref().is_none_or(|(_, at)| uptime.saturating_sub(*at) >= DISKS_PERIOD),
            known_disks: self.told.disks.as_ref().map(|(disks, _)| disks.clone()),
            sandbox_image: wanted.depth == Depth::Everything
                && known_image.is_none_or(|(_, at)| uptime.saturating_sub(*at) >= SANDBOX_IMAGE_PERIOD),
            volumes: wanted.disks && self.args.volume_period.is_some(),
        };
        self.look = Some(Look { wanted, began: uptime, sample: None, pods: PodFigures::NotAsked });
        let args = Arc::clone(&self.args);
        let work = async move { steps::look(&args, needs).await.map(Box::new) };
        context.start("look at statistics", name_of(wanted), work, |outcome| StatsCollectorMsg::Looked(outcome.into()));
    }

    fn looked(&mut self, looked: Looked, context: &mut Context<StatsCollectorMsg>) {
        let uptime = context.clock().uptime();
        let Some(look) = &mut self.look else { return };
        let cost = self.costs.looks.entry(name_of(look.wanted)).or_default();
        cost.count += 1;
        cost.took += uptime.saturating_sub(look.began);
        cost.cpu += Duration::from_nanos(looked.sample.cpu_ns);
        if let Some(disks) = looked.disks {
            self.told.disks = Some((disks, uptime));
        }
        if let Some(image) = looked.sandbox_image {
            self.told.sandbox_image = Some((image, uptime));
        }
        let walks_wanted = look.wanted.disks;
        if let Some(container) = self.groupless.take(&looked.sample.groupless, uptime) {
            let count = self.groupless.count();
            tracing::warn!(container, count, "running containers have no control group, statistics lack them");
        }
        let mut writers = Writers::of(&looked.sample);
        if !matches!(looked.pods, PodFigures::NotAsked) {
            self.told.tells_pods = matches!(looked.pods, PodFigures::Told(_));
        }
        if self.told.tells_pods {
            writers.containers.clear(); // Nobody walks through a layer whose figures the runtime tells.
        }
        (look.sample, look.pods) = (Some(looked.sample), looked.pods);
        if let Some(volumes) = looked.volumes {
            self.set_volumes(volumes, context);
        }
        if !walks_wanted || self.walking {
            self.finish(context);
            return;
        }
        let due = self.due(&writers, uptime);
        if due.is_empty() {
            self.finish(context);
            return;
        }
        self.walking = true;
        let (later, quick) = due.into_iter().partition(|(key, _)| self.walks.is_costly(key));
        self.walk(quick, later, Haste::AtOnce(WALKS_MAX), StatsCollectorMsg::Walked, context);
    }

    /// Layers and volumes whose time has come. Facts of others that have gone are forgotten.
    fn due(&mut self, writers: &Writers, uptime: Duration) -> Vec<(WalkKey, WalkPlace)> {
        let layer = |(id, writers_ns): (&ContainerId, &Option<u64>)| {
            (WalkKey::Layer(id.clone()), WalkTerms { period: LAYER_PERIOD, writers_ns: *writers_ns })
        };
        let mut there: BTreeMap<WalkKey, WalkTerms> = writers.containers.iter().map(layer).collect();
        if let Some(period) = self.args.volume_period {
            let volume = |(key, volume): (&WalkKey, &VolumeThere)| {
                let writers_ns = if volume.has_own_writers { writers.of_volume(key) } else { None };
                (key.clone(), WalkTerms { period, writers_ns })
            };
            there.extend(self.volumes.iter().map(volume));
        }
        self.layers.retain(|id, _| there.contains_key(&WalkKey::Layer(id.clone())));
        self.spaces.retain(|key, _| there.contains_key(key));
        let due = self.walks.due(&there, uptime).into_iter();
        due.filter_map(|key| {
            let place = match &key {
                WalkKey::Layer(id) => WalkPlace::Layer(id.clone()),
                WalkKey::Volume(..) => self.volumes.get(&key)?.place.clone(),
            };
            Some((key, place))
        })
        .collect()
    }

    /// Walks through these, and leaves the others for later.
    fn walk(
        &self,
        places: Vec<(WalkKey, WalkPlace)>,
        later: Vec<(WalkKey, WalkPlace)>,
        haste: Haste,
        ended: fn(WalksEnded) -> StatsCollectorMsg,
        context: &mut Context<StatsCollectorMsg>,
    ) {
        let args = Arc::clone(&self.args);
        let about = format!("{} layers and volumes", places.len());
        let work = async move {
            let (walked, mut left) = steps::walk(&args, places, haste).await;
            left.extend(later);
            (walked, left)
        };
        context.start("walk through directories", about, work, ended);
    }

    fn walk_beside(&mut self, left: Vec<(WalkKey, WalkPlace)>, context: &mut Context<StatsCollectorMsg>) {
        if !left.is_empty() && !self.walking {
            self.walking = true;
            self.walk(left, vec![], Haste::Beside(WALKS_BESIDE_MAX), StatsCollectorMsg::WalkedBeside, context);
        }
    }

    /// Takes in what walks counted; gives those that are to be made again with more time.
    fn walked(&mut self, outcome: WalksEnded, context: &mut Context<StatsCollectorMsg>) -> Vec<(WalkKey, WalkPlace)> {
        let uptime = context.clock().uptime();
        let Ok((walked, mut left)) = outcome else { return vec![] }; // It was logged.
        for Walked { key, took, cpu, outcome } in walked {
            self.costs.walks.count += 1;
            self.costs.walks.took += took;
            self.costs.walks.cpu += cpu;
            let is_whole = matches!(outcome, WalkOutcome::Layer(_) | WalkOutcome::Volume(_));
            let chance = match &key {
                WalkKey::Layer(_) => 0.0,
                // Volumes of many pods are not to be walked all at once.
                WalkKey::Volume(..) => self.args.chance.next(),
            };
            match (&key, outcome) {
                (WalkKey::Layer(id), WalkOutcome::Layer(usage)) => {
                    self.layers.insert(id.clone(), usage);
                }
                (WalkKey::Volume(..), WalkOutcome::Volume(space)) => {
                    self.spaces.insert(key.clone(), space);
                }
                (_, WalkOutcome::Unfinished) => tracing::debug!(?key, ?took, "walk through a directory is unfinished"),
                (_, WalkOutcome::Failed(problem)) => {
                    // Figures of a volume that cannot be read are left out, as upstream does.
                    self.spaces.remove(&key);
                    tracing::debug!(?key, problem, "walk through a directory failed");
                }
                (WalkKey::Layer(id), _) => {
                    self.layers.remove(id);
                }
                (WalkKey::Volume(..), _) => {
                    self.spaces.remove(&key);
                }
            }
            self.walks.ended(key, WalkEnd { at: uptime, cost: cpu, chance, is_whole });
        }
        left.retain(|(key, _)| matches!(key, WalkKey::Layer(_)) || self.volumes.contains_key(key));
        left
    }

    /// Answers all whom the look serves, and begins the next one for the others.
    fn finish(&mut self, context: &mut Context<StatsCollectorMsg>) {
        let Some(Look { wanted, began, sample: Some(sample), pods }) = self.look.take() else { return };
        let (told, failure) = match pods {
            PodFigures::NotAsked | PodFigures::NotTold => (None, None),
            PodFigures::Told(told) => (Some(told), None),
            PodFigures::Failed(problem) => (None, Some(problem)),
        };
        let mut nano_cores = self.rates.take(&sample);
        if let Some(told) = &told {
            self.rates.take_told(told, &mut nano_cores);
        }
        let snapshot = Arc::new(Snapshot {
            nano_cores,
            told,
            layers: self.layers.clone(),
            volumes: self.volume_figures(),
            sandbox_image: self.told.sandbox_image.as_ref().map(|(image, _)| image.clone()).unwrap_or_default(),
            sample,
        });
        // Without the runtime's figures of pods a snapshot serves those alone who want the node.
        let shown = if failure.is_some() { Wanted { depth: Depth::Memory, ..wanted } } else { wanted };
        self.newest = Some((Arc::clone(&snapshot), shown, began));
        context.after(KEPT, StatsCollectorMsg::ForgetDue);
        for waiting in std::mem::take(&mut self.waiting) {
            if !wanted.covers(waiting.wanted) || began < waiting.from {
                self.waiting.push(waiting);
                continue;
            }
            let answer = match &failure {
                Some(problem) if !shown.covers(waiting.wanted) => Err(problem.clone()),
                _ => Ok(Arc::clone(&snapshot)),
            };
            let _ = waiting.reply.send(answer); // The asker may have left.
        }
        self.begin_look(context);
    }

    fn failed(&mut self, problem: &str, context: &mut Context<StatsCollectorMsg>) {
        let Some(look) = self.look.take() else { return };
        tracing::warn!(problem, wanted = name_of(look.wanted), "statistics cannot be had");
        for waiting in std::mem::take(&mut self.waiting) {
            // An asker who came after the look began wants to know of a later time: the next look serves that one.
            if look.wanted.covers(waiting.wanted) && look.began >= waiting.from {
                let _ = waiting.reply.send(Err(problem.to_owned())); // The asker may have left.
            } else {
                self.waiting.push(waiting);
            }
        }
        self.begin_look(context);
    }

    fn volume_figures(&self) -> BTreeMap<PodUid, Vec<VolumeFigures>> {
        let mut figures: BTreeMap<PodUid, Vec<VolumeFigures>> = BTreeMap::new();
        for (key, there) in &self.volumes {
            if let (WalkKey::Volume(uid, _), Some(space)) = (key, self.spaces.get(key)) {
                let seen = VolumeFigures { figures: Figures::Seen(*space), ..there.volume.clone() };
                figures.entry(uid.clone()).or_default().push(seen);
            }
        }
        for (uid, answered) in self.driven.figures() {
            figures.entry(uid.clone()).or_default().push(answered);
        }
        figures
    }

    fn report(&self) -> StatsReport {
        let figures = self.volume_figures();
        let Costs { looks, walks } = &self.costs;
        StatsReport {
            claims: of_claims(figures.values().flatten()),
            looks: looks.clone(),
            walks: *walks,
            groupless: self.groupless.count(),
        }
    }

    /// Volumes of claims are told of by `/metrics`, which may be the only one who asks.
    fn list_volumes(&mut self, context: &mut Context<StatsCollectorMsg>) {
        if self.args.volume_period.is_none() || self.lists.want(()).is_none() {
            return;
        }
        let args = Arc::clone(&self.args);
        let work = async move { steps::volumes(&args).await };
        context.start("list volumes", "all pods", work, StatsCollectorMsg::VolumesListed);
    }

    fn set_volumes(&mut self, volumes: VolumesThere, context: &mut Context<StatsCollectorMsg>) {
        self.volumes = by_key(volumes.walked);
        self.driven.set(volumes.driven);
        self.ask_drivers(context);
    }

    fn walk_claims(&mut self, context: &mut Context<StatsCollectorMsg>) {
        if self.walking {
            return;
        }
        let known = Writers::unknown(self.layers.keys());
        let mut due = self.due(&known, context.clock().uptime());
        let is_claim = |key: &WalkKey| self.volumes.get(key).is_some_and(|there| there.volume.claim.is_some());
        due.retain(|(key, _)| is_claim(key));
        self.walk_beside(due, context);
    }
}

fn by_key(volumes: Vec<VolumeThere>) -> BTreeMap<WalkKey, VolumeThere> {
    volumes.into_iter().map(|volume| (volume.key.clone(), volume)).collect()
}

fn name_of(wanted: Wanted) -> &'static str {
    match (wanted.depth, wanted.disks) {
        (Depth::Memory | Depth::Resources, false) => "resources",
        (Depth::Summary, false) => "processor time and memory",
        (Depth::Everything, false) => "everything but disks",
        (Depth::Everything, true) => "everything",
        (_, true) => "summary",
    }
}
