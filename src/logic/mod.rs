//! Decisions, and nothing else: every function here is a plain computation over plain data.
//!
//! No async, clock, I/O, randomness, actors or gRPC. A decision that needs the time takes a [`time::Moment`].

pub mod backoff;
pub mod container_actions;
pub mod ids;
pub mod pleg_diff;
pub mod pod_status;
pub mod restart_budget;
pub mod restart_policy;
pub mod runtime_pod;
pub mod time;
