//! Eviction: keeps the node alive when it runs short of memory, disk or processes.

pub mod eviction_manager;
