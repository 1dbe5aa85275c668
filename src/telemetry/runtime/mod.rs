//! Runtime: calls to it, relists, its images, and the cgroups beside it.

pub(super) mod image_metrics;
pub(super) mod observed_cgroups;
pub(super) mod relist_metrics;
pub(super) mod runtime_metrics;
