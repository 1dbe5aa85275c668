//! `Context`: what an actor works with during its turns: whom it may tell, the time, and its operations.
//!
//! An operation is long work beside the mailbox. It ends as a message to its own actor, by a panic too; it is aborted
//! with its actor, and can be cancelled by a newer order. Timers are operations.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{AbortHandle as PartHandle, abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use litemap::LiteMap;
use ractor::{ActorCell, ActorId, ActorRef};
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::actor::{Actor, spawn};
use super::address::{Address, Envelope, FromOperation, TellError};
use super::deadline::Deadline;
use super::trace::{Cause, OpenOperation};
use crate::cri::open_calls::OpenCalls;
use crate::logic::model::time::{Clocks, Moment, Stamp, Steady};
use crate::messages::{Describe, Lost, Subscriber};
use crate::platform::host::clock::Clock;

/// An operation or timer of one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(u64);

/// One part of an operation that has many.
#[derive(Clone, Debug)]
pub struct Part(PartHandle);

impl Part {
    /// Ends the part early: news of it that come later were under way already. Does nothing if it has ended.
    pub fn cancel(&self) {
        self.0.abort();
    }
}

/// See the module. Dropping it, with the actor, aborts all that is under way.
pub struct Context<M> {
    address: Address<M>,
    cell: ActorCell,
    turn: Option<Stamp>,
    operations: LiteMap<u64, AbortHandle>,
    escalation: Option<String>,
}

impl<M> Drop for Context<M> {
    fn drop(&mut self) {
        for operation in self.operations.values() {
            operation.abort();
        }
    }
}

impl<M: Describe + Send + 'static> Context<M> {
    pub(super) fn new(address: Address<M>, cell: ActorCell) -> Self {
        Self { address, cell, turn: None, operations: LiteMap::new(), escalation: None }
    }

    /// The actor's own address.
    pub fn address(&self) -> &Address<M> {
        &self.address
    }

    /// The agent's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.address.trace().clock()
    }

    /// The wall clock.
    pub fn now(&self) -> Moment {
        self.clock().now()
    }

    /// The agent's own clock, which waits are measured on.
    pub fn steady(&self) -> Steady {
        Steady::at(self.clock().uptime())
    }

    /// Both.
    pub fn clocks(&self) -> Clocks {
        Clocks { wall: self.now(), steady: self.steady() }
    }

    /// This turn, as the cause of what it leads to.
    pub fn cause(&self) -> Cause {
        Cause { turn: self.turn, origin: "turn" }
    }

    /// Tells another actor. A refusal is counted and logged there; what is told here is told again by itself, or does
    /// not matter once it is old.
    pub fn tell<T: Describe + Send + 'static>(&self, whom: &Address<T>, message: T) {
        self.try_tell(whom, message);
    }

    /// Tells an actor that subscribed, as [`Context::tell`] does.
    pub fn tell_subscriber<T>(&self, whom: &Subscriber<T>, message: T) {
        self.try_tell_subscriber(whom, message);
    }

    /// Tells an actor that subscribed something that nobody repeats; says whether there was room.
    pub fn try_tell_subscriber<T>(&self, whom: &Subscriber<T>, message: T) -> bool {
        whom.tell_from(self.turn, message)
    }

    /// Tells another actor something that nobody repeats; says whether there was room. To one that is down, its parent has
    /// all repeated that it needs.
    pub fn try_tell<T: Describe + Send + 'static>(&self, whom: &Address<T>, message: T) -> bool {
        let name = message.name();
        let told = whom.tell(self.cause(), message);
        if told == Err(TellError::Down) {
            tracing::debug!(to = %whom.record().name, message = name, "actor down, message dropped");
        }
        told != Err(TellError::Full)
    }

    /// Starts long work, named for people; `about` says on what. Its end comes back as the message that `ended` makes.
    pub fn start<T: Send + 'static>(
        &mut self,
        name: &'static str,
        about: impl Into<String>,
        work: impl Future<Output = T> + Send + 'static,
        ended: impl FnOnce(Result<T, Lost>) -> M + Send + 'static,
    ) -> OperationId {
        self.start_by(Deadline::of(name), (name, about.into()), work, ended)
    }

    /// The same with a deadline that the name alone does not tell.
    pub fn start_by<T: Send + 'static>(
        &mut self,
        deadline: Deadline,
        (name, about): (&'static str, String),
        work: impl Future<Output = T> + Send + 'static,
        ended: impl FnOnce(Result<T, Lost>) -> M + Send + 'static,
    ) -> OperationId {
        let calls = Arc::<OpenCalls>::default();
        let id = self.open(name, about, deadline, Arc::clone(&calls));
        let (address, me) = (self.address.clone(), self.own_ref());
        let cause = Cause { turn: self.turn, origin: name };
        let span = tracing::info_span!(target: "podwright::turn", "operation", name);
        let task = async move {
            let outcome = caught(&address, name, deadline, OpenCalls::of(calls, work)).await;
            address.tell_self(&me, cause, FromOperation { id: id.0, is_last: true }, ended(outcome));
        };
        self.spawn(id, task.instrument(span));
        id
    }

    /// Starts works that belong together, as one operation that calls no runtime. The ends that come together are one
    /// message: a turn for each would cost more than many a work itself. A panic ends its own part alone.
    pub fn start_each<K: Send + 'static, T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &mut self,
        name: &'static str,
        about: impl Into<String>,
        works: Vec<(K, F)>,
        ended: impl Fn(Vec<(K, Result<T, Lost>)>) -> M + Send + 'static,
    ) -> Vec<Part> {
        let deadline = Deadline::of(name);
        let id = self.open(name, about.into(), deadline, Arc::default());
        let (address, me) = (self.address.clone(), self.own_ref());
        let cause = Cause { turn: self.turn, origin: name };
        let span = tracing::info_span!(target: "podwright::turn", "operation", name);
        let (mut parts, mut under_way) = (Vec::with_capacity(works.len()), FuturesUnordered::new());
        for (key, work) in works {
            let address = address.clone();
            let (work, part) = abortable(async move { (key, caught(&address, name, deadline, work).await) });
            parts.push(Part(part));
            under_way.push(work);
        }
        let task = async move {
            loop {
                let mut outcomes: Vec<_> = under_way.next().await.into_iter().collect();
                while let Some(Some(outcome)) = under_way.next().now_or_never() {
                    outcomes.push(outcome);
                }
                let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
                let is_last = under_way.is_empty();
                if is_last || !outcomes.is_empty() {
                    address.tell_self(&me, cause.clone(), FromOperation { id: id.0, is_last }, ended(outcomes));
                }
                if is_last {
                    return;
                }
            }
        };
        self.spawn(id, task.instrument(span));
        parts
    }

    /// Tells the actor itself `message` after `delay`.
    pub fn after(&mut self, delay: Duration, message: M) -> OperationId {
        self.timer(delay, message, self.turn)
    }

    /// The wait before a pass that mends what news have missed; see [`Context::repair_after`].
    pub fn until_repair(&self, period: Duration) -> Duration {
        self.address.trace().until_repair(period)
    }

    /// The same, for the next pass that mends what news have missed. Where nothing fails there is nothing to mend: the
    /// simulator puts such passes off, to see that no change waits for one.
    pub fn repair_after(&mut self, period: Duration, message: M) -> OperationId {
        self.timer(self.until_repair(period), message, self.turn)
    }

    /// The same, for a timer that serves many: whose turn happened to set it is no cause of what it leads to.
    pub fn alarm(&mut self, delay: Duration, message: M) -> OperationId {
        self.timer(delay, message, None)
    }

    fn timer(&mut self, delay: Duration, message: M, turn: Option<Stamp>) -> OperationId {
        let id = OperationId(self.take_id());
        let (address, me) = (self.address.clone(), self.own_ref());
        let cause = Cause { turn, origin: "timer" };
        self.spawn(id, async move {
            tokio::time::sleep(delay).await;
            address.tell_self(&me, cause, FromOperation { id: id.0, is_last: true }, message);
        });
        id
    }

    /// Ends an operation or timer early; its message will not come. Does nothing if it has ended.
    pub fn cancel(&mut self, id: OperationId) {
        if let Some(operation) = self.operations.remove(&id.0) {
            operation.abort();
            self.address.record().operation_ended(id.0);
        }
    }

    /// Starts a child, or its next incarnation. Its end comes to [`Actor::child_ended`] with this ID.
    pub fn spawn_child<R: Actor>(&mut self, address: &Address<R::Msg>, args: R::Args) -> ActorCell {
        spawn::<R>(address, args, Some(self.cell.clone()))
    }

    /// Marks a child's address as empty, until its next incarnation.
    pub fn child_left<T: Describe + Send + 'static>(&self, address: &Address<T>, why: Option<String>) {
        address.move_out();
        if let Some(why) = why {
            address.record().failed(why);
        }
    }

    /// Gives up: the actor ends as failed, and its parent decides.
    pub fn escalate(&mut self, why: String) {
        self.escalation = Some(why);
    }

    /// The actor's own ID.
    pub fn id(&self) -> ActorId {
        self.cell.get_id()
    }

    /// Stops this actor after the turn.
    pub fn stop(&self) {
        self.cell.stop(None);
    }

    pub(super) fn take_escalation(&mut self) -> Option<String> {
        self.escalation.take()
    }

    pub(super) fn set_turn(&mut self, turn: Stamp) {
        self.turn = Some(turn);
    }

    /// Takes note of what an operation tells; whether it was still wanted.
    pub(super) fn operation_told(&mut self, operation: FromOperation) -> bool {
        if !operation.is_last {
            return self.operations.contains_key(&operation.id);
        }
        self.address.record().operation_ended(operation.id);
        self.operations.remove(&operation.id).is_some()
    }

    fn own_ref(&self) -> ActorRef<Envelope<M>> {
        self.cell.clone().into()
    }

    fn open(&mut self, name: &'static str, about: String, deadline: Deadline, calls: Arc<OpenCalls>) -> OperationId {
        let id = self.take_id();
        let began = self.clock().uptime();
        let late_after = deadline.late_after();
        self.address.record().operation_began(id, OpenOperation { name, about, began, late_after, calls });
        OperationId(id)
    }

    fn take_id(&self) -> u64 {
        // A stamp, not a count: no operation of an earlier incarnation can be taken for one of this.
        self.clock().stamp().0
    }

    #[expect(clippy::disallowed_methods, reason = "this is what Operations are made of: tracked, aborted, caught")]
    fn spawn(&mut self, id: OperationId, task: impl Future<Output = ()> + Send + 'static) {
        self.operations.insert(id.0, tokio::spawn(task).abort_handle());
    }
}

/// Waits for work; its loss is an outcome, too.
async fn caught<M: Describe + Send + 'static, T>(
    address: &Address<M>,
    name: &'static str,
    deadline: Deadline,
    work: impl Future<Output = T>,
) -> Result<T, Lost> {
    let caught = AssertUnwindSafe(deadline.bound(work)).catch_unwind().await;
    let outcome = caught.unwrap_or_else(|panic| Err(Lost::Panicked(panic_text(&*panic))));
    if let Err(loss) = &outcome {
        if matches!(loss, Lost::GivenUp(_)) {
            address.trace().count_given_up(address.record().kind);
        }
        tracing::error!(actor = %address.record().name, operation = name, error = %loss, "operation failed");
    }
    outcome
}

/// The words of a panic.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without words".to_owned())
}

#[cfg(test)]
mod tests;
