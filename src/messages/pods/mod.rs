//! Pods: to the actors that decide which pods run here and carry them through their lives, and from their sources.

pub mod local_objects;
pub mod offline_pods;
pub mod pod_manager;
pub mod pod_source;
pub mod pod_worker;
pub mod user_namespaces;
