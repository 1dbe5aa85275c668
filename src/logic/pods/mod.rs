//! Pods: which pods are to run here, whether the node takes them, and each one's life from its sandbox to its end.
//!
//! May import `formats`, `model`, `resources`, `objects`, `volumes`, `images`, `probes`, `logs`, `events`, `plugins` and `manifest`.

pub mod container_actions;
pub mod container_garbage;
pub mod container_hash;
pub mod hooks;
pub mod node_stop;
pub mod offline_pods;
pub mod pod_admission;
pub mod pod_containers;
pub mod pod_lifecycle;
pub mod pod_manager;
pub mod pod_resize;
pub mod pod_roster;
pub mod pod_worker;
pub mod settling;
pub mod wait;
