//! State and decisions of a pod's worker beside the pod's life, which is a machine of its own.

pub mod job_events;
pub mod object_interest;
pub mod passes;
pub mod told_events;
pub mod worker_dues;
