//! Status: to the actors that tell the API server how pods are.

pub mod mirror_manager;
pub mod status_manager;
