//! A pod worker's jobs: what takes time, step by step, against the adapters.
//!
//! A job reports; it decides nothing. Each can be cut off at any await and done again.

mod absent;
mod allocations;
mod claims;
mod configuration;
mod environment;
mod hooks;
mod preparing;
mod problems;
mod removing;
mod resizing;
mod site;
mod starting;
mod stop_memory;
mod stopping;
mod volumes;

pub(super) use allocations::recall;
pub(in crate::actors) use allocations::release_user_namespace;
pub(in crate::actors) use removing::destroy_cgroup;
pub use site::JobSite;
pub(super) use starting::Given;
pub use stop_memory::StopMemory;
pub(super) use stopping::{Kill, Stop};
pub(in crate::actors) use volumes::release;
