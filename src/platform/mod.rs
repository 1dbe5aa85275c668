//! Adapters to the kernel and the host: for each a trait, and its Linux form.
//!
//! They carry out and they report; they never decide. Their orders are computed in `logic`, their findings come
//! back as data or as a typed error. Blocking ones are called through [`host::blocking`].

pub mod cgroup;
pub mod cluster;
pub mod files;
pub mod host;
pub mod images;
pub mod logs;
pub mod network;
pub mod observer;
pub mod plugins;
pub mod pods;
pub mod statistics;
pub mod volumes;
