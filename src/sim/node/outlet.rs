//! How one incarnation of the agent reaches the node: every call passes here, takes its time, meets its fate.
//!
//! When the incarnation is killed, its calls stand still for ever and its files are no longer written: a killed process
//! does nothing more. The effect of a call already under way in the runtime is then the runtime's affair.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::Node;
use crate::actors::kit::trace::lock;
use crate::cri::open_calls::OpenCalls;
use crate::cri::{CriError, CriResult};
use crate::sim::faults::random::Random;
use crate::sim::faults::{Fate, Fault};

/// The deadline of most calls (CRI-02).
pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// Whether the agent's process lives.
#[derive(Debug, Default)]
pub struct Life {
    dead: AtomicBool,
    died: Notify,
}

impl Life {
    /// Ends it.
    pub fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Its end.
    pub async fn over(&self) {
        self.died.notified().await;
    }
}

/// How a call behaves.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The CRI method.
    pub method: &'static str,
    /// How long it works before its effect, beside its latency.
    pub work: Duration,
    /// Its deadline.
    pub limit: Option<Duration>,
    /// Whether it changes anything.
    pub changes: bool,
}

impl Call {
    /// One that changes the runtime's state.
    pub fn changing(method: &'static str) -> Self {
        Self { method, work: Duration::ZERO, limit: Some(LIMIT), changes: true }
    }
}

/// See the module.
#[derive(Clone)]
pub struct Outlet {
    node: Arc<Node>,
    life: Arc<Life>,
    pub(in crate::sim) random: Arc<Random>,
}

impl Outlet {
    /// Whether the incarnation lives.
    pub(super) fn life(&self) -> &Arc<Life> {
        &self.life
    }

    /// An outlet for a new incarnation.
    pub fn new(node: Arc<Node>, life: Arc<Life>, seed: u64) -> Self {
        Self { node, life, random: Arc::new(Random::named(seed, "agent")) }
    }

    /// The node.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Whether the agent still lives.
    pub fn is_alive(&self) -> bool {
        !self.life.is_over()
    }

    /// One step towards the outside: where the agent may be killed.
    async fn step(&self, number: u64, after: bool) {
        if *lock(&self.node.kill_at) == Some((number, after)) {
            let when = if after { "after" } else { "before" };
            self.node.story.tell("fault", format!("the agent is killed {when} its call {number}"));
            self.life.end();
        }
        self.stand_still_if_dead().await;
    }

    async fn stand_still_if_dead(&self) {
        if self.life.is_over() {
            std::future::pending::<()>().await;
        }
    }

    /// Begins a call that is not one to the runtime: counted like those, a place to be killed at. Gives its number.
    pub(in crate::sim) async fn begin_call(&self) -> u64 {
        let number = self.node.calls.fetch_add(1, Ordering::Relaxed);
        self.step(number, false).await;
        number
    }

    /// Such a call took effect.
    pub(in crate::sim) async fn end_call(&self, number: u64) {
        self.step(number, true).await;
    }

    /// Time passes on such a call.
    pub(in crate::sim) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.stand_still_if_dead().await;
    }

    /// A call about a container of this pod: one that is stuck has it never answered.
    pub(super) async fn wait_if_stuck(&self, method: &'static str, pod: Option<String>) -> CriResult<()> {
        let is_stuck = pod.is_some() && *lock(&self.node.stuck) == pod;
        if is_stuck {
            let _open = OpenCalls::enter(method);
            self.node.story.tell("fault", format!("{method} hangs"));
            self.pass(LIMIT).await;
            return Err(CriError::Deadline { call: method, limit: LIMIT });
        }
        Ok(())
    }

    /// A call that only asks.
    pub async fn ask<T>(
        &self,
        method: &'static str,
        answer: impl FnOnce(&Node) -> CriResult<T> + Send + 'static,
    ) -> CriResult<T> {
        self.call(Call { changes: false, ..Call::changing(method) }, answer).await
    }

    /// A call to the runtime.
    pub async fn call<T>(
        &self,
        call: Call,
        effect: impl FnOnce(&Node) -> CriResult<T> + Send + 'static,
    ) -> CriResult<T> {
        let node = &self.node;
        let _open = OpenCalls::enter(call.method);
        let number = node.calls.fetch_add(1, Ordering::Relaxed);
        self.step(number, false).await;
        if *lock(&node.hung) == Some(call.method) {
            let limit = call.limit.unwrap_or(LIMIT);
            node.story.tell("fault", format!("{} hangs", call.method));
            self.pass(limit).await;
            return Err(CriError::Deadline { call: call.method, limit });
        }
        let epoch = node.runtime_epoch.load(Ordering::Relaxed);
        let fate = if node.fails_now(call.method) { Fate::AnswerLost } else { node.faults.fate() };
        // Drawn now, because calls that end together, as when the agent is killed, end in no order.
        let late = call.changes && node.faults.strikes(Fault::LateEffects, 0.5);
        let late = late.then(|| node.faults.dice().between(Duration::from_millis(1), Duration::from_secs(3)));
        let mut effect = Effect { node, number, method: call.method, late, effect: Some(effect) };
        let way = node.faults.latency();
        self.wait(epoch, way + call.work).await?;
        let outcome = match fate {
            Fate::Well | Fate::AnswerLost => effect.take_place(),
            Fate::Refused => {
                effect.forgo();
                Err(self.trouble(call.method, "refused"))
            }
            Fate::Hangs { effect: true } => effect.take_place(),
            Fate::Hangs { effect: false } => {
                effect.forgo();
                Err(self.trouble(call.method, "hangs"))
            }
        };
        self.step(number, true).await;
        if let Fate::Hangs { .. } = fate {
            let limit = call.limit.unwrap_or(LIMIT);
            node.story.tell("fault", format!("{} hangs", call.method));
            self.wait(epoch, limit).await?;
            return Err(CriError::Deadline { call: call.method, limit });
        }
        self.wait(epoch, node.faults.latency()).await?;
        match (fate, outcome) {
            (Fate::AnswerLost, Ok(_)) => Err(self.trouble(call.method, "has its answer lost")),
            (_, outcome) => outcome,
        }
    }

    /// Time passes; breaks off when the runtime goes down meanwhile.
    pub(in crate::sim) async fn wait(&self, epoch: u64, time: Duration) -> CriResult<()> {
        self.check_runtime(epoch)?;
        tokio::time::sleep(time).await;
        self.stand_still_if_dead().await;
        self.check_runtime(epoch)
    }

    fn check_runtime(&self, epoch: u64) -> CriResult<()> {
        let up = self.node.runtime_up.load(Ordering::Relaxed);
        if up && self.node.runtime_epoch.load(Ordering::Relaxed) == epoch {
            return Ok(());
        }
        Err(CriError::Unavailable { message: "connection error: desc = \"transport: error while dialing\"".to_owned() })
    }

    fn trouble(&self, method: &'static str, how: &str) -> CriError {
        self.node.story.tell("fault", format!("{method} {how}"));
        CriError::Other { code: "Unknown", message: format!("{method}: something went wrong in the runtime") }
    }

    /// Begins a step at a file: the time until its effect has passed. Never comes back when the agent is dead.
    pub(super) async fn begin_file(&self) -> &Node {
        self.pass(self.node.faults.file_latency()).await;
        let Some(node) = self.touch() else { return std::future::pending().await };
        node
    }

    /// Ends such a step: the time from its effect until the agent learns of it.
    pub(super) async fn end_file(&self) {
        self.pass(self.node.faults.file_latency()).await;
    }

    /// A step at a cgroup: in place, without time. `None` when the agent is dead.
    pub(super) fn touch(&self) -> Option<&Node> {
        let number = self.node.calls.fetch_add(1, Ordering::Relaxed);
        let kill = *lock(&self.node.kill_at);
        if kill.is_some_and(|(at, after)| at == number && !after) {
            self.node.story.tell("fault", format!("the agent is killed before its call {number}"));
            self.life.end();
        }
        let alive = self.is_alive();
        if kill == Some((number, true)) {
            self.node.story.tell("fault", format!("the agent is killed after its call {number}"));
            self.life.end();
        }
        alive.then_some(&*self.node)
    }
}

/// A call's effect. Where the caller leaves before it took place, it may take place all the same.
struct Effect<'a, T, F: FnOnce(&Node) -> CriResult<T> + Send + 'static> {
    node: &'a Arc<Node>,
    number: u64,
    method: &'static str,
    late: Option<Duration>,
    effect: Option<F>,
}

impl<T, F: FnOnce(&Node) -> CriResult<T> + Send + 'static> Effect<'_, T, F> {
    fn take_place(&mut self) -> CriResult<T> {
        let effect = self.effect.take().expect("an effect takes place once");
        effect(self.node)
    }

    fn forgo(&mut self) {
        self.effect = None;
    }
}

impl<T, F: FnOnce(&Node) -> CriResult<T> + Send + 'static> Drop for Effect<'_, T, F> {
    fn drop(&mut self) {
        if let (Some(effect), Some(delay)) = (self.effect.take(), self.late) {
            let method = self.method;
            self.node.left_behind(self.number, delay, move |node| {
                node.story.tell("fault", format!("{method} takes effect although its caller left"));
                let _ = effect(node); // Nobody is left to hear it.
            });
        }
    }
}
