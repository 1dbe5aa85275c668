//! Resources: the cgroups above the pods' own, the checkpoint of allocated resources, and the cgroups of the machine's
//! daemons.

pub mod allocation_manager;
pub mod process_placement;
pub mod resource_manager;
