//! Commands that have a file of their own: the arguments of each, its question, and how its answer looks.

pub(super) mod events;
mod follow;
pub(super) mod images;
pub(super) mod ps;
pub(super) mod top;
