//! Status: to the actors that tell the API server how pods are.

pub mod mirror_manager;
pub mod pod_view;
pub mod pod_watch;
pub mod status_manager;
