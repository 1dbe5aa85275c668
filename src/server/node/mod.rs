//! Node: health, the pages of the component, its last events, its images, and what is open for debugging.

pub(super) mod debugging;
pub(super) mod events;
pub(super) mod health;
pub(super) mod images;
pub(super) mod plugins;
#[cfg(feature = "profiling")]
pub(super) mod profile;
pub(super) mod zpages;
