//! Podwright: a Kubernetes node agent, built as a tree of supervised actors.
//!
//! Imports point one way. From the inside out:
//!
//! * [`logic`] decides. Pure: no async, no clock, no I/O, no randomness, no actors. It imports nothing of this crate.
//! * [`messages`] is what actors say to each other, one file per receiver. It imports `logic`.
//! * [`cri`] and [`platform`] reach the outside: the container runtime, the kernel, the clock. Each offers a trait and
//!   the adapter behind it. They import `logic`; they never decide.
//! * [`config`] turns flags and files into one validated `Config`. It imports `logic`.
//! * [`actors`] move messages and start work. They import `messages`, `logic`, and the adapters' traits.
//! * [`server`] and [`cli`] show the agent's inside: parse, ask an actor, print.
//! * [`telemetry`] names and exports metrics, traces and turns; the only place that imports OpenTelemetry.
//! * `sim` (feature `sim`) plays the outside: the same traits, one seed, no real I/O.
//! * `testing` (feature `sim`, and unit tests) is what tests share: drivers and clients behind real sockets, fixtures, and the
//!   words of a test that cannot be done. It imports all; the agent never imports it.
//!
//! `main` picks the adapters and decides nothing.

pub mod actors;
pub mod cli;
pub mod config;
pub mod cri;
pub mod launch;
pub mod logic;
pub mod messages;
pub mod platform;
pub mod server;
#[cfg(feature = "sim")]
pub mod sim;
pub mod telemetry;
#[cfg(any(test, feature = "sim"))]
pub mod testing;
