//! `World`: a simulated node with the agent on it, as a test handles it.

pub mod cluster;
pub mod cluster_truth;
mod controllers;
pub mod drivers;
pub mod hardware;
mod hopeless;
mod local_objects;
mod options;
pub mod pressure;
pub mod resizes;
mod strict;
pub mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use self::options::Options;
use self::strict::{Lateness, Strict};
use super::agent::{Equipment, Incarnation};
use super::api_server::link::Link;
use super::clock::VirtualTime;
use super::faults::crashes::Crashes;
use super::faults::random::Random;
use super::faults::{Fault, Faults};
use super::invariants::Violation;
use super::meter::TurnMeter;
use super::node::{Node, spawn};
use super::pods::{SimPod, manifest_path};
use super::story::{Line, Story};
use crate::actors::kit::trace::{Cause, lock};
use crate::actors::settings::Settings;
use crate::cri::ContainerState;
use crate::logic::model::ids::PodUid;
use crate::messages::root::{LiveSettings, RootMsg};
use crate::messages::status::status_manager::{PodView, StatusManagerMsg};
use crate::sim::node::NODE_NAME;
use crate::sim::node::machines::Machine;
use crate::sim::node::plugins::Plugins;
use crate::sim::node::runtime;

/// Wait of the service manager before it starts an agent that ended.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// The longest that pods may take to become what they should be once nothing goes wrong any more: the deadlines of two
/// calls that hang, and the longest back-off.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(900);
/// Work that is never over.
const STANDING: [&str; 10] = [
    "event stream",
    "watch folder",
    "listen",
    "watch pods",
    "watch node",
    "watch memory",
    "watch registry",
    "serve registrations",
    "wait for devices",
    "watch driver",
];

/// A pod that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// UID.
    pub uid: PodUid,
    /// The pod.
    pub pod: SimPod,
}

pub(super) struct Shared {
    pub(super) seed: u64,
    pub(super) node: Arc<Node>,
    pub(super) wanted: Mutex<BTreeMap<String, Wanted>>,
    pub(super) told: Mutex<truth::Told>,
    /// The way to the API server, where there is one.
    pub(super) link: Option<Arc<Link>>,
    /// Pods of the API that are wanted, by name.
    pub(super) api_pods: Mutex<BTreeMap<String, Wanted>>,
    crashes: Arc<Crashes>,
    offline: bool,
    plugins: bool,
    strict: Strict,
    settle_limit: Duration,
    meter: Option<Arc<TurnMeter>>,
    settings: fn(&mut Settings),
    machine: Option<Machine>,
    agent: Mutex<Option<Arc<Incarnation>>>,
    may_run: AtomicBool,
    incarnations: AtomicU64,
    random: Random,
}

/// See the module. Copies are one.
#[derive(Clone)]
pub struct World {
    pub(super) shared: Arc<Shared>,
}

impl World {
    /// A node without an agent. Inside the run's own tokio runtime.
    pub fn new(seed: u64, options: &Options) -> Self {
        let time = VirtualTime::begin();
        let story = Arc::new(Story::new(time.clone()));
        let faults = Arc::new(Faults::new(seed, options.faults.clone(), Strict(options.strict).disk(seed)));
        let node = Node::new(seed, time, Arc::clone(&story), Arc::clone(&faults));
        node.invariants.set_command(options.command.clone());
        *lock(&node.kill_at) = options.kill_at;
        let meter = options.turn_clock.map(|clock| Arc::new(TurnMeter::new(clock, node.time.clone())));
        let crashes = Crashes::new(seed, options.crash.clone(), faults, story).with_mailbox(options.mailbox.clone());
        let crashes = Arc::new(crashes.with_meter(meter.clone()));
        let link = options.cluster.then(|| cluster::begin(seed, &node, Strict(options.strict).way(seed)));
        let shared = Shared {
            seed,
            node,
            link,
            api_pods: Mutex::default(),
            wanted: Mutex::default(),
            told: Mutex::default(),
            crashes,
            offline: options.offline,
            plugins: options.plugins,
            strict: Strict(options.strict),
            settle_limit: Strict(options.strict).settle_limit(&options.faults, SETTLE_LIMIT),
            meter,
            settings: options.settings,
            machine: options.machine,
            agent: Mutex::default(),
            may_run: AtomicBool::new(false),
            incarnations: AtomicU64::new(0),
            random: Random::named(seed, "world"),
        };
        let world = Self { shared: Arc::new(shared) };
        spawn(world.clone().trouble());
        if options.plugins {
            spawn(Plugins::trouble(Arc::clone(world.node())));
            if options.cluster {
                spawn(world.clone().control());
            }
        }
        world
    }

    /// The node itself.
    pub fn node(&self) -> &Arc<Node> {
        &self.shared.node
    }

    /// The meter of turns, where one was asked for.
    pub fn meter(&self) -> Option<Arc<TurnMeter>> {
        self.shared.meter.clone()
    }

    /// Chance of the test's own.
    pub fn random(&self) -> &Random {
        &self.shared.random
    }

    /// Virtual time passes.
    pub async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    // The user.

    /// Writes a pod's manifest; one of the same name is replaced.
    pub fn put(&self, pod: &SimPod) -> PodUid {
        let uid = pod.uid(NODE_NAME);
        self.node().story.tell("user", format!("wants {}, {}", pod.name, uid));
        let wanted = Wanted { uid: uid.clone(), pod: pod.clone() };
        let before = lock(&self.shared.wanted).insert(pod.name.clone(), wanted);
        if before.as_ref().is_none_or(|before| before.uid != uid) {
            before.iter().for_each(|before| self.node().invariants.pod_unwanted(&before.uid));
            self.node().invariants.pod_wanted(&uid, pod);
            lock(&self.shared.told).pod_wanted(&uid);
        }
        self.node().manifests.write(manifest_path(&pod.name).into(), &pod.manifest(), &self.node().faults);
        uid
    }

    /// Removes a pod's manifest.
    pub fn delete(&self, name: &str) {
        self.node().story.tell("user", format!("deletes {name}"));
        let before = lock(&self.shared.wanted).remove(name);
        before.iter().for_each(|before| self.node().invariants.pod_unwanted(&before.uid));
        self.node().manifests.remove(manifest_path(name).into(), &self.node().faults);
    }

    /// Removes all manifests.
    pub fn delete_all(&self) {
        let names: Vec<String> = lock(&self.shared.wanted).keys().cloned().collect();
        for name in names {
            self.delete(&name);
        }
    }

    /// The wanted pods, by name.
    pub fn wanted(&self) -> BTreeMap<String, Wanted> {
        lock(&self.shared.wanted).clone()
    }

    // The agent.

    /// Starts the agent; it is started again whenever it ends, as by a service manager.
    pub fn start_agent(&self) {
        self.shared.may_run.store(true, Ordering::Relaxed);
        self.launch();
    }

    /// Kills the agent, which is not started again before [`World::start_agent`].
    pub fn stop_agent(&self) {
        self.shared.may_run.store(false, Ordering::Relaxed);
        self.kill_agent();
    }

    /// Kills the agent's process; the service manager starts it again.
    pub fn kill_agent(&self) {
        if let Some(agent) = self.agent() {
            self.node().story.tell("fault", "the agent is killed");
            agent.life.end();
        }
    }

    /// Has the agent that runs take other settings, as at a reload.
    pub async fn reload(&self, adjust: impl FnOnce(&mut LiveSettings)) {
        let agent = self.agent().expect("an agent runs");
        let mut settings = agent.agent.settings.live();
        adjust(&mut settings);
        self.node().story.tell("agent", "is reloaded");
        let reload = |reply| RootMsg::Reload(Arc::new(settings), reply);
        agent.root.ask(Cause::outside("signal"), Duration::from_secs(5), reload).await.expect("answered");
    }

    /// The agent that runs.
    pub fn agent(&self) -> Option<Arc<Incarnation>> {
        lock(&self.shared.agent).clone()
    }

    /// How often the agent was started.
    pub fn incarnations(&self) -> u64 {
        self.shared.incarnations.load(Ordering::Relaxed)
    }

    /// Turns so far by kind of actor, over all incarnations.
    pub fn turns(&self) -> BTreeMap<&'static str, u64> {
        self.shared.crashes.turns()
    }

    fn launch(&self) {
        let number = self.shared.incarnations.fetch_add(1, Ordering::Relaxed);
        self.node().may_step_clock(0.3);
        let seed = self.shared.seed.wrapping_add(number);
        let (node, crashes) = (self.node(), &self.shared.crashes);
        node.story.tell("agent", "starts");
        node.invariants.agent_begins(&lock(&node.containers));
        let link = self.shared.link.as_ref();
        let Shared { settings, offline, plugins, strict, machine, .. } = *self.shared;
        let equipment = Equipment { machine, offline, plugins };
        let adjust = move |given: &mut Settings| {
            settings(given);
            strict.adjust(given);
        };
        let agent = Arc::new(Incarnation::start(node, crashes, seed, &adjust, link, equipment));
        strict.begin(&agent.agent.trace);
        *lock(&self.shared.agent) = Some(Arc::clone(&agent));
        let world = self.clone();
        spawn(async move {
            tokio::select! {
                biased;
                () = agent.life.over() => agent.cell.kill(),
                _ = agent.cell.wait(None) => {
                    world.node().story.tell("agent", "ends by itself");
                    agent.life.end();
                }
            }
            // Another may have been started by now.
            lock(&world.shared.agent).take_if(|running| Arc::ptr_eq(running, &agent));
            tokio::time::sleep(RESTART_DELAY).await;
            if world.shared.may_run.load(Ordering::Relaxed) && world.agent().is_none() {
                world.launch();
            }
        });
    }

    // Trouble.

    /// Restarts the runtime.
    pub fn restart_runtime(&self, away: Duration) {
        runtime::restart(self.node(), away);
    }

    /// Somebody shuts the machine down, or cancels that.
    pub fn shut_down(&self, ends: bool) {
        self.node().story.tell("user", if ends { "shuts the machine down" } else { "cancels the shutdown" });
        self.node().invariants.goes_down(ends);
        self.node().logind.prepare(ends);
    }

    /// Resets the machine: agent, drivers and containers die, cgroups and mounts are gone, the disk stays.
    pub fn reset_machine(&self) {
        let node = self.node();
        node.story.tell("fault", "the machine is reset");
        node.boots.fetch_add(1, Ordering::Relaxed);
        self.kill_agent();
        runtime::reset(node);
        lock(&node.cgroups).all.clear();
        lock(&node.disk).lose_mounts();
        node.plugins.reset(node);
    }

    /// The sandboxes of a pod, by its name in the API, die, and all in them.
    pub fn kill_sandboxes(&self, pod: &str) {
        let all: Vec<_> = {
            let containers = lock(&self.node().containers);
            let of_pod = containers.sandboxes.values().filter(|one| one.metadata.name == pod);
            of_pod.map(|one| one.id.clone()).collect()
        };
        all.iter().for_each(|id| self.node().lose_sandbox(id, "dies by itself"));
    }

    /// Somebody removes a pod, by its name in the API, from the runtime behind the agent's back.
    pub fn remove_from_runtime(&self, pod: &str) {
        self.node().story.tell("user", format!("removes the sandboxes of {pod} from the runtime"));
        self.kill_sandboxes(pod);
        let of_pod = |containers: &super::containers::Containers| -> Vec<_> {
            let sandboxes = containers.sandboxes.values().filter(|one| one.metadata.name == pod);
            sandboxes.map(|one| one.id.clone()).collect()
        };
        let all = of_pod(&lock(&self.node().containers));
        all.iter().for_each(|id| runtime::remove_sandbox(self.node(), id));
    }

    /// A condition of the runtime, such as `NetworkReady`; `None` when it holds.
    pub fn set_condition(&self, kind: &'static str, problem: Option<&str>) {
        let mut conditions = lock(&self.node().conditions);
        match problem {
            Some(problem) => drop(conditions.insert(kind, problem.to_owned())),
            None => drop(conditions.remove(kind)),
        }
    }

    /// This method of the runtime never answers, from now on; `None` when all do.
    pub fn hang(&self, method: Option<&'static str>) {
        *lock(&self.node().hung) = method;
    }

    /// This method of the runtime, or this work on volumes, fails the next times: its effect takes place, or part of it. Also
    /// `create cgroup`, without any.
    pub fn fail(&self, method: &'static str, times: u32) {
        *lock(&self.node().failing) = Some((method, times));
    }

    /// The runtime never answers about the containers of this pod, by its name in the API, from now on; `None`: of none.
    pub fn stick(&self, pod: Option<&str>) {
        *lock(&self.node().stuck) = pod.map(str::to_owned);
    }

    /// The cluster has attached these volumes to the node, and somebody has mounted them there.
    pub fn attach(&self, volumes: &[&str]) {
        lock(&self.node().disk).attached = volumes.iter().map(|volume| (*volume).to_owned()).collect();
    }

    /// This never ends, from now on: `set up NAME` or `tear down NAME` of a volume, `prepare NAME`, of a part of it, or
    /// `read NAME`, of a file in it; `None`: all does.
    pub fn hang_volume(&self, what: Option<&str>) {
        lock(&self.node().disk).dead = what.map(str::to_owned);
    }

    /// Forgets what happened, and all that is only of use to find what goes wrong with pods that are gone by now: for runs
    /// with more pods than a story could tell of.
    pub fn forget(&self) {
        self.node().story.forget();
        self.node().invariants.forget_unwanted();
        lock(&self.shared.told).forget();
        lock(&self.node().disk).forget_logs();
    }

    /// Nothing goes wrong any more, from now on. A clock that is wrong is set right, which is one more step.
    pub fn stop_faults(&self) {
        self.node().story.tell("world", "nothing goes wrong any more");
        if self.node().time.set_right() {
            self.node().story.tell("world", "the clock is set right");
        }
        self.node().faults.set(BTreeSet::new());
        self.hang(None);
        self.stick(None);
        self.node().plugins.recover(self.node());
        self.fill_images(false);
        if self.node().faults.had(Fault::Networks) {
            self.set_condition("NetworkReady", None);
        }
        if lock(&self.node().beside).refuses_writes {
            self.refuse_writes(false);
        }
        self.shared.link.iter().for_each(|link| link.recover());
        self.heal_hopeless();
    }

    /// Faults that come at random times.
    async fn trouble(self) {
        let random = Random::named(self.shared.seed, "trouble");
        loop {
            tokio::time::sleep(random.between(Duration::from_secs(2), Duration::from_secs(25))).await;
            let faults = &self.node().faults;
            self.node().may_step_clock(0.5);
            if faults.strikes(Fault::RuntimeRestarts, 0.4) {
                self.restart_runtime(random.between(Duration::from_millis(200), Duration::from_secs(8)));
            }
            if faults.strikes(Fault::Kills, 0.5) {
                self.kill_agent();
            }
            if faults.strikes(Fault::Resets, 0.3) {
                self.reset_machine();
                self.restart_runtime(random.between(Duration::from_millis(200), Duration::from_secs(8)));
            }
            if faults.strikes(Fault::RuntimeLosses, 0.15) {
                runtime::lose_all(self.node(), random.between(Duration::from_millis(200), Duration::from_secs(8)));
            }
            if faults.strikes(Fault::Networks, 0.3) {
                self.set_condition("NetworkReady", Some("cni plugin not initialized"));
                let back = random.between(Duration::from_secs(1), Duration::from_secs(20));
                self.node().later(back, |node| drop(lock(&node.conditions).remove("NetworkReady")));
            }
            self.trouble_containers(&random);
            if faults.strikes(Fault::FullImages, 0.4) {
                self.fill_images(true);
            } else if faults.has(Fault::FullImages) {
                self.fill_images(false);
            }
        }
    }

    /// The troubles of containers by themselves.
    fn trouble_containers(&self, random: &Random) {
        let faults = &self.node().faults;
        let some_running = || {
            let containers = lock(&self.node().containers);
            let running = containers.containers.values().filter(|one| one.state == ContainerState::Running);
            let all: Vec<_> = running.map(|one| one.id.clone()).collect();
            let which = random.below(all.len().max(1) as u64);
            all.get(usize::try_from(which).unwrap_or_default()).cloned()
        };
        if faults.strikes(Fault::OomKills, 0.5) {
            some_running().iter().for_each(|id| self.node().kill_for_memory(id));
        }
        if faults.strikes(Fault::UnknownContainers, 0.4)
            && let Some(id) = some_running()
        {
            self.node().story.tell("fault", format!("the runtime loses track of {id}"));
            lock(&self.node().containers).lose_track(&id);
            self.node().changed();
        }
    }

    /// The next message to an actor of this kind makes it panic.
    pub fn crash_next(&self, kind: &'static str) {
        self.shared.crashes.crash_next(kind);
    }

    // The results.

    /// Waits until no operation is open but standing ones, and nothing changed for 5 s; at most an hour.
    pub async fn quiet(&self) {
        let (mut version, mut calm) = (self.node().version(), 0);
        for _ in 0..3600 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let busy = self
                .agent()
                .is_some_and(|agent| agent.agent.trace.open_operations().iter().any(|open| !STANDING.contains(open)));
            let now = self.node().version();
            calm = if busy || now != version { 0 } else { calm + 1 };
            version = now;
            if calm >= 5 {
                return;
            }
        }
    }

    /// The parts that are not as they should be, once all is quiet.
    pub async fn problems(&self) -> Vec<truth::Problem> {
        let mut problems = match self.shared.link {
            Some(_) => cluster_truth::problems(self).await,
            None => truth::problems(self).await,
        };
        problems.extend(hardware::problems(self));
        problems.extend(drivers::problems(self));
        self.shared.strict.forgive(&mut problems);
        problems.retain(|(_, how)| !self.is_of_hopeless(how));
        problems
    }

    /// Waits until the node is what it should be and stays so for some seconds; says how long that took. Each part that is
    /// not so at the end of [`SETTLE_LIMIT`] is a broken invariant.
    pub async fn settle(&self) -> Duration {
        let began = self.node().time.elapsed();
        let (mut version, mut good, mut last) = (u64::MAX, 0, vec![]);
        let mut lateness = Lateness::new(self.shared.strict, self.shared.settle_limit);
        let mut step = Duration::from_millis(500);
        loop {
            let now = self.node().version();
            if now != version || good == 0 {
                last = self.problems().await;
                version = now;
            }
            good = if last.is_empty() { good + 1 } else { 0 };
            let took = self.node().time.elapsed() - began;
            if good > 4 {
                return took;
            }
            let late = lateness.of(&last, took);
            if !late.is_empty() {
                late.into_iter().for_each(|(name, how)| self.node().invariants.broken(name, how));
                return took;
            }
            tokio::time::sleep(step).await;
            step = (step * 2).min(self.shared.strict.look_period());
            if good > 0 {
                step = Duration::from_secs(1);
            }
        }
    }

    /// Asks the agent for the status of all pods.
    pub async fn statuses(&self) -> Option<Vec<PodView>> {
        let agent = self.agent()?;
        let limit = Duration::from_secs(1);
        let manager = &agent.agent.directory.status_manager;
        manager.ask(Cause::outside("test"), limit, StatusManagerMsg::List).await.ok()
    }

    /// Nothing goes wrong any more and all is as it should be; then nothing is wanted and nothing is left.
    pub async fn finish(&self) {
        self.stop_faults();
        if self.agent().is_none() {
            self.start_agent();
        }
        self.settle().await;
        self.delete_all();
        self.settle().await;
        self.logs_go().await;
    }

    /// Once nothing is wanted: logs that are still read go, too.
    pub(super) async fn logs_go(&self) {
        self.sleep(super::node::disk::LOGS_KEPT_MAX).await;
        self.settle().await;
    }

    /// All that was broken so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.node().invariants.violations()
    }

    /// The story so far.
    pub fn story(&self) -> Vec<Line> {
        self.node().story.lines()
    }

    /// Whether all that was ever told of a pod's containers, by name, is that none was started again.
    pub fn running(&self) -> BTreeSet<String> {
        let containers = lock(&self.node().containers);
        let running = containers.containers.values().filter(|one| one.state == ContainerState::Running);
        running.map(super::containers::SimContainer::label).collect()
    }
}
