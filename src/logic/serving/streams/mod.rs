//! Exec, attach and port forward: what clients may ask for, what they hear, and how many streams there may be.
//!
//! Pure. Used by `server::streams`, which carries it out.

pub mod channels;
pub mod limits;
pub mod options;
pub mod passing;
pub mod query;
pub mod status;
