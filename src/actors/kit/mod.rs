//! The actor runtime: how an actor is written, reached, watched and ended, whatever it is for.
//!
//! [`role`] is an actor's state and behaviour, [`address`] how others reach it, [`desk`] what it works with during a turn,
//! [`ledger`] what every actor did. Nothing here knows what an actor is for: the folder imports no other folder of actors,
//! and of `messages` the trait `Describe` alone.

pub mod address;
pub mod desk;
pub(super) mod held;
pub mod ledger;
pub mod role;
