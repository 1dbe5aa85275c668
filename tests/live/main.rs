//! The agent as it ships, over a real containerd with real containers.
//!
//! Every test has a node of its own (`harness`): a private containerd, a private cgroup, directories and ports that
//! nobody else uses. The runtime itself is asked for its objects, never the agent. Where the machine
//! cannot run containers, each test says why and passes, or fails under `PODWRIGHT_LIVE=1` (`podwright::testing::skips`). `CONTAINERD=<folder>` picks another containerd.
//!
//! Time is only ever bounded from below, or waited for generously: nothing here measures speed.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "a real node lives in real time, and a test is no actor")]

mod cluster;
mod control_plane;
mod cves;
mod harness;
mod images;
mod node;
mod old_roots;
mod pods;
mod served;
mod serving;
mod streams;

use podwright::platform::plugins::wire;
