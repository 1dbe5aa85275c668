//! The runtime as `Pleg` observes it: when it is listed, what changed between two lists, its event stream, and which pods
//! are looked at.
//!
//! May import `formats` and `model`.

pub mod event_stream;
pub mod pleg_diff;
pub mod pod_looks;
pub mod relists;
