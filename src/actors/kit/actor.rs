//! `Actor`: what an actor is here, and how one is spawned.
//!
//! A turn is a plain function: it takes one message, changes the actor's own state, tells others and starts work. It
//! cannot wait, so no actor can be held up by another, by the runtime or by a disk. Everything slow is an operation
//! (see `context`) whose end is a message.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ractor::{ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::address::{Address, Envelope};
use super::context::Context;
use super::trace::{Ending, Turn};
use crate::messages::Describe;

/// How a child ended.
#[derive(Debug)]
pub enum ChildEnd {
    /// It stopped on an order.
    Stopped,
    /// It panicked, or gave up; with what it said.
    Failed(String),
}

/// An actor's state and behaviour.
pub trait Actor: Sized + Send + 'static {
    /// The kind's name, as the tree shows it.
    const KIND: &'static str;
    /// The messages that the actor understands.
    type Msg: Describe + Send + 'static;
    /// All that a new incarnation needs.
    type Args: Send + 'static;

    /// A new incarnation. May tell others and start work.
    fn begin(args: Self::Args, context: &mut Context<Self::Msg>) -> Self;

    /// One turn.
    fn receive(&mut self, message: Self::Msg, context: &mut Context<Self::Msg>);

    /// A child ended. Only for actors with children.
    fn child_ended(&mut self, child: ActorId, end: ChildEnd, context: &mut Context<Self::Msg>) {
        let _ = (child, end, context);
    }
}

/// The ractor side of an [`Actor`]: opens envelopes, writes the trace, hands on the ends of children.
struct Runner<A>(std::marker::PhantomData<fn() -> A>);

/// The address and the arguments that a new incarnation starts with.
struct Beginning<A: Actor> {
    address: Address<A::Msg>,
    args: A::Args,
}

/// The actor between its turns. Empty until `post_start`, where a panic already counts as the actor's failure.
struct Incarnation<A: Actor> {
    context: Context<A::Msg>,
    args: Option<A::Args>,
    actor: Option<A>,
}

/// Starts an incarnation below `parent`, at once; messages may be sent before it has begun.
pub(in crate::actors) fn spawn<A: Actor>(
    address: &Address<A::Msg>,
    args: A::Args,
    parent: Option<ActorCell>,
) -> ActorCell {
    let beginning = Beginning { address: address.clone(), args };
    let runner = Runner::<A>(std::marker::PhantomData);
    let actor = address.move_in(|| {
        // Without a name there is nothing to refuse: the registry is not asked.
        let (actor, _started) = match parent {
            Some(parent) => ractor::ActorRuntime::spawn_linked_instant(None, runner, beginning, parent),
            None => ractor::ActorRuntime::spawn_instant(None, runner, beginning),
        }
        .expect("an actor without a name cannot be refused");
        actor
    });
    actor.get_cell()
}

impl<A: Actor> ractor::Actor for Runner<A> {
    type Msg = Envelope<A::Msg>;
    type State = Incarnation<A>;
    type Arguments = Beginning<A>;

    async fn pre_start(
        &self,
        me: ActorRef<Self::Msg>,
        beginning: Beginning<A>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Incarnation {
            context: Context::new(beginning.address, me.get_cell()),
            args: Some(beginning.args),
            actor: None,
        })
    }

    async fn post_start(
        &self,
        _: ActorRef<Self::Msg>,
        incarnation: &mut Incarnation<A>,
    ) -> Result<(), ActorProcessingErr> {
        let args = incarnation.args.take().expect("an incarnation begins once");
        incarnation.actor = Some(A::begin(args, &mut incarnation.context));
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        incarnation: &mut Incarnation<A>,
    ) -> Result<(), ActorProcessingErr> {
        incarnation.take_turn(envelope);
        incarnation.context.take_escalation().map_or(Ok(()), |why| Err(why.into()))
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        incarnation: &mut Incarnation<A>,
    ) -> Result<(), ActorProcessingErr> {
        let actor = incarnation.actor.as_mut().expect("begun before its children");
        match event {
            SupervisionEvent::ActorFailed(who, error) => {
                actor.child_ended(who.get_id(), ChildEnd::Failed(error.to_string()), &mut incarnation.context);
            }
            SupervisionEvent::ActorTerminated(who, _, _) => {
                actor.child_ended(who.get_id(), ChildEnd::Stopped, &mut incarnation.context);
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        incarnation.context.take_escalation().map_or(Ok(()), |why| Err(why.into()))
    }
}

impl<A: Actor> Incarnation<A> {
    fn take_turn(&mut self, envelope: Envelope<A::Msg>) {
        let Envelope { message, cause, sent, span, operation } = envelope;
        let record = self.context.address().record().clone();
        let trace = self.context.address().trace().clone();
        record.leave();
        if let Some(operation) = operation
            && !self.context.operation_told(operation)
        {
            return; // Cancelled after it had already ended: its order no longer stands.
        }
        let began = trace.clock().uptime();
        let turn = Turn {
            id: trace.clock().stamp(),
            actor: record.name.clone(),
            message: message.name(),
            pod: message.pod().cloned(),
            cause,
            began_at: trace.clock().now(),
            began,
            waited: began.saturating_sub(sent),
            took: std::time::Duration::ZERO,
            ending: Ending::Open,
        };
        self.context.set_turn(turn.id);
        let turn_span = tracing::info_span!(
            target: "podwright::turn", parent: None, "turn",
            actor = %turn.actor, message = turn.message, turn = turn.id.0, cause = turn.cause.origin,
            pod = turn.pod.as_ref().map(|pod| pod.as_str())
        );
        turn_span.follows_from(span.id());
        trace.begin(&record, turn);
        let actor = self.actor.as_mut().expect("begun before its first message");
        let context = &mut self.context;
        let ended = turn_span.in_scope(|| {
            catch_unwind(AssertUnwindSafe(|| {
                assert!(!trace.strikes_before(&record), "made to fail before the message");
                actor.receive(message, context);
            }))
        });
        match ended {
            Ok(()) => trace.end(&record, Ending::Done),
            Err(panic) => {
                trace.end(&record, Ending::Panicked);
                resume_unwind(panic); // ractor catches it, ends this incarnation and tells the parent.
            }
        }
        assert!(!trace.strikes_after(&record), "made to fail after the message");
    }
}
