//! The actor runtime: how an actor is written, reached, watched and stopped, whatever the actor is for.
//!
//! The runtime stands on [ractor](https://docs.rs/ractor), and adds what a node agent needs of it: bounded mailboxes,
//! addresses that survive a restart, turns that cannot wait, work that nobody loses, and a record of everything that
//! happened. It knows of pods only the UID that a message may name, for the trace and the log. Of this crate it uses the clock, the
//! open calls to a runtime, and the trait
//! [`Describe`](crate::messages::Describe), by which a message gives its name.
//!
//! # An actor
//!
//! An [`Actor`](actor::Actor) is a struct with its state and two functions. `begin` makes an incarnation from its arguments.
//! `receive` takes one message: that is a **turn**. Both are plain functions, not async ones, so a turn has nothing to wait
//! for. A turn changes the actor's state, tells other actors, and starts work.
//!
//! ```text
//! fn receive(&mut self, message: LampMsg, context: &mut Context<LampMsg>) {
//!     match message {
//!         LampMsg::Switch => {
//!             let bulb = self.bulb.clone();
//!             context.start("switch", "the lamp", async move { bulb.switch().await }, LampMsg::Switched);
//!         }
//!         LampMsg::Switched(Ok(is_lit)) => context.tell(&self.panel, PanelMsg::Lamp { is_lit }),
//!         LampMsg::Switched(Err(loss)) => tracing::error!(%loss, "the lamp was not switched"),
//!     }
//! }
//! ```
//!
//! # What a turn works with
//!
//! The [`Context`](context::Context) is the actor's only way to the rest of the program:
//!
//! | Function | Effect |
//! |---|---|
//! | `tell`, `try_tell` | sends a message to another actor; `try_tell` returns whether the mailbox had room |
//! | `start`, `start_each` | starts an **operation**: a future beside the mailbox, whose end is a message to this actor |
//! | `after`, `alarm` | sends this actor a message later |
//! | `cancel` | stops an operation or a timer; its message does not arrive |
//! | `spawn_child`, `escalate`, `stop` | starts a child; gives up, so that the parent decides; ends this actor |
//!
//! An operation has a name and says what it is about, so that `podwright actors` can show it; the name decides when it is
//! late ([`Deadline`](deadline::Deadline)). A panic inside an operation is an outcome ([`Lost`](crate::messages::Lost)), and the actor lives on. When an incarnation ends, its operations
//! are aborted: nothing of an old incarnation acts beside the new one. Where there may be one at a time,
//! `SingleFlight` keeps what is wanted meanwhile for the next one.
//!
//! # Addresses
//!
//! An [`Address`](address::Address) belongs to an actor, not to an incarnation: others keep it for good. `tell` never waits.
//! It fails when the mailbox is full (`Full`) and while no incarnation lives there (`Down`), and the trace counts both. A
//! sender repeats a fact that matters. `Untold` repeats facts that a full mailbox refused, the newest of each subject; an
//! operation waits with [`tell_at_last`](address::Address::tell_at_last). An actor's messages to itself are never refused.
//! A question carries a reply port and is asked with a deadline, by the server, by operations and by tests, but never in a
//! turn: two actors that ask each other would stand still.
//!
//! # Supervision
//!
//! A panic in a turn ends the incarnation, and the parent hears of it (`child_ended`). The parent decides when the next
//! incarnation begins, by the budget in [`restart_budget`](crate::logic::model::restart_budget). It has others repeat all
//! that it cannot read from the runtime, the disk or the sources. A parent that cannot go on escalates.
//!
//! # The trace
//!
//! The [`Trace`](trace::Trace) has a record for each actor: mailbox depth, restarts, open operations, and the latest turns
//! with their causes. Each message carries its **cause**, the turn, timer or operation that sent it, so that a chain can
//! be followed back from its end. The trace lives in memory, is bounded, and survives every actor.
//!
//! Tests inject faults here: the simulator makes any actor fail before or after any of its messages.

pub mod actor;
pub mod address;
pub mod context;
pub mod deadline;
pub(super) mod earliest;
pub(super) mod held;
pub(super) mod single_flight;
#[cfg(test)]
pub(super) mod tests;
pub mod trace;
pub(super) mod untold;
