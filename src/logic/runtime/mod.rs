//! The runtime as `Pleg` observes it: when it is listed, what changed between two lists, its event stream, and which pods
//! cannot be looked at.
//!
//! May import `formats` and `model`.

pub mod event_stream;
pub mod failed_looks;
pub mod pleg_diff;
pub mod relists;
