//! Node: its clock, logs, size, packet filter, processes and statistics.

pub(super) mod clock;
pub(super) mod eviction;
pub(super) mod hardware;
mod local_objects;
pub(super) mod logs;
pub(super) mod machine_size;
pub(super) mod network_rules;
pub(super) mod pressure;
pub(super) mod process_placement;
pub(super) mod reload;
mod short;
mod shutdown;
pub(super) mod statistics;
pub(super) mod storage;
