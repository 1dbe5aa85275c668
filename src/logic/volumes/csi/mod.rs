//! Volumes of CSI drivers: which volume is meant, where it is, what the driver is asked, and what an answer means.
//!
//! Pure. `source` reads a volume out of the API's objects; `names` are the paths and names that follow from it; `rules` is what
//! the CSIDriver object says; `requests` are the calls; `capabilities` is what the driver can do; `volume_data` is the file that
//! outlives the agent; `users` says which pods have a volume by it; `attachment` says whether the cluster has attached the volume; `migration` makes drivers' volumes of in-tree
//! kinds.

pub mod attachment;
pub mod capabilities;
pub mod migration;
pub mod names;
pub mod requests;
pub mod rules;
pub mod source;
pub mod users;
pub mod volume_data;
