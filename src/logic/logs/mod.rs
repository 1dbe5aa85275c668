//! Logs: where logs of containers are, how long they stay, how readers see them; and the node's own logs.
//!
//! May import `formats`, `model` and `images`.

pub mod container_log;
pub mod log_keeping;
pub mod log_path;
pub mod log_rotation;
pub mod node_log_query;
