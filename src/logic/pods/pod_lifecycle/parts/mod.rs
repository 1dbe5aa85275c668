//! The parts of a pod's life: each with its own fields and rules.
//!
//! The files beside this folder combine the parts into decisions. A part knows no other part and starts nothing itself.

pub mod absent;
pub mod cgroup;
pub mod claims;
pub mod course;
pub mod desired;
pub mod ending;
pub mod instances;
pub mod jobs;
pub mod resizing;
pub mod restarts;
mod room;
pub mod sight;
pub mod starts;
pub mod stops;
pub mod volumes;
