//! State and decisions of `PodManager` beside the roster, admission and resizes, which are machines of their own.

pub mod held_pods;
pub mod leftovers;
pub mod pod_census;
pub mod pod_shares;
pub mod pod_sources;
pub mod releases;
