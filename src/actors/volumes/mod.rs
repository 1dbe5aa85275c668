//! Volumes: sets volumes up before a pod's containers start, and takes them down after the containers' end.

#[cfg(test)]
mod leftover_tests;
pub mod volume_manager;
