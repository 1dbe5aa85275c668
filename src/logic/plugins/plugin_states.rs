//! How far each plugin's registration is: a state for each socket in the plugins' registry (RES-47).
//!
//! Owned by `PluginWatcher`, which feeds it and carries out its actions. Level-triggered: each look gives all sockets, and a
//! repeated one changes nothing. A plugin is asked who it is, handed to the actor that uses its kind, and told the verdict.
//! Each step that fails is tried again, later each time, and touches no other socket.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::plugin::{Plugin, PluginInfo, PluginKind, Refusal, accept};
use crate::logic::model::backoff::{Backoff, BackoffPolicy};
use crate::logic::model::time::{Clocks, Moment, Steady};

/// Waits after failed registrations: 500 ms, doubled up to 2 min 2 s.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(122),
    reset: Duration::from_secs(600),
};

/// Tells one socket at a path from the next one there. The order and the values mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketIdentity {
    /// The file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
    /// When it was made, in nanoseconds.
    pub made: i64,
}

/// An observation.
#[derive(Clone, Debug)]
pub enum Input {
    /// All sockets of the registry, by path.
    Seen(BTreeMap<String, SocketIdentity>),
    /// A plugin was asked who it is.
    Greeted {
        /// Which.
        socket: String,
        /// The handshake.
        attempt: u64,
        /// Its answer, or why there is none.
        outcome: Result<PluginInfo, String>,
    },
    /// The actor that uses such plugins decided.
    Judged {
        /// Which.
        socket: String,
        /// The handshake.
        attempt: u64,
        /// Why it is not used.
        outcome: Result<(), Refusal>,
    },
    /// The verdict reached a plugin, or could not.
    Notified {
        /// Which.
        socket: String,
        /// The handshake.
        attempt: u64,
        /// Why the verdict did not reach it.
        outcome: Result<(), String>,
    },
    /// The actor that uses such plugins was started again: it knows none.
    TakerLost(PluginKind),
    /// A wait may be over.
    Due,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the plugin who it is.
    Greet {
        /// Which.
        socket: String,
        /// The handshake.
        attempt: u64,
    },
    /// Hand it to the actor that uses its kind.
    HandOver(Arc<Plugin>),
    /// Tell that actor that it is gone.
    TakeBack(Arc<Plugin>),
    /// Tell all actors that use plugins which sockets are left. One is gone that was not handed over yet, but may have been before
    /// the last start of `PluginWatcher`.
    KeepOnly(Arc<BTreeSet<String>>),
    /// Tell the plugin the verdict.
    Notify {
        /// Which.
        socket: String,
        /// The handshake.
        attempt: u64,
        /// Why it is not used; `None` where it is.
        refusal: Option<String>,
    },
}

/// How far a registration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Stage {
    /// Asked who it is.
    Asked,
    /// The actor that uses such plugins decides.
    Judged,
    /// It gets the verdict.
    Told,
    /// Used.
    Registered,
    /// Not used: tried again after a wait.
    Failed,
}

#[derive(Clone, Debug)]
struct SocketState {
    identity: SocketIdentity,
    attempt: u64,
    stage: Stage,
    /// Since when it is in that stage.
    since: Moment,
    /// Handed over and not taken back; or what the last answer said.
    plugin: Option<Arc<Plugin>>,
    is_handed_over: bool,
    /// The verdict that it is being told.
    refusal: Option<Refusal>,
    last_error: Option<String>,
}

/// The result of an earlier handshake: the plugin, and why it failed.
type Known = (Option<Arc<Plugin>>, Option<String>);

/// One plugin, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginView {
    /// Its registration socket.
    pub socket: String,
    /// The plugin, where its answer could be used.
    pub plugin: Option<Arc<Plugin>>,
    /// How far its registration is.
    pub stage: Stage,
    /// Since when.
    pub since: Moment,
    /// The last failure, also where all went well since.
    pub last_error: Option<String>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PluginStates {
    /// Kinds that somebody uses.
    taken: BTreeSet<PluginKind>,
    sockets: BTreeMap<String, SocketState>,
    attempts: u64,
    retries: Backoff,
}

impl PluginStates {
    /// No socket was seen. Plugins of other kinds than `taken` are refused.
    pub fn new(taken: BTreeSet<PluginKind>) -> Self {
        Self { taken, sockets: BTreeMap::new(), attempts: 0, retries: Backoff::new(RETRY) }
    }

    /// Takes one input; says what to do, in order.
    pub fn step(&mut self, input: Input, now: Clocks) -> Vec<Action> {
        match input {
            Input::Seen(sockets) => self.seen(sockets, now),
            Input::Greeted { socket, attempt, outcome } => self.greeted(&socket, attempt, outcome, now),
            Input::Judged { socket, attempt, outcome } => self.judged(&socket, attempt, outcome, now),
            Input::Notified { socket, attempt, outcome } => self.notified(&socket, attempt, outcome, now),
            Input::TakerLost(kind) => self.taker_lost(kind, now),
            Input::Due => self.due(now),
        }
    }

    /// When the next wait is over.
    pub fn wake_at(&self, now: Steady) -> Option<Steady> {
        let failed = self.sockets.iter().filter(|(_, state)| state.stage == Stage::Failed);
        failed.map(|(socket, _)| self.retries.wait(socket, now).map_or(now, |wait| wait.until)).min()
    }

    /// All plugins, by socket.
    pub fn views(&self) -> Vec<PluginView> {
        let view = |(socket, state): (&String, &SocketState)| PluginView {
            socket: socket.clone(),
            plugin: state.plugin.clone(),
            stage: state.stage,
            since: state.since,
            last_error: state.last_error.clone(),
        };
        self.sockets.iter().map(view).collect()
    }

    fn seen(&mut self, sockets: BTreeMap<String, SocketIdentity>, now: Clocks) -> Vec<Action> {
        let mut actions = vec![];
        // Those that went first: another one may have the same name.
        let is_same = |path: &String, state: &SocketState| sockets.get(path) == Some(&state.identity);
        let gone: Vec<String> =
            self.sockets.iter().filter(|(path, state)| !is_same(path, state)).map(|(path, _)| path.clone()).collect();
        let mut left: BTreeSet<String> = sockets.keys().cloned().collect();
        let mut is_unsure = false;
        for path in gone {
            self.retries.reset(&path);
            let state = self.sockets.remove(&path).expect("it was found there");
            match state.plugin.filter(|_| state.is_handed_over) {
                Some(plugin) => {
                    self.free_name(&plugin);
                    actions.push(Action::TakeBack(plugin));
                }
                None => {
                    left.remove(&path); // Another one that is there by now is handed over itself.
                    is_unsure = true;
                }
            }
        }
        if is_unsure {
            actions.push(Action::KeepOnly(Arc::new(left)));
        }
        for (path, identity) in sockets {
            if !self.sockets.contains_key(&path) {
                actions.push(self.greet(path, identity, None, now));
            }
        }
        actions
    }

    /// `before` is what is known of the socket from an earlier handshake.
    fn greet(&mut self, socket: String, identity: SocketIdentity, before: Option<Known>, now: Clocks) -> Action {
        self.attempts += 1;
        let (plugin, last_error) = before.unwrap_or_default();
        let state = SocketState {
            identity,
            attempt: self.attempts,
            stage: Stage::Asked,
            since: now.wall,
            plugin,
            is_handed_over: false,
            refusal: None,
            last_error,
        };
        self.sockets.insert(socket.clone(), state);
        Action::Greet { socket, attempt: self.attempts }
    }

    /// The state that an outcome is about; `None` of one that is too late.
    fn current(&mut self, socket: &str, attempt: u64, stage: Stage) -> Option<&mut SocketState> {
        self.sockets.get_mut(socket).filter(|state| state.attempt == attempt && state.stage == stage)
    }

    fn greeted(&mut self, socket: &str, attempt: u64, outcome: Result<PluginInfo, String>, now: Clocks) -> Vec<Action> {
        let taken = self.taken.clone();
        let Some(state) = self.current(socket, attempt, Stage::Asked) else { return vec![] };
        let info = match outcome {
            Ok(info) => info,
            Err(why) => {
                self.fail(socket, why, now);
                return vec![];
            }
        };
        let kind = info.kind.clone();
        let accepted = accept(socket, attempt, info).and_then(|plugin| match taken.contains(&plugin.kind) {
            true => Ok(plugin),
            false => Err(Refusal::NoHandler { kind, socket: socket.to_owned() }),
        });
        match accepted {
            Ok(plugin) => {
                let plugin = Arc::new(plugin);
                (state.stage, state.since) = (Stage::Judged, now.wall);
                (state.plugin, state.is_handed_over) = (Some(Arc::clone(&plugin)), true);
                vec![Action::HandOver(plugin)]
            }
            Err(refusal) => vec![tell(state, socket, Some(refusal), now)],
        }
    }

    fn judged(&mut self, socket: &str, attempt: u64, outcome: Result<(), Refusal>, now: Clocks) -> Vec<Action> {
        let Some(state) = self.current(socket, attempt, Stage::Judged) else { return vec![] };
        if outcome.is_err() {
            state.is_handed_over = false; // It was not taken.
        }
        vec![tell(state, socket, outcome.err(), now)]
    }

    fn notified(&mut self, socket: &str, attempt: u64, outcome: Result<(), String>, now: Clocks) -> Vec<Action> {
        let Some(state) = self.current(socket, attempt, Stage::Told) else { return vec![] };
        match (state.refusal.take(), outcome) {
            (None, Ok(())) => {
                (state.stage, state.since) = (Stage::Registered, now.wall);
                self.retries.reset(socket);
                vec![]
            }
            (None, Err(why)) => {
                let taken = std::mem::take(&mut state.is_handed_over);
                let back = state.plugin.clone().filter(|_| taken);
                let text = "RegisterPlugin error -- failed to send registration status at socket";
                back.iter().for_each(|plugin| self.free_name(plugin));
                self.fail(socket, format!("{text} {socket}, err: {why}"), now);
                back.into_iter().map(Action::TakeBack).collect()
            }
            (Some(refusal), _) => {
                self.fail(socket, refusal.to_string(), now);
                vec![]
            }
        }
    }

    /// A plugin has gone: others of its name, which may have been refused for it, are tried again at once.
    fn free_name(&mut self, gone: &Plugin) {
        let is_other = |plugin: &Plugin| (plugin.kind, &plugin.name) == (gone.kind, &gone.name);
        let failed = self.sockets.iter().filter(|(_, state)| state.stage == Stage::Failed);
        let others = failed.filter(|(_, state)| state.plugin.as_deref().is_some_and(is_other));
        others.for_each(|(socket, _)| self.retries.reset(socket));
    }

    fn fail(&mut self, socket: &str, why: String, now: Clocks) {
        self.retries.fail(socket, now.steady);
        if let Some(state) = self.sockets.get_mut(socket) {
            (state.stage, state.since) = (Stage::Failed, now.wall);
            state.last_error = Some(why);
        }
    }

    fn taker_lost(&mut self, kind: PluginKind, now: Clocks) -> Vec<Action> {
        let mut actions = vec![];
        for state in self.sockets.values_mut() {
            let handed = state.plugin.as_ref().filter(|plugin| state.is_handed_over && plugin.kind == kind);
            let Some(plugin) = handed else { continue };
            self.attempts += 1;
            let plugin = Arc::new(Plugin { attempt: self.attempts, ..(**plugin).clone() });
            (state.attempt, state.stage, state.since) = (self.attempts, Stage::Judged, now.wall);
            state.refusal = None;
            state.plugin = Some(Arc::clone(&plugin));
            actions.push(Action::HandOver(plugin));
        }
        actions
    }

    fn due(&mut self, now: Clocks) -> Vec<Action> {
        let failed = self.sockets.iter().filter(|(_, state)| state.stage == Stage::Failed);
        let due = failed.filter(|(socket, _)| self.retries.wait(socket, now.steady).is_none());
        let known = |state: &SocketState| (state.plugin.clone(), state.last_error.clone());
        let due: Vec<(String, SocketIdentity, Known)> =
            due.map(|(socket, state)| (socket.clone(), state.identity, known(state))).collect();
        due.into_iter().map(|(socket, identity, known)| self.greet(socket, identity, Some(known), now)).collect()
    }
}

/// Has the plugin told the verdict.
fn tell(state: &mut SocketState, socket: &str, refusal: Option<Refusal>, now: Clocks) -> Action {
    (state.stage, state.since) = (Stage::Told, now.wall);
    let text = refusal.as_ref().map(ToString::to_string);
    state.refusal = refusal;
    Action::Notify { socket: socket.to_owned(), attempt: state.attempt, refusal: text }
}

#[cfg(test)]
mod tests;
