//! Runtime: to the actors that watch the container runtime, and clean up after it.

pub mod container_gc;
pub mod log_rotator;
pub mod pleg;
pub mod runtime_monitor;
