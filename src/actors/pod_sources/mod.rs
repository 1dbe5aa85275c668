//! Where pods are wanted from. Each source tells `PodManager` complete sets, never differences.

pub mod file;
pub mod http;
