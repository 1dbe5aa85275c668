//! `Desk`: what a role works with during its turns: whom it may tell, the time, and its operations.
//!
//! An operation is long work beside the mailbox. It ends as a message to its own actor, by a panic too; it is aborted
//! with its actor, and can be cancelled by a newer order. Timers are operations.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use ractor::{ActorCell, ActorId, ActorRef};
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::address::{Address, Envelope, TellError};
use super::ledger::{Cause, OpenOperation};
use super::role::{Role, Stage};
use crate::cri::open_calls::OpenCalls;
use crate::logic::time::{Moment, Stamp};
use crate::messages::Describe;
use crate::platform::clock::Clock;

/// An operation or timer of one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(u64);

/// An operation that ended by a panic; with what it said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation panicked: {0}")]
pub struct Panicked(pub String);

/// See the module. Dropping it, with the actor, aborts all that is under way.
pub struct Desk<M> {
    address: Address<M>,
    cell: ActorCell,
    turn: Option<Stamp>,
    operations: BTreeMap<u64, AbortHandle>,
    escalation: Option<String>,
}

impl<M> Drop for Desk<M> {
    fn drop(&mut self) {
        for operation in self.operations.values() {
            operation.abort();
        }
    }
}

impl<M: Describe + Send + 'static> Desk<M> {
    pub(super) fn new(address: Address<M>, cell: ActorCell) -> Self {
        Self { address, cell, turn: None, operations: BTreeMap::new(), escalation: None }
    }

    /// The actor's own address.
    pub fn address(&self) -> &Address<M> {
        &self.address
    }

    /// The agent's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.address.ledger().clock()
    }

    /// The wall clock.
    pub fn now(&self) -> Moment {
        self.clock().now()
    }

    /// This turn, as the cause of what it leads to.
    pub fn cause(&self) -> Cause {
        Cause { turn: self.turn, origin: "turn" }
    }

    /// Tells another actor. A refusal is counted and logged there; what is told here is told again by itself, or does
    /// not matter once it is old.
    pub fn tell<T: Describe + Send + 'static>(&self, whom: &Address<T>, message: T) {
        self.offer(whom, message);
    }

    /// Tells another actor what is told only once; says whether there was room. To one that is down, its parent has all
    /// repeated that it needs.
    pub fn offer<T: Describe + Send + 'static>(&self, whom: &Address<T>, message: T) -> bool {
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
        ended: impl FnOnce(Result<T, Panicked>) -> M + Send + 'static,
    ) -> OperationId {
        let calls = Arc::<OpenCalls>::default();
        let id = self.open(name, about.into(), Arc::clone(&calls));
        let (address, me) = (self.address.clone(), self.own_ref());
        let cause = Cause { turn: self.turn, origin: name };
        let span = tracing::info_span!(target: "podwright::turn", "operation", name);
        let task = async move {
            let work = AssertUnwindSafe(OpenCalls::of(calls, work));
            let outcome = work.catch_unwind().await.map_err(|panic| Panicked(panic_text(&*panic)));
            if let Err(panicked) = &outcome {
                tracing::error!(actor = %address.record().name, operation = name, error = %panicked, "operation failed");
            }
            address.tell_self(&me, cause, id.0, ended(outcome));
        };
        self.spawn(id, task.instrument(span));
        id
    }

    /// Tells the actor itself `message` after `delay`.
    pub fn after(&mut self, delay: Duration, message: M) -> OperationId {
        self.timer(delay, message, self.turn)
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
            address.tell_self(&me, cause, id.0, message);
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

    /// Starts a child, or its next incarnation. Its end comes to [`Role::child_ended`] with this ID.
    pub fn spawn_child<R: Role>(&mut self, address: &Address<R::Msg>, args: R::Args) -> ActorCell {
        Stage::<R>::enter(address, args, Some(self.cell.clone()))
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

    /// Whether the operation was still wanted.
    pub(super) fn operation_ended(&mut self, id: u64) -> bool {
        self.address.record().operation_ended(id);
        self.operations.remove(&id).is_some()
    }

    fn own_ref(&self) -> ActorRef<Envelope<M>> {
        self.cell.clone().into()
    }

    fn open(&mut self, name: &'static str, about: String, calls: Arc<OpenCalls>) -> OperationId {
        let id = self.take_id();
        let began = self.clock().uptime();
        self.address.record().operation_began(id, OpenOperation { name, about, began, calls });
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

/// The words of a panic.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without words".to_owned())
}
