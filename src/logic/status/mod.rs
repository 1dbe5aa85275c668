//! Status: what the API shows of a pod, and what the API server is sent of it; the mirrors of static pods.
//!
//! May import `formats`, `model`, `resources`, `network`, `manifest` and `pods`.

pub mod device_health;
pub mod mirror_pods;
pub mod pod_change;
pub mod pod_ends;
pub mod pod_startup;
pub mod pod_status;
pub mod status_gates;
pub mod status_sync;
