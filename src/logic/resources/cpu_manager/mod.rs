//! Which CPUs containers run on: shared by all, or their own; upstream's CPU manager (KEP-3570).
//!
//! Pure. One actor owns a [`CpuManager`] and writes its state to the disk before a container is made of it.
//!
//! A container of a Guaranteed pod with a whole CPU request gets CPUs that nobody else runs on; all others share what is
//! left. Reserved CPUs are never given to one container.

mod alignment;
pub mod checkpoint;
mod combinations;
pub mod cpu_set;
mod demand;
mod manager;
pub mod options;
mod policy;
mod provider;
pub mod reconcile;
mod refusal;
mod state;
pub mod take;
#[cfg(test)]
mod tests;
pub mod topology;

pub(in crate::logic::resources) use combinations::each_combination;
pub use cpu_set::CpuSet;
pub use demand::PodLevelGates;
pub use manager::{CpuCounts, CpuFigures, CpuManager, CpuPolicy, Isolation};
pub use policy::{Given, PolicyError, StaticPolicy, StaticSettings};
pub use refusal::{EmptyPool, Refusal};
pub use state::{Assignments, CpuState, StateError};
pub use topology::{CpuInfo, CpuTopology, MachineTopology, NumaNode, TopologyError};
