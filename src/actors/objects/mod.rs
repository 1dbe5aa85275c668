//! Objects: the ConfigMaps, Secrets, Services and tokens that pods refer to.

pub mod local_objects;
pub mod object_cache;
