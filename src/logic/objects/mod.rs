//! Objects: which objects of the API pods refer to, and how ConfigMaps and Secrets are kept at hand.
//!
//! May import `formats` and `model`.

pub mod object_cache;
pub mod object_references;
