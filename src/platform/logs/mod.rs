//! Logs: rotates and reads the logs of containers, and reads the node's own.

pub mod container_logs;
pub mod log_reader;
pub mod node_logs;
