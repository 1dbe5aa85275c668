//! The whole agent on a simulated node: the actors of the real tree, a runtime, a disk and a clock from one seed.
//!
//! Every failure prints the end of the story and the command that tells it again.

mod absence;
mod addresses;
mod clock;
mod cluster;
mod common;
mod containers;
mod crashes;
mod determinism;
mod ends;
mod faults;
mod hooks;
mod leftovers;
mod lifecycle;
mod logs;
mod many_pods;
mod mends;
mod mirrors;
mod network_rules;
mod pains;
mod process_placement;
mod resize;
mod resize_parts;
mod restarts;
mod restored;
mod served;
mod starting;
mod statistics;
mod volumes;
