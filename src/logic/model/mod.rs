//! The model: what all domains speak of. Identities, time, quantities, waits between tries, and the runtime as decisions
//! see it: its health, and its view of a pod.
//!
//! May import `formats`.

pub mod admission_reason;
pub mod backoff;
pub mod histogram;
pub mod ids;
pub mod log_level;
pub mod node_terms;
pub mod pod_phase;
pub mod pressure;
pub mod quantity;
pub mod restart_budget;
pub mod restart_policy;
pub mod runtime_health;
pub mod runtime_pod;
pub mod start_reason;
pub mod time;
