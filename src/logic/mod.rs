//! Decisions, and nothing else: every function here is a plain computation over plain data.
//!
//! No async, clock, I/O, randomness, actors or gRPC. A decision that needs the time takes a [`time::Moment`].

pub mod container_hash;
pub mod dns;
pub mod dns_label;
pub mod environment;
pub mod expansion;
pub mod field_path;
pub mod go_text;
pub mod hostname;
pub mod hosts_file;
pub mod ids;
pub mod log_path;
pub mod runtime_pod;
pub mod time;
