//! The agent's decisions, built by themselves: they need nothing else of it.

#[path = "../../src/logic/mod.rs"]
pub mod logic;
