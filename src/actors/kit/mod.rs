//! The actor runtime: how an actor is written, reached, watched and ended, whatever it is for.
//!
//! [`actor`] is an actor's state and behaviour, [`address`] how others reach it, [`context`] what it works with during a turn,
//! [`trace`] what every actor did. Nothing here knows what an actor is for: the folder imports no other folder of actors,
//! and of `messages` the trait `Describe` alone.

pub mod actor;
pub mod address;
pub mod context;
pub(super) mod held;
pub mod trace;
