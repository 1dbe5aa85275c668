//! Serving: who may ask the server for what, and the streams that run through it.
//!
//! May import `formats` and `model`.

pub mod server_access;
pub mod spdy;
pub mod streams;
pub mod timed_cache;
