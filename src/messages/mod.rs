//! What actors say to each other: one file per receiver, its enum and the plain data it carries.
//!
//! Orders are verbs, facts are past, questions carry a reply port last. Each message names its sender.

use crate::logic::ids::PodUid;

/// What the ledger wants to know of a message.
pub trait Describe {
    /// The variant's name.
    fn name(&self) -> &'static str;
    /// The pod that it is about, where it is about one.
    fn pod(&self) -> Option<&PodUid> {
        None
    }
}
