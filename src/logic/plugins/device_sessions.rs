//! The sessions with device plugins, one for each resource: who registered, which devices there are, and how it ended
//! (RES-39, RES-40, RES-43).
//!
//! Owned by `DevicePlugins`, which feeds it and carries out its actions. A new registration of a resource replaces the old
//! session once the new plugin answers. The devices of a session that ended stay, all unhealthy: for five minutes with their
//! number, then without. Changes are published at a bounded pace, however often a plugin tells its devices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::device_registration::RegisterRefusal;
use crate::logic::model::time::{Clocks, Moment, Steady};
use crate::logic::resources::device_manager::devices::{
    Device, Health, Inventory, PluginOptions, ResourceDevices, Session as SessionState,
};

/// The capacity of a resource outlives its session by this, as upstream's.
const GRACE: Duration = Duration::from_secs(5 * 60);
/// The shortest time between two publications.
const PACE: Duration = Duration::from_millis(100);
/// The most resources that are known at a time.
const RESOURCES_MAX: usize = 256;

/// How a plugin made itself known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// By the agent's socket, with the request of this number.
    Socket {
        /// Counted up by `DevicePlugins`.
        request: u64,
    },
    /// By the plugins' registry.
    Registry {
        /// Its registration socket.
        socket: String,
        /// The handshake.
        attempt: u64,
    },
}

impl Origin {
    fn is_of(&self, socket: &str) -> bool {
        matches!(self, Self::Registry { socket: own, .. } if own == socket)
    }
}

/// An observation.
#[derive(Clone, Debug)]
pub enum Input {
    /// A plugin wants to be used; its registration was checked.
    Registered {
        /// Its resource.
        resource: String,
        /// Its socket, an absolute path.
        endpoint: String,
        /// How it came.
        origin: Origin,
    },
    /// A plugin was asked which calls it wants.
    Connected {
        /// The session.
        session: u64,
        /// Its answer, or why there is none.
        outcome: Result<PluginOptions, RegisterRefusal>,
    },
    /// A plugin told all its devices.
    Listed {
        /// The session.
        session: u64,
        /// By name.
        devices: BTreeMap<String, Device>,
    },
    /// A plugin will tell of no more devices, and why.
    Ended {
        /// The session.
        session: u64,
        /// For people.
        why: String,
    },
    /// The plugin of this registration socket is gone.
    Gone(String),
    /// An earlier run of the agent knew these resources.
    Remembered(BTreeSet<String>),
    /// A wait may be over.
    Due,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the plugin which calls it wants.
    Connect {
        /// The session.
        session: u64,
        /// Its resource.
        resource: String,
        /// Its socket.
        endpoint: String,
    },
    /// Have the plugin tell its devices, now and with each change.
    Watch {
        /// The session.
        session: u64,
        /// Its resource.
        resource: String,
        /// Its socket.
        endpoint: String,
    },
    /// Nothing more is asked of this session.
    Drop {
        /// The session.
        session: u64,
    },
    /// Tell the one who registered how that ended.
    Answer {
        /// How the plugin came.
        origin: Origin,
        /// Why it is not used.
        outcome: Result<(), RegisterRefusal>,
    },
    /// The inventory changed.
    Publish,
}

/// How far the plugin of a resource is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Stage {
    /// Asked which calls it wants.
    Asked,
    /// Used.
    Registered,
    /// Its registration failed.
    Failed,
    /// Gone; its resource keeps its capacity for a while.
    Stopped,
    /// Gone for longer.
    Forgotten,
}

/// The plugin of a resource, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePluginView {
    /// The resource.
    pub resource: String,
    /// Its socket; empty for one that an earlier run of the agent knew.
    pub endpoint: String,
    /// The registration socket of one that came by the plugins' registry.
    pub registry_socket: Option<String>,
    /// How far it is.
    pub stage: Stage,
    /// Since when.
    pub since: Moment,
    /// The last failure, also where all went well since.
    pub last_error: Option<String>,
    /// Devices that may be given.
    pub healthy: usize,
    /// All devices.
    pub devices: usize,
}

/// A plugin that can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePlugin {
    /// The session.
    pub session: u64,
    /// Its socket.
    pub endpoint: String,
    /// Calls that it wants.
    pub options: PluginOptions,
}

#[derive(Clone, Debug)]
struct Session {
    id: u64,
    endpoint: String,
    origin: Origin,
}

/// How it is with the plugin that was used last.
#[derive(Clone, Debug)]
enum Phase {
    /// None ever was.
    Never,
    Live(Session),
    /// Since then.
    Stopped(Steady),
    Forgotten,
}

#[derive(Clone, Debug)]
struct Resource {
    devices: BTreeMap<String, Device>,
    options: PluginOptions,
    phase: Phase,
    /// A plugin that is asked which calls it wants.
    asked: Option<Session>,
    /// For people: the newest endpoint, where it came from, and since when the state is as it is.
    endpoint: String,
    registry_socket: Option<String>,
    since: Moment,
    last_error: Option<String>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct DeviceSessions {
    resources: BTreeMap<String, Resource>,
    sessions: u64,
    /// When the inventory was published last.
    published: Option<Steady>,
    /// Something changed since.
    is_changed: bool,
}

impl DeviceSessions {
    /// Takes one input; says what to do, in order.
    pub fn step(&mut self, input: Input, now: Clocks) -> Vec<Action> {
        let mut actions = match input {
            Input::Registered { resource, endpoint, origin } => self.registered(resource, endpoint, origin, now),
            Input::Connected { session, outcome } => self.connected(session, outcome, now),
            Input::Listed { session, devices } => {
                self.listed(session, devices);
                vec![]
            }
            Input::Ended { session, why } => self.ended(session, &why, now),
            Input::Gone(socket) => self.gone(&socket, now),
            Input::Remembered(names) => {
                self.remember(names, now);
                vec![]
            }
            Input::Due => vec![],
        };
        self.forget(now);
        if self.is_changed && self.may_publish(now.steady) {
            (self.is_changed, self.published) = (false, Some(now.steady));
            actions.push(Action::Publish);
        }
        actions
    }

    /// When a wait is over.
    pub fn wake_at(&self) -> Option<Steady> {
        let publication = self.published.filter(|_| self.is_changed).map(|last| last.plus(PACE));
        let stopped = self.resources.values().filter_map(|resource| match resource.phase {
            Phase::Stopped(at) => Some(at.plus(GRACE)),
            _ => None,
        });
        stopped.chain(publication).min()
    }

    /// All resources that a plugin ever had.
    pub fn inventory(&self) -> Inventory {
        let entry = |(name, resource): (&String, &Resource)| {
            let session = match resource.phase {
                Phase::Never => return None,
                Phase::Live(_) => SessionState::Live,
                Phase::Stopped(_) => SessionState::Stopped,
                Phase::Forgotten => SessionState::Forgotten,
            };
            let (devices, options) = (resource.devices.clone(), resource.options);
            Some((name.clone(), ResourceDevices { devices, options, session }))
        };
        self.resources.iter().filter_map(entry).collect()
    }

    /// The plugin of a resource, while it can be called.
    pub fn live(&self, resource: &str) -> Option<LivePlugin> {
        let known = self.resources.get(resource)?;
        let Phase::Live(session) = &known.phase else { return None };
        Some(LivePlugin { session: session.id, endpoint: session.endpoint.clone(), options: known.options })
    }

    /// The resource of a session that can be called.
    pub fn resource_of(&self, session: u64) -> Option<String> {
        let is_used = |known: &Resource| matches!(&known.phase, Phase::Live(live) if live.id == session);
        self.resources.iter().find(|(_, known)| is_used(known)).map(|(name, _)| name.clone())
    }

    /// The calls that the newest plugin of a resource wanted, also once it is gone; none where it is not known.
    pub fn options(&self, resource: &str) -> PluginOptions {
        self.resources.get(resource).map_or_else(PluginOptions::default, |known| known.options)
    }

    /// A call to the plugin of a resource failed.
    pub fn note_error(&mut self, resource: &str, why: String) {
        if let Some(known) = self.resources.get_mut(resource) {
            known.last_error = Some(why);
        }
    }

    /// All plugins, by resource.
    pub fn views(&self) -> Vec<DevicePluginView> {
        let view = |(name, resource): (&String, &Resource)| {
            let stage = match (&resource.phase, &resource.asked) {
                (Phase::Live(_), _) => Stage::Registered,
                (_, Some(_)) => Stage::Asked,
                (Phase::Never, None) => Stage::Failed,
                (Phase::Stopped(_), None) => Stage::Stopped,
                (Phase::Forgotten, None) => Stage::Forgotten,
            };
            DevicePluginView {
                resource: name.clone(),
                endpoint: resource.endpoint.clone(),
                registry_socket: resource.registry_socket.clone(),
                stage,
                since: resource.since,
                last_error: resource.last_error.clone(),
                healthy: resource.devices.values().filter(|device| device.health == Health::Healthy).count(),
                devices: resource.devices.len(),
            }
        };
        self.resources.iter().map(view).collect()
    }

    fn may_publish(&self, now: Steady) -> bool {
        self.published.is_none_or(|last| now >= last.plus(PACE))
    }

    fn registered(&mut self, resource: String, endpoint: String, origin: Origin, now: Clocks) -> Vec<Action> {
        if !self.has_room_for(&resource) {
            return vec![Action::Answer { origin, outcome: Err(RegisterRefusal::TooMany(RESOURCES_MAX)) }];
        }
        self.sessions += 1;
        let session = Session { id: self.sessions, endpoint: endpoint.clone(), origin };
        let known = self.resources.entry(resource.clone()).or_insert_with(|| Resource::new(now.wall));
        let mut actions = vec![];
        if let Some(older) = known.asked.replace(session) {
            actions.push(Action::Drop { session: older.id });
            actions.push(Action::Answer { origin: older.origin, outcome: Err(RegisterRefusal::Superseded) });
        }
        if !matches!(known.phase, Phase::Live(_)) {
            known.since = now.wall;
        }
        actions.push(Action::Connect { session: self.sessions, resource, endpoint });
        actions
    }

    /// Registrations that failed make room for others.
    fn has_room_for(&mut self, resource: &str) -> bool {
        if self.resources.len() < RESOURCES_MAX || self.resources.contains_key(resource) {
            return true;
        }
        let failed = |known: &Resource| matches!(known.phase, Phase::Never) && known.asked.is_none();
        let failed = self.resources.iter().filter(|(_, known)| failed(known)).min_by_key(|(_, known)| known.since);
        let Some(name) = failed.map(|(name, _)| name.clone()) else { return false };
        self.resources.remove(&name);
        true
    }

    /// The resource whose session of this number is asked which calls it wants.
    fn asked(&mut self, session: u64) -> Option<(&String, &mut Resource)> {
        self.resources.iter_mut().find(|(_, known)| known.asked.as_ref().is_some_and(|asked| asked.id == session))
    }

    /// The resource whose live session has this number.
    fn used(&mut self, session: u64) -> Option<&mut Resource> {
        let is_used = |known: &Resource| matches!(&known.phase, Phase::Live(live) if live.id == session);
        self.resources.values_mut().find(|known| is_used(known))
    }

    fn connected(&mut self, id: u64, outcome: Result<PluginOptions, RegisterRefusal>, now: Clocks) -> Vec<Action> {
        let Some((name, known)) = self.asked(id) else { return vec![] };
        let (resource, session) = (name.clone(), known.asked.take().expect("it was found by it"));
        let origin = session.origin.clone();
        let options = match outcome {
            Ok(options) => options,
            Err(refusal) => {
                // A plugin that is in use stays, as if nobody had registered.
                known.last_error = Some(refusal.to_string());
                if !matches!(known.phase, Phase::Live(_)) {
                    (known.since, known.endpoint) = (now.wall, session.endpoint);
                    known.registry_socket = socket_of(&origin);
                }
                return vec![Action::Drop { session: id }, Action::Answer { origin, outcome: Err(refusal) }];
            }
        };
        let endpoint = session.endpoint.clone();
        (known.options, known.since, known.endpoint) = (options, now.wall, endpoint.clone());
        known.registry_socket = socket_of(&origin);
        let before = std::mem::replace(&mut known.phase, Phase::Live(session));
        self.is_changed = true;
        let mut actions = vec![];
        if let Phase::Live(older) = before {
            actions.push(Action::Drop { session: older.id });
        }
        actions.push(Action::Answer { origin, outcome: Ok(()) });
        actions.push(Action::Watch { session: id, resource, endpoint });
        actions
    }

    fn listed(&mut self, session: u64, devices: BTreeMap<String, Device>) {
        let Some(known) = self.used(session) else { return };
        let is_news = known.devices != devices;
        known.devices = devices;
        self.is_changed |= is_news;
    }

    fn ended(&mut self, session: u64, why: &str, now: Clocks) -> Vec<Action> {
        let Some(known) = self.used(session) else { return vec![] };
        known.stop(why, now);
        self.is_changed = true;
        vec![Action::Drop { session }]
    }

    fn gone(&mut self, socket: &str, now: Clocks) -> Vec<Action> {
        let mut actions = vec![];
        for known in self.resources.values_mut() {
            if let Some(asked) = known.asked.take_if(|asked| asked.origin.is_of(socket)) {
                known.since = if matches!(known.phase, Phase::Live(_)) { known.since } else { now.wall };
                actions.push(Action::Drop { session: asked.id });
            }
            let live = match &known.phase {
                Phase::Live(live) if live.origin.is_of(socket) => live.id,
                _ => continue,
            };
            known.stop("its registration socket is gone", now);
            self.is_changed = true;
            actions.push(Action::Drop { session: live });
        }
        actions
    }

    fn remember(&mut self, names: BTreeSet<String>, now: Clocks) {
        for name in names {
            if self.resources.contains_key(&name) && !matches!(self.resources[&name].phase, Phase::Never) {
                continue;
            }
            if !self.has_room_for(&name) {
                return;
            }
            let known = self.resources.entry(name).or_insert_with(|| Resource::new(now.wall));
            known.phase = Phase::Stopped(now.steady);
            self.is_changed = true;
        }
    }

    fn forget(&mut self, now: Clocks) {
        for known in self.resources.values_mut() {
            if matches!(known.phase, Phase::Stopped(at) if now.steady >= at.plus(GRACE)) {
                (known.phase, known.since) = (Phase::Forgotten, now.wall);
                self.is_changed = true;
            }
        }
    }
}

impl Resource {
    fn new(now: Moment) -> Self {
        Self {
            devices: BTreeMap::new(),
            options: PluginOptions::default(),
            phase: Phase::Never,
            asked: None,
            endpoint: String::new(),
            registry_socket: None,
            since: now,
            last_error: None,
        }
    }

    fn stop(&mut self, why: &str, now: Clocks) {
        (self.phase, self.since) = (Phase::Stopped(now.steady), now.wall);
        self.last_error = Some(why.to_owned());
        self.devices.values_mut().for_each(|device| device.health = Health::Unhealthy);
    }
}

fn socket_of(origin: &Origin) -> Option<String> {
    match origin {
        Origin::Socket { .. } => None,
        Origin::Registry { socket, .. } => Some(socket.clone()),
    }
}

#[cfg(test)]
mod tests;
