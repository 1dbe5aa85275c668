//! What each actor is given: the only place of the tree that knows all of an [`Agent`](super::settings::Agent).
//!
//! A folder of files by domain, a function per actor. An actor imports nothing of this; the tree and tests call it.

pub mod node;
pub mod probes;
pub mod runtime;
pub mod status;
pub mod volumes;
