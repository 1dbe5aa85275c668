//! Which NUMA nodes give a pod its CPUs, memory and devices; upstream's topology manager (KEP-693).
//!
//! Pure; owned by whoever admits pods. Keeps nothing: what a pod was given is kept by the managers of the resources.

pub mod admission;
pub mod explanation;
pub mod hints;
pub mod machine;
mod merge;
pub mod policy;
mod reachable;
