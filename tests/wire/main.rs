//! The real adapters against played peers, over real sockets.
//!
//! The container runtime: `fake` plays one on a Unix socket, well or badly; the other files each take a theme.
//! `old_roots` reads the files of state that other agents left.
//! Nothing here measures time: a limit is only ever waited out, never raced.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "the played peers are no part of the agent")]

mod answers;
mod conversion;
mod deadlines;
mod events;
mod fake;
mod handshake;
mod kube_api;
mod lists;
mod observed;
mod old_roots;
mod requests;
mod stats;
mod trouble;
