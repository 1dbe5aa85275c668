//! The tree. Actors move messages and start work; what to do is decided in `logic`.
//!
//! [`tree`] is Root's children as one table; `PodManager` has one `PodWorker` for each pod UID.
//!
//! A folder is a domain, a file in it an actor (or a folder once the actor has helpers). [`kit`] is the actor runtime.

pub mod agent;
pub mod events;
pub mod eviction;
pub mod images;
pub mod kit;
pub mod node;
pub mod objects;
#[cfg(test)]
pub(crate) mod played_api;
pub mod plugins;
pub mod pods;
pub mod probes;
pub mod resources;
pub mod root;
pub mod runtime;
pub mod server;
pub mod settings;
pub mod sources;
pub mod statistics;
pub mod status;
pub mod tree;
pub mod volumes;
pub mod wiring;
