//! Runtime: watches the container runtime, and cleans up after it: dead containers, long logs.

pub mod container_gc;
pub mod log_rotator;
pub mod pleg;
pub mod removal;
pub mod runtime_monitor;
