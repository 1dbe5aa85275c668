//! Probes: runs the probes of all containers.

pub mod prober;
