//! Objects: which objects of the API pods refer to, how ConfigMaps and Secrets are kept at hand, and those of files.
//!
//! May import `formats` and `model`.

pub mod local_objects;
pub mod object_cache;
pub mod object_references;
