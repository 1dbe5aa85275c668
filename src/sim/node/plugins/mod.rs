//! Drivers beside the agent, played from the seed: their processes, their sockets, and what they did.
//!
//! A process may die between two calls and come back. Its work stays, as mounts and devices do: the truth of each kind of
//! driver is kept apart from the processes, and outlives the agent too.

pub mod calls;
mod changes;
pub mod csi;
mod csi_host;
pub mod devices;
pub mod dra;
pub mod registry;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::changes::{Changes, Listener};
use super::Node;
use crate::actors::kit::trace::lock;
use crate::logic::plugins::call_error::Code;
use crate::logic::plugins::plugin::PluginKind;
use crate::logic::plugins::plugin_states::SocketIdentity;
use crate::sim::faults::Fault;
use crate::sim::faults::random::Random;

/// The root directory of the agent.
pub const ROOT: &str = "/var/lib/kubelet";
/// The beginning of the names of claims' devices.
pub const CLAIMS: &str = "claim.sim/";
/// How long a driver that died stays away.
const AWAY: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(40));
/// Codes of failures: after the first ones nothing was done, after the others the driver may have done all of it.
const FINAL: [Code; 4] = [Code::Internal, Code::Unknown, Code::FailedPrecondition, Code::InvalidArgument];
const UNCERTAIN: [Code; 4] = [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted, Code::ResourceExhausted];

/// One process of a driver.
#[derive(Clone, Debug)]
pub struct Driver {
    /// The kind of the driver.
    pub kind: PluginKind,
    /// Its name, or the resource's.
    pub name: String,
    /// The versions that it tells.
    pub versions: Vec<String>,
    /// Its registration socket; `None` where it registers by the agent's socket.
    pub socket: Option<String>,
    /// Whether it runs.
    pub is_up: bool,
    /// Counts its lives.
    pub life: u64,
}

/// The fate of one call to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It works.
    Well,
    /// It fails with this code.
    Fails {
        /// The code.
        code: Code,
        /// Whether it took effect.
        effect: bool,
    },
    /// It takes effect, and the connection breaks.
    AnswerLost,
    /// Silence until the deadline.
    Hangs {
        /// Whether it takes effect.
        effect: bool,
    },
}

#[derive(Debug, Default)]
struct State {
    /// By endpoint.
    drivers: BTreeMap<String, Driver>,
    /// Sockets in the registry, with the endpoint that each leads to.
    sockets: BTreeMap<String, (SocketIdentity, String)>,
    /// Things that a driver works on, and refuses other calls about.
    busy: BTreeSet<String>,
    /// A method that never answers, without any effect.
    hung: Option<&'static str>,
    made: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Plugins {
    state: Mutex<State>,
    random: Random,
    /// Counts changes of processes and devices.
    changes: Arc<Changes>,
    /// Counts changes of the registry.
    seen: Arc<Changes>,
    /// Devices of device plugins.
    pub devices: Mutex<devices::Devices>,
    /// Claims that drivers have prepared.
    pub claims: Mutex<dra::Claims>,
    /// Volumes that drivers have staged and published.
    pub volumes: Mutex<csi::Volumes>,
}

impl Plugins {
    /// No drivers.
    pub fn new(seed: u64) -> Self {
        Self {
            state: Mutex::default(),
            random: Random::named(seed, "plugins"),
            changes: Arc::default(),
            seen: Arc::default(),
            devices: Mutex::default(),
            claims: Mutex::default(),
            volumes: Mutex::default(),
        }
    }

    /// Chance of drivers.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// Something about processes or devices changed.
    pub fn changed(&self) {
        self.changes.tell();
    }

    /// Hears of such changes.
    pub fn changes(&self) -> Listener {
        self.changes.listen()
    }

    /// The process at an endpoint.
    pub fn driver(&self, endpoint: &str) -> Option<Driver> {
        lock(&self.state).drivers.get(endpoint).cloned()
    }

    /// All processes, by endpoint.
    pub fn drivers(&self) -> BTreeMap<String, Driver> {
        lock(&self.state).drivers.clone()
    }

    /// The life of the process at an endpoint; `None` while none runs.
    pub fn life(&self, endpoint: &str) -> Option<u64> {
        lock(&self.state).drivers.get(endpoint).filter(|driver| driver.is_up).map(|driver| driver.life)
    }

    /// This method of all drivers never answers, from now on; `None`: all do.
    pub fn hang(&self, method: Option<&'static str>) {
        lock(&self.state).hung = method;
    }

    /// A driver is there from now on, and runs.
    pub fn add(&self, node: &Node, endpoint: &str, driver: Driver) {
        lock(&self.state).drivers.insert(endpoint.to_owned(), Driver { is_up: false, ..driver });
        self.start(node, endpoint);
    }

    /// The process begins, with sockets of its own.
    pub fn start(&self, node: &Node, endpoint: &str) {
        {
            let mut state = lock(&self.state);
            state.made += 1;
            let number = state.made;
            let Some(driver) = state.drivers.get_mut(endpoint).filter(|driver| !driver.is_up) else { return };
            (driver.is_up, driver.life) = (true, driver.life + 1);
            node.story.tell("driver", format!("{} runs at {endpoint}, life {}", driver.name, driver.life));
            if let Some(socket) = driver.socket.clone() {
                let made = i64::try_from(number).unwrap_or_default();
                let identity = SocketIdentity { device: 1, inode: number, made };
                state.sockets.insert(socket, (identity, endpoint.to_owned()));
            }
        }
        node.changed();
        self.changed();
        self.seen.tell();
    }

    /// The process dies. Its socket in the registry may stay, as after a kill.
    pub fn die(&self, node: &Node, endpoint: &str, leaves_socket: bool) {
        {
            let mut state = lock(&self.state);
            let Some(driver) = state.drivers.get_mut(endpoint).filter(|driver| driver.is_up) else { return };
            driver.is_up = false;
            node.story.tell("driver", format!("{} at {endpoint} dies", driver.name));
            if !leaves_socket {
                state.sockets.retain(|_, (_, of)| of != endpoint);
            }
        }
        node.changed();
        self.changed();
        self.seen.tell();
    }

    /// A driver that died is removed for good, with its socket.
    pub fn remove(&self, node: &Node, endpoint: &str) {
        self.die(node, endpoint, false);
        let mut state = lock(&self.state);
        state.drivers.remove(endpoint);
        state.sockets.retain(|_, (_, of)| of != endpoint);
    }

    /// The machine lost its power: all that drivers did is gone, and they come back by and by. Their sockets stay.
    pub fn reset(&self, node: &Node) {
        let all: Vec<String> = {
            let mut state = lock(&self.state);
            state.busy.clear();
            state.drivers.keys().cloned().collect()
        };
        for endpoint in all {
            self.die(node, &endpoint, true);
            node.later(self.random.between(AWAY.0, AWAY.1), move |node| node.plugins.start(node, &endpoint));
        }
        let mut volumes = lock(&self.volumes);
        volumes.staged.clear();
        volumes.published.clear();
        lock(&self.claims).clear();
    }

    /// All drivers run, and answer.
    pub fn recover(&self, node: &Node) {
        self.hang(None);
        let all: Vec<String> = lock(&self.state).drivers.keys().cloned().collect();
        all.iter().for_each(|endpoint| self.start(node, endpoint));
        lock(&self.devices).recover();
        self.changed();
    }

    /// Takes hold of a thing; false when a driver works on it already.
    fn occupy(&self, thing: &str) -> bool {
        lock(&self.state).busy.insert(thing.to_owned())
    }

    fn leave(&self, thing: &str) {
        lock(&self.state).busy.remove(thing);
    }

    /// How long one half of a call takes.
    fn latency(&self, node: &Node) -> Duration {
        let longest = if node.faults.has(Fault::PluginSlow) && self.random.chance(0.2) { 8_000 } else { 40 };
        self.random.between(Duration::from_millis(1), Duration::from_millis(longest))
    }

    fn fate(&self, node: &Node, method: &str) -> Fate {
        if lock(&self.state).hung == Some(method) {
            return Fate::Hangs { effect: false };
        }
        let strikes = |fault, share| node.faults.has(fault) && self.random.chance(share);
        let one_of = |codes: [Code; 4]| codes[usize::try_from(self.random.below(4)).unwrap_or_default()];
        if strikes(Fault::PluginErrors, 0.1) {
            return match self.random.chance(0.5) {
                true => Fate::Fails { code: one_of(FINAL), effect: false },
                false => Fate::Fails { code: one_of(UNCERTAIN), effect: self.random.chance(0.5) },
            };
        }
        if strikes(Fault::PluginLostAnswers, 0.08) {
            return Fate::AnswerLost;
        }
        if strikes(Fault::PluginHangs, 0.03) {
            return Fate::Hangs { effect: self.random.chance(0.5) };
        }
        Fate::Well
    }

    /// Faults that come at random times, for as long as the run goes on.
    pub async fn trouble(node: std::sync::Arc<Node>) {
        let plugins = &node.plugins;
        let random = Random::new(plugins.random.number());
        loop {
            tokio::time::sleep(random.between(Duration::from_secs(2), Duration::from_secs(20))).await;
            if node.faults.has(Fault::PluginRestarts) && random.chance(0.5) {
                let all: Vec<String> = plugins.drivers().into_keys().collect();
                let which = usize::try_from(random.below(all.len().max(1) as u64)).unwrap_or_default();
                if let Some(endpoint) = all.get(which).cloned() {
                    plugins.die(&node, &endpoint, random.chance(0.5));
                    let away = random.between(AWAY.0, AWAY.1);
                    node.later(away, move |node| node.plugins.start(node, &endpoint));
                }
            }
            if node.faults.has(Fault::PluginDevices) && random.chance(0.7) {
                let told = match random.chance(0.3) {
                    true => dra::change(&mut lock(&plugins.claims), &random),
                    false => lock(&plugins.devices).change(&random),
                };
                told.iter().for_each(|told| node.story.tell("driver", told.clone()));
                plugins.changed();
            }
        }
    }
}
