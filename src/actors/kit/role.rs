//! `Role`: what an actor is here, and `Stage`, the ractor actor that plays it.
//!
//! A turn is a plain function: it takes one message, changes the actor's own state, tells others and starts work. It
//! cannot wait, so no actor can be held up by another, by the runtime or by a disk. Everything slow is an operation
//! (see `desk`) whose end is a message.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::address::{Address, Envelope};
use super::desk::Desk;
use super::ledger::{Ending, Turn};
use crate::messages::Describe;

/// How a child ended.
#[derive(Debug)]
pub enum ChildEnd {
    /// It was told to stop, and did.
    Stopped,
    /// It panicked, or gave up; with what it said.
    Failed(String),
}

/// An actor's state and behaviour.
pub trait Role: Sized + Send + 'static {
    /// The kind's name, as the tree shows it.
    const KIND: &'static str;
    /// What it understands.
    type Msg: Describe + Send + 'static;
    /// All that a new incarnation needs.
    type Args: Send + 'static;

    /// A new incarnation. May tell others and start work.
    fn begin(args: Self::Args, desk: &mut Desk<Self::Msg>) -> Self;

    /// One turn.
    fn receive(&mut self, message: Self::Msg, desk: &mut Desk<Self::Msg>);

    /// A child ended. Only for roles with children.
    fn child_ended(&mut self, child: ActorId, end: ChildEnd, desk: &mut Desk<Self::Msg>) {
        let _ = (child, end, desk);
    }
}

/// The ractor side of a [`Role`]: opens envelopes, writes the ledger, hands on the ends of children.
pub(in crate::actors) struct Stage<R>(std::marker::PhantomData<fn() -> R>);

/// What a new incarnation is given.
pub(in crate::actors) struct Entrance<R: Role> {
    pub(super) address: Address<R::Msg>,
    pub(super) args: R::Args,
}

/// The role between its turns. Empty until `post_start`, where a panic already counts as the actor's failure.
pub(in crate::actors) struct Scene<R: Role> {
    desk: Desk<R::Msg>,
    args: Option<R::Args>,
    role: Option<R>,
}

impl<R: Role> Stage<R> {
    /// Starts the role below `parent`, at once; messages may be sent before it has begun.
    pub(in crate::actors) fn enter(address: &Address<R::Msg>, args: R::Args, parent: Option<ActorCell>) -> ActorCell {
        let entrance = Entrance { address: address.clone(), args };
        let stage = Self(std::marker::PhantomData);
        // Without a name there is nothing to refuse: the registry is not asked.
        let (actor, _started) = match parent {
            Some(parent) => ractor::ActorRuntime::spawn_linked_instant(None, stage, entrance, parent),
            None => ractor::ActorRuntime::spawn_instant(None, stage, entrance),
        }
        .expect("an actor without a name cannot be refused");
        address.move_in(actor.clone());
        actor.get_cell()
    }
}

impl<R: Role> Actor for Stage<R> {
    type Msg = Envelope<R::Msg>;
    type State = Scene<R>;
    type Arguments = Entrance<R>;

    async fn pre_start(
        &self,
        me: ActorRef<Self::Msg>,
        entrance: Entrance<R>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Scene { desk: Desk::new(entrance.address, me.get_cell()), args: Some(entrance.args), role: None })
    }

    async fn post_start(&self, _: ActorRef<Self::Msg>, scene: &mut Scene<R>) -> Result<(), ActorProcessingErr> {
        let args = scene.args.take().expect("an incarnation begins once");
        scene.role = Some(R::begin(args, &mut scene.desk));
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        scene: &mut Scene<R>,
    ) -> Result<(), ActorProcessingErr> {
        scene.play(envelope);
        scene.desk.take_escalation().map_or(Ok(()), |why| Err(why.into()))
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        scene: &mut Scene<R>,
    ) -> Result<(), ActorProcessingErr> {
        let role = scene.role.as_mut().expect("begun before its children");
        match event {
            SupervisionEvent::ActorFailed(who, error) => {
                role.child_ended(who.get_id(), ChildEnd::Failed(error.to_string()), &mut scene.desk);
            }
            SupervisionEvent::ActorTerminated(who, _, _) => {
                role.child_ended(who.get_id(), ChildEnd::Stopped, &mut scene.desk);
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        scene.desk.take_escalation().map_or(Ok(()), |why| Err(why.into()))
    }
}

impl<R: Role> Scene<R> {
    fn play(&mut self, envelope: Envelope<R::Msg>) {
        let Envelope { message, cause, sent, span, operation } = envelope;
        let record = self.desk.address().record().clone();
        let ledger = self.desk.address().ledger().clone();
        record.leave();
        if let Some(operation) = operation
            && !self.desk.operation_told(operation)
        {
            return; // Cancelled after it had already ended: its order no longer stands.
        }
        let began = ledger.clock().uptime();
        let turn = Turn {
            id: ledger.clock().stamp(),
            actor: record.name.clone(),
            message: message.name(),
            pod: message.pod().cloned(),
            cause,
            began_at: ledger.clock().now(),
            began,
            waited: began.saturating_sub(sent),
            took: std::time::Duration::ZERO,
            ending: Ending::Open,
        };
        self.desk.set_turn(turn.id);
        let turn_span = tracing::info_span!(
            target: "podwright::turn", parent: None, "turn",
            actor = %turn.actor, message = turn.message, turn = turn.id.0, cause = turn.cause.origin,
            pod = turn.pod.as_ref().map(|pod| pod.as_str())
        );
        turn_span.follows_from(span.id());
        ledger.begin(&record, turn);
        let role = self.role.as_mut().expect("begun before its first message");
        let desk = &mut self.desk;
        let played = turn_span.in_scope(|| {
            catch_unwind(AssertUnwindSafe(|| {
                assert!(!ledger.strikes_before(&record), "made to fail before the message");
                role.receive(message, desk);
            }))
        });
        match played {
            Ok(()) => ledger.end(&record, Ending::Done),
            Err(panic) => {
                ledger.end(&record, Ending::Panicked);
                resume_unwind(panic); // ractor catches it, ends this incarnation and tells the parent.
            }
        }
        assert!(!ledger.strikes_after(&record), "made to fail after the message");
    }
}
