//! `Address`: how actors reach each other. It outlives restarts, bounds the mailbox, and keeps the cause of each message.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use super::trace::{ActorRecord, Cause, Trace};
use crate::logic::model::time::Stamp;
use crate::messages::{Describe, Recipient, Subscriber};

/// Wait of an operation before it tries again to tell news that there was no room for.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TellError {
    /// As many messages wait as may; the sender will repeat the fact.
    #[error("mailbox full")]
    Full,
    /// Between two incarnations, or gone.
    #[error("actor down")]
    Down,
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The question was not taken.
    #[error(transparent)]
    Untold(#[from] TellError),
    /// The actor ended, or dropped the question.
    #[error("no answer")]
    Dropped,
    /// Too late.
    #[error("no answer in time")]
    Late,
}

/// A message on its way, with what the trace wants to know of it.
pub struct Envelope<M> {
    pub(super) message: M,
    pub(super) cause: Cause,
    pub(super) sent: Duration,
    pub(super) span: tracing::Span,
    /// The operation or timer that this comes from.
    pub(super) operation: Option<FromOperation>,
}

/// Marks a message that an operation or a timer sends to its own actor.
#[derive(Clone, Copy)]
pub(super) struct FromOperation {
    pub(super) id: u64,
    /// Whether it is its end.
    pub(super) is_last: bool,
}

struct Inner<M> {
    record: Arc<ActorRecord>,
    trace: Arc<Trace>,
    target: RwLock<Option<ActorRef<Envelope<M>>>>,
}

/// See the module. Cheap to copy; all copies are one.
pub struct Address<M> {
    inner: Arc<Inner<M>>,
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M> std::fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({})", self.inner.record.name)
    }
}

impl<M: Describe + Send + 'static> Address<M> {
    /// An address that nobody lives at yet. `capacity` bounds the messages that may wait, but for the actor's own.
    pub fn new(trace: &Arc<Trace>, name: &str, kind: &'static str, parent: &'static str, capacity: usize) -> Self {
        let record = trace.record(Arc::from(name), kind, parent, capacity);
        Self { inner: Arc::new(Inner { record, trace: Arc::clone(trace), target: RwLock::new(None) }) }
    }

    /// The actor's record.
    pub fn record(&self) -> &Arc<ActorRecord> {
        &self.inner.record
    }

    /// The trace that this address writes to.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.inner.trace
    }

    /// Sends; never waits.
    ///
    /// # Errors
    /// [`TellError`]: the message was dropped. Senders repeat state, so the sender may go on.
    pub fn tell(&self, cause: Cause, message: M) -> Result<(), TellError> {
        if self.is_full() {
            self.inner.trace.count_refusal(&self.inner.record);
            tracing::warn!(actor = %self.inner.record.name, message = message.name(), "mailbox full, message refused");
            return Err(TellError::Full);
        }
        let target = self.target().ok_or(TellError::Down)?;
        let sent = self.inner.trace.clock().uptime();
        let span = tracing::Span::current();
        self.deliver(&target, Envelope { message, cause, sent, span, operation: None })
    }

    /// Sends news that nobody repeats, for operations: waits until there is room. Without anybody here the news are lost.
    pub async fn tell_at_last(&self, cause: &Cause, message: impl Fn() -> M) {
        while self.tell(cause.clone(), message()) == Err(TellError::Full) {
            tokio::time::sleep(ROOM_WAIT).await;
        }
    }

    /// The handle by which messages carry this address.
    pub fn subscriber(&self) -> Subscriber<M> {
        Subscriber::new(self.clone())
    }

    /// Sends what the actor's own operation tells to the incarnation that began it; never refused for room, nor for an
    /// address that nobody has moved into yet.
    pub(super) fn tell_self(&self, me: &ActorRef<Envelope<M>>, cause: Cause, operation: FromOperation, message: M) {
        let envelope = Envelope {
            message,
            cause,
            sent: self.inner.trace.clock().uptime(),
            span: tracing::Span::current(),
            operation: Some(operation),
        };
        // Down means that the operation outlived its actor by an instant: nobody is left to care.
        let _ = self.deliver(me, envelope);
    }

    /// Asks and waits at most `limit`, for room too. For the server, the command line, operations and tests; never inside a
    /// turn.
    ///
    /// # Errors
    /// [`AskError`]: there is no answer.
    pub async fn ask<T: Send + 'static>(
        &self,
        cause: Cause,
        limit: Duration,
        question: impl FnOnce(RpcReplyPort<T>) -> M,
    ) -> Result<T, AskError> {
        let asking = async {
            // Another thread may take the room in between: then the question is refused after all.
            while self.is_full() {
                tokio::time::sleep(ROOM_WAIT).await;
            }
            let (reply, answer) = ractor::concurrency::oneshot();
            self.tell(cause, question(RpcReplyPort::from(reply)))?;
            answer.await.map_err(|_| AskError::Dropped)
        };
        tokio::time::timeout(limit, asking).await.unwrap_or(Err(AskError::Late))
    }

    fn is_full(&self) -> bool {
        self.inner.record.depth() >= self.inner.record.capacity
    }

    /// Whether somebody lives here now.
    pub fn is_up(&self) -> bool {
        self.target().is_some()
    }

    /// Has an incarnation begin here. A message to it waits until it lives here, also an answer to its own first words.
    pub(super) fn move_in(&self, begin: impl FnOnce() -> ActorRef<Envelope<M>>) -> ActorRef<Envelope<M>> {
        let mut target = self.inner.target.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.inner.record.came_up();
        let who = begin();
        *target = Some(who.clone());
        who
    }

    pub(super) fn move_out(&self) {
        *self.inner.target.write().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    fn target(&self) -> Option<ActorRef<Envelope<M>>> {
        self.inner.target.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn deliver(&self, target: &ActorRef<Envelope<M>>, envelope: Envelope<M>) -> Result<(), TellError> {
        self.inner.record.enter();
        target.send_message(envelope).map_err(|_| {
            self.inner.record.leave();
            TellError::Down
        })
    }
}

impl<M: Describe + Send + 'static> Recipient<M> for Address<M> {
    fn tell_from(&self, turn: Option<Stamp>, message: M) -> bool {
        let name = message.name();
        let told = self.tell(Cause { turn, origin: "turn" }, message);
        if told == Err(TellError::Down) {
            tracing::debug!(to = %self.inner.record.name, message = name, "actor down, message dropped");
        }
        told != Err(TellError::Full)
    }
}
