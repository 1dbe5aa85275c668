//! Serving: what the agent answers, writes and exports.

pub(super) mod exec;
pub(super) mod local_socket;
pub(super) mod log_reading;
pub(super) mod logs;
pub(super) mod looking;
pub(super) mod metrics;
pub(super) mod rpc;
pub(super) mod spans;
pub(super) mod statistics;
pub(super) mod trace;
