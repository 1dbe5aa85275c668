//! Faults of earlier kubelets, on a real node: each test does what an attacker did, and looks for the damage.
//!
//! `tests/checklist.txt` lists the faults, with the tests of other layers.

mod cluster;
mod containers;
mod network;
