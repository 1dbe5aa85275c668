//! Decisions, and nothing else: every function here is a plain computation over plain data.
//!
//! No async, clock, I/O, randomness, actors or gRPC. A decision that needs the time takes a [`time::Moment`].

pub mod ids;
pub mod manifest;
pub mod path_segment;
pub mod time;
pub mod yaml;
