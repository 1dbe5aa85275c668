//! `CsiManager`: the storage drivers of the node: what the cluster knows of them, where they serve, what they have staged.
//!
//! Parent: Root. Restarted: after a failure; `PluginWatcher` hands every driver over again, the disk tells what is staged.
//! The cluster hears of one thing at a time. A driver is used for volumes as soon as it said what this node is to it: what
//! is on the node can be taken down while the API server is away. Staged volumes that no pod uses are unstaged, whoever
//! staged them.

mod cluster;
mod limits;
mod refusals;
mod staged;
mod unheard;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::earliest::Earliest;
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::backoff::{Backoff, BackoffPolicy};
use crate::logic::plugins::csi_registration::{CsiNodeInfo, NOT_INITIALIZED, Version, highest_version};
use crate::logic::plugins::plugin::{Plugin, Refusal};
use crate::messages::Ended;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::plugins::PluginNews;
use crate::messages::plugins::csi_manager::{
    CsiManagerMsg, DriverEndpoint, DriverStep, PublishError, StagedStep, Unstaging,
};
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::messages::volume_manager::{AttachedStep, VolumeManagerMsg};
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::observer::{Observation, Observer};
use crate::platform::plugins::CsiCalls;
use crate::platform::volumes::csi::CsiHost;
use cluster::Job;
use limits::Limit;
use refusals::Refusals;
use unheard::Unheard;

/// Wait before the cluster hears of it again, while the node is not registered yet and nobody says that it is.
const NODE_WAIT: Duration = Duration::from_secs(10);
/// Waits after the API server could not be reached: the node is not ready before.
const API_RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(10),
    reset: Duration::from_secs(600),
};
/// Waits after a volume could not be unstaged, or nobody could say which are unused.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(122),
    reset: Duration::from_secs(600),
};
/// The key of waits for the API server.
const API: &str = "API server";
/// The key of waits after a look at staged volumes failed.
const LOOK: &str = "look at staged volumes";

/// The actor's means.
pub struct Args {
    /// The node's name.
    pub node_name: String,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Calls drivers.
    pub calls: Arc<dyn CsiCalls>,
    /// Volumes as the disk knows them.
    pub host: Arc<dyn CsiHost>,
    /// Knows the Node, and hears whether volumes can be used.
    pub node_status: Address<NodeStatusMsg>,
    /// Hears the verdicts about drivers.
    pub plugin_watcher: Address<PluginWatcherMsg>,
    /// Counts how long it takes to unstage volumes.
    pub observer: Arc<dyn Observer>,
    /// Hears that a volume is no longer staged.
    pub volume_manager: Address<VolumeManagerMsg>,
    /// Hears of drivers that cannot be registered.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// A driver that is used.
struct Driver {
    plugin: Arc<Plugin>,
    version: Version,
}

/// The state of the first job.
enum Publishing {
    /// Nobody carries it out.
    Idle,
    /// The cluster hears of it. `registered`: meanwhile `NodeStatus` said that the API server has the Node.
    UnderWay { registered: bool },
    /// It is tried again when this timer has run out.
    Waiting(OperationId),
}

/// See the module.
pub struct CsiManager {
    args: Args,
    drivers: BTreeMap<String, Driver>,
    /// Drivers that are being asked what this node is to them, by socket.
    asked: BTreeMap<String, (Arc<Plugin>, Version)>,
    /// Jobs for the cluster, the next one first.
    jobs: VecDeque<Job>,
    publishing: Publishing,
    publish_retries: Backoff,
    /// Why volumes cannot be used yet, as the Node says it.
    problem: Option<String>,
    unheard: Unheard,
    looks: SingleFlight<()>,
    look_timer: Earliest,
    unstagings: staged::Unstagings,
    retries: Backoff,
    /// How many volumes of each driver the node has room for.
    limits: BTreeMap<String, Limit>,
    refusals: Refusals,
}

impl Actor for CsiManager {
    const KIND: &'static str = "CsiManager";
    type Msg = CsiManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<CsiManagerMsg>) -> Self {
        let is_connected = args.api.is_some();
        let mut manager = Self {
            args,
            drivers: BTreeMap::new(),
            asked: BTreeMap::new(),
            jobs: VecDeque::new(),
            publishing: Publishing::Idle,
            publish_retries: Backoff::new(API_RETRY),
            problem: is_connected.then(|| NOT_INITIALIZED.to_owned()),
            unheard: unheard::none(),
            looks: SingleFlight::default(),
            look_timer: Earliest::default(),
            unstagings: staged::Unstagings::default(),
            retries: Backoff::new(RETRY),
            limits: BTreeMap::new(),
            refusals: Refusals::default(),
        };
        if is_connected {
            manager.tell_problem(context);
            manager.jobs.push_back(Job::Initialize);
            manager.publish(context);
        }
        manager.look(context);
        manager
    }

    fn receive(&mut self, message: CsiManagerMsg, context: &mut Context<CsiManagerMsg>) {
        match message {
            CsiManagerMsg::Plugin(PluginNews::Came(plugin)) => self.came(plugin, context),
            CsiManagerMsg::Plugin(PluginNews::Gone(plugin)) => self.gone(&plugin, context),
            CsiManagerMsg::Plugin(PluginNews::Sockets(sockets)) => {
                let drivers = self.drivers.values().map(|driver| Arc::clone(&driver.plugin));
                let gone: Vec<Arc<Plugin>> = drivers.filter(|plugin| !sockets.contains(&plugin.socket)).collect();
                gone.iter().for_each(|plugin| self.gone(plugin, context));
                self.refusals.keep_only(&sockets);
            }
            CsiManagerMsg::Driver(DriverStep::InfoRead { plugin, outcome }) => self.informed(plugin, outcome, context),
            CsiManagerMsg::Driver(DriverStep::Published(outcome)) => self.published(outcome, context),
            CsiManagerMsg::Driver(DriverStep::LimitRead(driver, outcome)) => self.limit_read(&driver, outcome, context),
            CsiManagerMsg::Driver(DriverStep::LimitDue(driver)) => self.limit_due(&driver, context),
            CsiManagerMsg::Driver(DriverStep::RetellDue) => self.unheard.tell_again(context),
            CsiManagerMsg::LimitReached(driver) => self.limit_reached(&driver, context),
            CsiManagerMsg::Driver(DriverStep::PublishDue) => {
                self.publishing = Publishing::Idle;
                self.publish(context);
            }
            CsiManagerMsg::Staged(step) => self.staged(step, context),
            CsiManagerMsg::MayBeUnused => self.look(context),
            CsiManagerMsg::Endpoint(name, reply) => {
                let missing = || self.refusals.of(&name).map_or(DriverEndpoint::Unknown, DriverEndpoint::Failed);
                let _ = reply.send(self.endpoint(&name).map_or_else(missing, DriverEndpoint::At)); // The asker may have left.
            }
            CsiManagerMsg::NodeRegistered => self.node_registered(context),
            CsiManagerMsg::Repeat => self.tell_problem(context),
        }
    }
}

impl CsiManager {
    fn endpoint(&self, driver: &str) -> Option<String> {
        self.drivers.get(driver).map(|driver| driver.plugin.endpoint.clone())
    }

    /// Tells what became of a driver, a failure that is news as an Event of the node too.
    fn judge(&mut self, plugin: &Plugin, outcome: Result<(), Refusal>, context: &mut Context<CsiManagerMsg>) {
        if let Some(text) = self.refusals.note(plugin, &outcome) {
            let node = EventSubject::node(&self.args.node_name);
            context.tell(&self.args.event_recorder, node.warning(EventReason::FailedCSIDriverRegistration, text));
        }
        self.tell_verdict(plugin, outcome, context);
    }

    fn came(&mut self, plugin: Arc<Plugin>, context: &mut Context<CsiManagerMsg>) {
        let version = match self.checked(&plugin) {
            Ok(version) => version,
            Err(refusal) => return self.judge(&plugin, Err(refusal), context),
        };
        self.asked.insert(plugin.socket.clone(), (Arc::clone(&plugin), version));
        let (calls, endpoint, about) = (Arc::clone(&self.args.calls), plugin.endpoint.clone(), plugin.name.clone());
        calls.name(&endpoint, &plugin.name);
        let work = async move { calls.node_info(&endpoint).await.map_err(|error| error.to_string()) };
        let ended = move |outcome: Result<_, _>| {
            CsiManagerMsg::Driver(DriverStep::InfoRead { plugin, outcome: outcome.into() })
        };
        context.start("ask driver", about, work, ended);
    }

    /// The same as [`Self::check`], with the verdict that the driver hears.
    fn checked(&self, plugin: &Plugin) -> Result<Version, Refusal> {
        let (name, endpoint) = (&plugin.name, &plugin.endpoint);
        let refused = |why| format!("validation failed for CSI Driver {name} at endpoint {endpoint}: {why}");
        self.check(plugin).map_err(|why| Refusal::Invalid(refused(why)))
    }

    /// The version that is spoken with a driver.
    fn check(&self, plugin: &Plugin) -> Result<Version, String> {
        let name = &plugin.name;
        let prefix = || format!("kubernetes.io/csi: ValidatePlugin for CSI driver {name:?} failed.");
        let version = highest_version(&plugin.versions).map_err(|why| format!("{} {why}", prefix()))?;
        let other = self.drivers.get(name).filter(|driver| driver.plugin.socket != plugin.socket);
        match other.filter(|driver| driver.version >= version) {
            None => Ok(version),
            Some(Driver { version: (major, minor, patch), .. }) => Err(format!(
                "{} Another driver with the same name is already registered with a higher supported version: \
                 \"{major}.{minor}.{patch}\"",
                prefix()
            )),
        }
    }

    fn informed(&mut self, plugin: Arc<Plugin>, outcome: Ended<CsiNodeInfo>, context: &mut Context<CsiManagerMsg>) {
        let is_current = |(asked, _): &mut (Arc<Plugin>, Version)| asked.attempt == plugin.attempt;
        if self.asked.get_mut(&plugin.socket).is_none_or(|asked| !is_current(asked)) {
            return; // It is gone by now, or another one is there.
        }
        let Some((_, version)) = self.asked.remove(&plugin.socket) else { return };
        // Another driver of the name may have been faster.
        if let Err(refusal) = self.checked(&plugin) {
            return self.judge(&plugin, Err(refusal), context);
        }
        let info = match outcome.into_result() {
            Ok(info) => info,
            Err(why) => return self.judge(&plugin, Err(Refusal::Failed(why)), context),
        };
        self.drivers.insert(plugin.name.clone(), Driver { plugin: Arc::clone(&plugin), version });
        self.forget_jobs_of(&plugin.name, context);
        if self.args.api.is_some() {
            self.jobs.push_back(Job::Install { plugin, info });
            self.publish(context);
        } else {
            self.judge(&plugin, Ok(()), context);
        }
        // Volumes that waited for their driver can be mounted, unmounted and unstaged now.
        context.tell(&self.args.volume_manager, VolumeManagerMsg::Attached(AttachedStep::DriverCame));
        self.retries = Backoff::new(RETRY);
        self.look(context);
    }

    fn gone(&mut self, plugin: &Plugin, context: &mut Context<CsiManagerMsg>) {
        self.asked.remove(&plugin.socket);
        self.refusals.forget(&plugin.socket);
        let is_it = |driver: &Driver| driver.plugin.socket == plugin.socket;
        if self.drivers.get(&plugin.name).is_some_and(is_it) {
            self.drivers.remove(&plugin.name);
            self.forget_limit(&plugin.name, context);
            self.forget_jobs_of(&plugin.name, context);
            if self.args.api.is_some() {
                self.jobs.push_back(Job::Remove { driver: plugin.name.clone() });
                self.publish(context);
            }
        }
    }

    /// Drops jobs that are overtaken and not under way yet.
    fn forget_jobs_of(&mut self, name: &str, context: &mut Context<CsiManagerMsg>) {
        let is_under_way = matches!(self.publishing, Publishing::UnderWay { .. });
        let first = usize::from(is_under_way).min(self.jobs.len());
        let (dropped, kept): (Vec<Job>, Vec<Job>) =
            self.jobs.split_off(first).into_iter().partition(|job| job.driver() == Some(name));
        self.jobs.extend(kept);
        dropped.iter().for_each(|job| self.judge_overtaken(job, context));
    }

    /// A driver that waits for its verdict is tried again later: the one that overtook it may be gone by then.
    fn judge_overtaken(&mut self, job: &Job, context: &mut Context<CsiManagerMsg>) {
        if let Job::Install { plugin, .. } = job {
            let why = format!("another driver named {:?} has registered", plugin.name);
            self.tell_verdict(plugin, Err(Refusal::Failed(why)), context);
        }
    }

    /// The API server has the Node. `NodeStatus` may have told the job under way before that there is none.
    fn node_registered(&mut self, context: &mut Context<CsiManagerMsg>) {
        match &mut self.publishing {
            Publishing::UnderWay { registered } => return *registered = true,
            Publishing::Waiting(timer) => context.cancel(*timer),
            Publishing::Idle => {}
        }
        self.publishing = Publishing::Idle;
        self.publish(context);
    }

    /// Tells the cluster what is next, unless something is under way or waits.
    fn publish(&mut self, context: &mut Context<CsiManagerMsg>) {
        let (Some(job), Some(api)) = (self.jobs.front().cloned(), self.args.api.clone()) else { return };
        if !matches!(self.publishing, Publishing::Idle) {
            return;
        }
        self.publishing = Publishing::UnderWay { registered: false };
        let about = job.driver().unwrap_or("CSINode").to_owned();
        let (name, node_status, cause) = (self.args.node_name.clone(), self.args.node_status.clone(), context.cause());
        let work = async move { cluster::carry_out(&api, &node_status, cause, &name, &job).await };
        let ended = |outcome: Result<_, _>| CsiManagerMsg::Driver(DriverStep::Published(outcome.into()));
        context.start("tell cluster of drivers", about, work, ended);
    }

    fn published(&mut self, outcome: Ended<(), PublishError>, context: &mut Context<CsiManagerMsg>) {
        let before = std::mem::replace(&mut self.publishing, Publishing::Idle);
        let Some(job) = self.jobs.pop_front() else { return };
        let error = match outcome {
            Ended::Done(()) => {
                self.publish_retries.reset(API);
                self.settle(&job, Ok(()), context);
                return self.publish(context);
            }
            Ended::Failed(error) => error,
            Ended::Lost(loss) => PublishError::Transient(loss.to_string()),
        };
        // Without its CSINode the node can use no driver at all.
        if let PublishError::Refused(why) = &error
            && !matches!(job, Job::Initialize)
        {
            self.settle(&job, Err(why.clone()), context);
            return self.publish(context);
        }
        if matches!(job, Job::Initialize) && !matches!(error, PublishError::NoNode) {
            self.problem = Some(format!("failed to initialize CSINode: {error}"));
            self.tell_problem(context);
        }
        let is_wanted = job.driver().is_none_or(|name| match &job {
            Job::Install { plugin, .. } => {
                self.drivers.get(name).is_some_and(|driver| driver.plugin.attempt == plugin.attempt)
            }
            Job::Limit { .. } => self.drivers.contains_key(name),
            _ => !self.drivers.contains_key(name),
        });
        let wait = match &error {
            PublishError::NoNode if matches!(before, Publishing::UnderWay { registered: true }) => Duration::ZERO,
            PublishError::NoNode => NODE_WAIT,
            _ => {
                tracing::warn!(%error, about = job.driver().unwrap_or("CSINode"), "the cluster cannot be told of drivers");
                self.publish_retries.fail(API, context.steady()).period
            }
        };
        match (is_wanted, &error) {
            // Everybody waits for the Node, and for its CSINode. Otherwise the next driver has its turn first.
            (true, _) if matches!(job, Job::Initialize) => self.jobs.push_front(job),
            (true, PublishError::NoNode) => self.jobs.push_front(job),
            (true, _) => self.jobs.push_back(job),
            (false, _) => self.judge_overtaken(&job, context),
        }
        self.publishing = Publishing::Waiting(context.after(wait, CsiManagerMsg::Driver(DriverStep::PublishDue)));
    }

    /// A job came to its end.
    fn settle(&mut self, job: &Job, outcome: Result<(), String>, context: &mut Context<CsiManagerMsg>) {
        match (job, outcome) {
            (Job::Initialize, _) => {
                self.problem = None;
                self.tell_problem(context);
            }
            (Job::Install { plugin, info }, outcome) => {
                let is_it = |driver: &Driver| driver.plugin.attempt == plugin.attempt;
                if outcome.is_err() && self.drivers.get(&plugin.name).is_some_and(is_it) {
                    self.drivers.remove(&plugin.name);
                    self.jobs.push_back(Job::Remove { driver: plugin.name.clone() });
                } else if self.drivers.get(&plugin.name).is_some_and(is_it) {
                    self.follow_limit(&plugin.name, info.clone(), context);
                }
                self.judge(plugin, outcome.map_err(Refusal::Failed), context);
            }
            (Job::Limit { driver, .. }, Err(why)) => tracing::warn!(driver, why, "the cluster keeps an old limit"),
            (Job::Limit { .. } | Job::Remove { .. }, Ok(())) => {}
            (Job::Remove { driver }, Err(why)) => {
                tracing::warn!(driver, why, "the cluster keeps a driver that is gone")
            }
        }
    }
}

impl CsiManager {
    fn staged(&mut self, step: StagedStep, context: &mut Context<CsiManagerMsg>) {
        match step {
            StagedStep::LookDue => {
                self.look_timer.came();
                self.look(context);
            }
            StagedStep::UnusedFound(outcome) => {
                let (_, wanted) = self.looks.end();
                match outcome.into_result() {
                    Ok(unused) => {
                        self.retries.reset(LOOK);
                        self.unstage_all(unused, context);
                    }
                    Err(error) => {
                        let wait = self.retries.fail(LOOK, context.steady()).period;
                        tracing::warn!(error, ?wait, "staged volumes cannot be looked at");
                        self.look_in(wait, context);
                    }
                }
                if wanted.is_some() {
                    self.look(context);
                }
            }
            StagedStep::Unstaged { device, outcome } => {
                let (key, outcome) = (staged::key(&device), outcome.into_result());
                let look_again = self.unstagings.end(&device, outcome.as_ref().ok().copied());
                match outcome {
                    Ok(found) => {
                        self.retries.reset(&key);
                        if found == Unstaging::Gone {
                            let unstaged = VolumeManagerMsg::Attached(AttachedStep::Unstaged);
                            context.tell(&self.args.volume_manager, unstaged);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%device, error, "a volume stays staged");
                        let wait = self.retries.fail(&key, context.steady());
                        self.look_in(wait.period, context);
                    }
                }
                if look_again {
                    self.look(context);
                }
            }
        }
    }

    /// Looks which staged volumes nobody uses.
    fn look(&mut self, context: &mut Context<CsiManagerMsg>) {
        if self.looks.want(()).is_none() {
            return;
        }
        self.unstagings.look();
        let host = Arc::clone(&self.args.host);
        let ended = |outcome: Result<_, _>| CsiManagerMsg::Staged(StagedStep::UnusedFound(outcome.into()));
        context.start("look for unused volumes", "the node", async move { staged::unused(&*host).await }, ended);
    }

    /// Looks after a while, unless a look comes before: each volume has a wait of its own.
    fn look_in(&mut self, delay: Duration, context: &mut Context<CsiManagerMsg>) {
        self.look_timer.within(delay, CsiManagerMsg::Staged(StagedStep::LookDue), context);
    }

    fn unstage_all(&mut self, unused: Vec<staged::Staged>, context: &mut Context<CsiManagerMsg>) {
        for (device, data) in unused {
            if !self.unstagings.is_due(&device) {
                continue;
            }
            if let Some(wait) = self.retries.wait(&staged::key(&device), context.steady()) {
                self.look_in(wait.until.since(context.steady()), context);
                continue;
            }
            self.unstagings.begin(&device);
            let (calls, host) = (Arc::clone(&self.args.calls), Arc::clone(&self.args.host));
            let (endpoint, about) = (self.endpoint(&data.driver_name), data.volume_handle.clone());
            let of = device.clone();
            let (observer, clock) = (Arc::clone(&self.args.observer), Arc::clone(context.clock()));
            let work = async move {
                let began = clock.uptime();
                let outcome = staged::unstage(&*calls, &*host, endpoint, &device, &data).await;
                let plugin = &format!("kubernetes.io/csi:{}", data.driver_name);
                let (operation, took) = (staged::operation(&device), clock.uptime().saturating_sub(began));
                let failed = outcome.is_err();
                observer.observe(Observation::VolumeDone { plugin, operation, migrated: false, took, failed });
                outcome
            };
            let ended = move |outcome: Result<_, _>| {
                CsiManagerMsg::Staged(StagedStep::Unstaged { device: of, outcome: outcome.into() })
            };
            context.start("unstage volume", about, work, ended);
        }
    }
}
