//! The whole agent on a simulated node: the actors of the real tree, a runtime, a disk and a clock from one seed.
//!
//! Every failure prints the end of the story and the command that tells it again.

mod cluster;
mod common;
mod node;
mod plugins;
mod pods;
mod recovery;
