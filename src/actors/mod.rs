//! The tree. Actors move messages and start work; what to do is decided in `logic`.

pub mod address;
pub mod desk;
pub mod ledger;
pub mod role;

/// Root's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Child { A }
