//! What each actor is given: the only place of the tree that knows all of an [`Agent`](super::settings::Agent).
//!
//! A folder of files by domain, a function per actor. An actor imports nothing of this; the tree and tests call it.

pub mod events;
pub mod images;
pub mod node;
pub mod objects;
pub mod probes;
pub mod resources;
pub mod runtime;
pub mod server;
pub mod sources;
pub mod statistics;
pub mod status;
pub mod volumes;
