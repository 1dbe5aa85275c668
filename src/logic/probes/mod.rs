//! Probes: where a probe goes, when its turn comes, and what follows from its outcomes.
//!
//! May import `formats` and `model`.

pub mod exec_gate;
pub mod probe_kind;
pub mod probe_memory;
pub mod probe_schedule;
pub mod probe_target;
