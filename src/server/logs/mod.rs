//! Logs: those of containers, and the node's own.

pub(super) mod container_logs;
pub(super) mod node_logs;
