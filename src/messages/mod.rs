//! Messages between actors: one file per receiver, its enum and the plain data it carries. A folder is a domain;
//! a domain with one receiver is a file.
//!
//! Orders are verbs, facts are past, questions carry a reply port last. Each message names its sender.

pub mod event_recorder;
pub mod eviction_manager;
pub mod images;
pub mod node;
pub mod object_cache;
pub mod plugins;
pub mod pods;
pub mod prober;
pub mod resources;
pub mod root;
pub mod runtime;
pub mod server;
pub mod stats_collector;
pub mod status;
pub mod volume_manager;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Stamp;

/// A message as the trace describes it.
pub trait Describe {
    /// The variant's name.
    fn name(&self) -> &'static str;
    /// The pod that it is about, where it is about one.
    fn pod(&self) -> Option<&PodUid> {
        None
    }
}

/// A receiver of messages of one kind: an actor's address, of which messages know no more.
pub trait Recipient<M>: fmt::Debug + Send + Sync {
    /// Sends what the turn of this number leads to; never waits. Says whether there was room; the recipient's address counts
    /// a refusal.
    fn tell_from(&self, turn: Option<Stamp>, message: M) -> bool;
}

/// The handle of an actor that asks for a later message. Messages carry it.
pub struct Subscriber<M>(Arc<dyn Recipient<M>>);

impl<M> Subscriber<M> {
    /// The handle of this recipient.
    pub fn new(recipient: impl Recipient<M> + 'static) -> Self {
        Self(Arc::new(recipient))
    }

    /// Sends what the turn of this number leads to; never waits. Says whether there was room.
    pub fn tell_from(&self, turn: Option<Stamp>, message: M) -> bool {
        self.0.tell_from(turn, message)
    }
}

impl<M> Clone for Subscriber<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Subscriber<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An operation that had no end of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It panicked, and said this.
    #[error("operation panicked: {0}")]
    Panicked(String),
    /// It did not end within this time.
    #[error("operation given up after {} s", .0.as_secs())]
    GivenUp(Duration),
}

/// How an operation ended that may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T, E = String> {
    /// As it should.
    Done(T),
    /// It failed, and why.
    Failed(E),
    /// It had no end of its own.
    Lost(Lost),
}

impl<T, E> From<Result<Result<T, E>, Lost>> for Ended<T, E> {
    fn from(outcome: Result<Result<T, E>, Lost>) -> Self {
        match outcome {
            Ok(Ok(done)) => Self::Done(done),
            Ok(Err(error)) => Self::Failed(error),
            Err(loss) => Self::Lost(loss),
        }
    }
}

impl<T, E: std::fmt::Display> Ended<T, E> {
    /// For those to whom a loss is a failure like others: what was done, or why not.
    ///
    /// # Errors
    /// Says why it failed, or how it was lost.
    pub fn into_result(self) -> Result<T, String> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Failed(error) => Err(error.to_string()),
            Self::Lost(loss) => Err(loss.to_string()),
        }
    }
}

/// Implements [`Describe`] by the variant's name, and by the pod that an expression finds.
macro_rules! describe {
    ($message:ty) => {
        describe!($message, _message => None);
    };
    ($message:ty, $name:pat => $pod:expr) => {
        impl $crate::messages::Describe for $message {
            fn name(&self) -> &'static str {
                self.into()
            }
            fn pod(&self) -> Option<&$crate::logic::model::ids::PodUid> {
                let $name = self;
                $pod
            }
        }
    };
}
pub(crate) use describe;
