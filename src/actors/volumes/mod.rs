//! Volumes: sets volumes up before a pod's containers start, and takes them down after the containers' end.

#[cfg(test)]
mod tests;
pub mod volume_manager;
