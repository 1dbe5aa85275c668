//! Decisions, and nothing else: every function here is a plain computation over plain data.
//!
//! No async, clock, I/O, randomness, actors or gRPC. A decision that needs the time takes a [`model::time::Moment`].
//!
//! A folder is a domain. Domains form an order, from the bottom: `formats`, `model`, `events`, `resources`, `network`,
//! `objects`, `environment`, `plugins`, `volumes`, `images`, `probes`, `runtime`, `logs`, `manifest`, `pods`, `status`, `node`,
//! `statistics`, `eviction`, `serving`. Each says in its `mod.rs` which domains it may import, all of them before it in the
//! order; `tests/tidy` reads that.

pub mod environment;
pub mod events;
pub mod eviction;
pub mod formats;
pub mod images;
pub mod logs;
pub mod manifest;
pub mod model;
pub mod network;
pub mod node;
pub mod objects;
pub mod plugins;
pub mod pods;
pub mod probes;
pub mod resources;
pub mod runtime;
pub mod serving;
pub mod statistics;
pub mod status;
pub mod volumes;
