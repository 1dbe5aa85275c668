//! Resources: to the actors of cgroups and of allocated resources.

pub mod allocation_manager;
pub mod process_placement;
pub mod resource_manager;
