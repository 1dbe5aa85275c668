//! How one incarnation of the agent reaches drivers: every call takes its time and meets its fate.
//!
//! A driver goes on with a call whose caller left, and refuses others about the same thing until it is done with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Fate, Plugins};
use crate::actors::kit::trace::lock;
use crate::logic::plugins::call_error::{CallError, CallProblem, Code};
use crate::platform::plugins::OpenCall;
use crate::platform::volumes::csi::DeviceHolds;
use crate::sim::faults::Fault;
use crate::sim::node::Node;
use crate::sim::node::outlet::Outlet;

/// From one look whether a thing is free to the next.
const BUSY_WAIT: Duration = Duration::from_millis(50);

/// See the module. Copies are one.
#[derive(Clone)]
pub struct PluginOutlet {
    /// The way of the agent to the node.
    pub outlet: Outlet,
    /// Volumes of the node as a whole, each held by one at a time.
    pub(super) holds: DeviceHolds,
    open: Arc<Mutex<BTreeMap<u64, (String, OpenCall)>>>,
}

/// A call to a driver.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The endpoint.
    pub at: String,
    /// The method.
    pub method: &'static str,
    /// The volume, the devices or the claims.
    pub about: String,
    /// The deadline.
    pub limit: Duration,
    /// The thing about which one call goes on at a time; `None` of a call that changes nothing.
    pub thing: Option<String>,
    /// Whether the driver lets another call about it wait; else it refuses the call.
    pub waits: bool,
}

impl Call {
    /// One that changes nothing.
    pub fn asking(at: &str, method: &'static str, limit: Duration) -> Self {
        Self { at: at.to_owned(), method, about: String::new(), limit, thing: None, waits: false }
    }
}

/// A call that is open; it is not any more once this is gone.
struct Open<'a>(&'a PluginOutlet, u64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.0.open).remove(&self.1);
    }
}

impl PluginOutlet {
    /// Of this incarnation.
    pub fn new(outlet: &Outlet) -> Self {
        Self { outlet: outlet.clone(), holds: DeviceHolds::default(), open: Arc::default() }
    }

    /// The drivers.
    pub(super) fn plugins(&self) -> &Plugins {
        &self.outlet.node().plugins
    }

    /// Calls that are open, by endpoint.
    pub(super) fn open(&self) -> Vec<(String, OpenCall)> {
        lock(&self.open).values().cloned().collect()
    }

    /// Waits until the process that runs there now is gone.
    pub(super) async fn ended(&self, at: &str) {
        let Some(life) = self.plugins().life(at) else { return };
        let _ = self.pass(at, life, Duration::MAX).await; // Its end is the only one.
    }

    /// Takes hold of the thing that a call is about.
    async fn occupy(&self, call: &Call, life: u64) -> Result<(), CallProblem> {
        let mut waited = Duration::ZERO;
        while call.thing.as_ref().is_some_and(|thing| !self.plugins().occupy(thing)) {
            self.pass(&call.at, life, BUSY_WAIT).await?;
            waited += BUSY_WAIT;
            if !call.waits {
                let message = format!("an operation with the given {} is in progress", call.about);
                return Err(CallProblem::Status { code: Code::Aborted, message });
            }
            if waited > call.limit {
                return Err(CallProblem::Deadline(call.limit));
            }
        }
        Ok(())
    }

    /// Waits for a time, or until the process is another one.
    async fn pass(&self, at: &str, life: u64, time: Duration) -> Result<(), CallProblem> {
        let mut changes = self.plugins().changes();
        let broken = async {
            while self.plugins().life(at) == Some(life) {
                changes.changed().await;
            }
        };
        tokio::select! {
            biased;
            () = self.outlet.pass(time) => Ok(()),
            () = broken => {
                self.outlet.pass(Duration::ZERO).await;
                Err(CallProblem::Unreachable("error reading from server: EOF".to_owned()))
            }
        }
    }

    /// A call to a driver.
    pub(super) async fn call<T>(
        &self,
        call: Call,
        effect: impl FnOnce(&Node) -> Result<T, (Code, String)> + Send + 'static,
    ) -> Result<T, CallError> {
        let number = self.outlet.begin_call().await;
        let since = self.outlet.node().time.now();
        let about = call.about.clone();
        lock(&self.open).insert(number, (call.at.clone(), OpenCall { method: call.method, about, since }));
        let _open = Open(self, number);
        let method = call.method;
        self.made(number, call, effect).await.map_err(|problem| CallError { method, problem })
    }

    async fn made<T>(
        &self,
        call_number: u64,
        call: Call,
        effect: impl FnOnce(&Node) -> Result<T, (Code, String)> + Send + 'static,
    ) -> Result<T, CallProblem> {
        let (node, plugins) = (self.outlet.node(), self.plugins());
        let Some(life) = plugins.life(&call.at) else {
            self.outlet.pass(Duration::from_millis(1)).await;
            return Err(CallProblem::Unreachable("connect: connection refused".to_owned()));
        };
        let fate = plugins.fate(node, call.method);
        self.occupy(&call, life).await?;
        let late = call.thing.is_some() && node.faults.has(Fault::LateEffects) && plugins.random.chance(0.5);
        let late = late.then(|| plugins.random.between(Duration::from_millis(1), Duration::from_secs(3)));
        let mut effect = Effect { node, number: call_number, call: call.clone(), life, late, effect: Some(effect) };
        self.pass(&call.at, life, plugins.latency(node)).await.inspect_err(|_| effect.forgo())?;
        let has_effect = match fate {
            Fate::Well | Fate::AnswerLost => true,
            Fate::Fails { effect, .. } | Fate::Hangs { effect } => effect,
        };
        let outcome = if has_effect { Some(effect.take_place()) } else { None };
        effect.forgo();
        if fate != Fate::Well {
            node.story.tell("fault", format!("{} about {:?}: {fate:?}", call.method, call.about));
        }
        self.outlet.end_call(call_number).await;
        let failed = |code: Code, message: String| Err(CallProblem::Status { code, message });
        match fate {
            Fate::Fails { code, .. } => {
                self.pass(&call.at, life, plugins.latency(node)).await?;
                failed(code, "something went wrong in the driver".to_owned())
            }
            Fate::AnswerLost => Err(CallProblem::Unreachable("error reading from server: EOF".to_owned())),
            Fate::Hangs { .. } => {
                self.pass(&call.at, life, call.limit).await?;
                Err(CallProblem::Deadline(call.limit))
            }
            Fate::Well => {
                self.pass(&call.at, life, plugins.latency(node)).await?;
                let outcome = outcome.expect("it took place");
                outcome.or_else(|(code, message)| failed(code, message))
            }
        }
    }
}

/// A call's effect. Where the caller leaves before it took place, it may take place all the same.
struct Effect<'a, T, F: FnOnce(&Node) -> Result<T, (Code, String)> + Send + 'static> {
    node: &'a Arc<Node>,
    number: u64,
    call: Call,
    life: u64,
    late: Option<Duration>,
    effect: Option<F>,
}

impl<T, F: FnOnce(&Node) -> Result<T, (Code, String)> + Send + 'static> Effect<'_, T, F> {
    fn take_place(&mut self) -> Result<T, (Code, String)> {
        let effect = self.effect.take().expect("an effect takes place once");
        let outcome = effect(self.node);
        self.node.changed();
        self.call.thing.iter().for_each(|thing| self.node.plugins.leave(thing));
        outcome
    }

    fn forgo(&mut self) {
        if self.effect.take().is_some() {
            self.call.thing.iter().for_each(|thing| self.node.plugins.leave(thing));
        }
    }
}

impl<T, F: FnOnce(&Node) -> Result<T, (Code, String)> + Send + 'static> Drop for Effect<'_, T, F> {
    fn drop(&mut self) {
        let Some(effect) = self.effect.take() else { return };
        let Some(delay) = self.late else {
            return self.call.thing.iter().for_each(|thing| self.node.plugins.leave(thing));
        };
        let (call, life) = (self.call.clone(), self.life);
        self.node.left_behind(self.number, delay, move |node| {
            call.thing.iter().for_each(|thing| node.plugins.leave(thing));
            if node.plugins.life(&call.at) == Some(life) {
                let Call { method, about, .. } = &call;
                node.story.tell("fault", format!("{method} about {about:?} takes effect although its caller left"));
                let _ = effect(node); // Nobody is left to hear it.
                node.changed();
            }
        });
    }
}
