//! Objects: the ConfigMaps, Secrets, Services and tokens that pods refer to.

pub mod object_cache;
