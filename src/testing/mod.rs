//! The parts that tests share: the library's own, those on real sockets (`tests/wire`) and on a real runtime (`tests/live`).
//!
//! Drivers and clients here speak the published protocols over real sockets, in contrast to [`sim`](crate::sim), where
//! nothing leaves the process. A test can make each of them fail, hang or answer wrongly.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "the played peers are no part of the agent")]
#![allow(missing_docs, reason = "their callers are tests, beside which they are read")]

pub mod csi_driver;
pub mod device_plugin;
pub mod dra_driver;
pub mod kept_log;
pub mod old_roots;
pub mod skips;
pub mod stream_clients;
pub mod upstream_metrics;
