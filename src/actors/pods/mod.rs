//! Pods: which pods run here, and one actor for the life of each.

pub mod offline_pods;
pub mod pod_manager;
pub mod pod_worker;
pub mod user_namespaces;
