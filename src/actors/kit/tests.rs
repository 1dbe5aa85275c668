//! Means of tests for those who tell: an actor that only listens, and mailboxes without room.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use super::actor::{Actor, spawn};
use super::address::Address;
use super::context::Context;
use crate::messages::Describe;

/// The messages that a listener heard, in their debug form.
#[derive(Clone, Default)]
pub(in crate::actors) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    /// All since the last call.
    pub(in crate::actors) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no listener panics"))
    }

    /// Those since the last call that are about this; forgets the others.
    pub(in crate::actors) fn take_of(&self, about: &str) -> Vec<String> {
        self.take().into_iter().filter(|message| message.contains(about)).collect()
    }
}

/// An actor that notes what it hears.
struct Listener<M>(Heard, PhantomData<fn() -> M>);

impl<M: Describe + std::fmt::Debug + Send + 'static> Actor for Listener<M> {
    const KIND: &'static str = "Listener";
    type Msg = M;
    type Args = Heard;

    fn begin(heard: Heard, _: &mut Context<M>) -> Self {
        Self(heard, PhantomData)
    }

    fn receive(&mut self, message: M, _: &mut Context<M>) {
        self.0.0.lock().expect("no listener panics").push(format!("{message:?}"));
    }
}

/// Has a listener live at this address.
pub(in crate::actors) fn listen<M: Describe + std::fmt::Debug + Send + 'static>(address: &Address<M>) -> Heard {
    let heard = Heard::default();
    spawn::<Listener<M>>(address, heard.clone(), None);
    heard
}

/// Has the mailbox refuse every message from now on. An actor that begins there afterwards has an empty one.
pub(in crate::actors) fn fill<M: Describe + Send + 'static>(address: &Address<M>) {
    let record = address.record();
    (record.depth()..record.capacity).for_each(|_| record.enter());
}

/// Empties the mailbox.
pub(in crate::actors) fn make_room<M: Describe + Send + 'static>(address: &Address<M>) {
    let record = address.record();
    (0..record.depth()).for_each(|_| record.leave());
}
