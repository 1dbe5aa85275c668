//! Node: the agent as a process of its node, and what it does to the host.

pub(super) mod agent;
pub(super) mod cgroups;
pub(super) mod devices;
pub(super) mod dra;
pub(super) mod events;
pub(super) mod footprint;
pub(super) mod hardware;
pub(super) mod host;
pub(super) mod local_objects;
pub(super) mod machine;
pub(super) mod network;
pub(super) mod private_files;
pub(super) mod reload;
pub(super) mod security;
pub(super) mod start;
