//! Scenarios: standard stories, which runs over many seeds tell.

pub mod cluster_scenario;
pub mod plugin_scenario;
pub mod scenario;
