//! In-place resize of pods (POD-26, CRI-35, RES-55 to RES-58; KEP-1287, KEP-5419): what a pod asks for, what it was given,
//! and what of that is in force.
//!
//! Three states of a pod's CPU and memory. *Desired*: its spec in the API server. *Allocated*: what the node gave it, at its
//! admission or by a resize that was accepted; kept in `allocated_pods_state`. *Actuated*: what the runtime was last told;
//! kept in `actuated_pods_state`. `PodManager` judges what is desired and hands pods with what is allocated to everyone
//! else; a pod's worker brings what is actuated to what is allocated. Pure; keeps nothing but [`Allocations`], which is
//! `PodManager`'s, and [`ResizeConditions`], which is the worker's.

mod actuation;
mod allocation;
mod allocations;
mod amounts;
mod checkpoint;
mod conditions;
mod judgement;
mod messages;

pub use actuation::{
    ContainerUpdate, MemoryCheck, PodFigures, ResizeReport, ResizeWork, Step, UpdateOf, memory_check, merged, refusal,
    steps,
};
pub use allocation::{allocation_of, is_resizable, same_requirements, same_resources, with_allocation};
pub use allocations::{Allocations, Trigger, may_free, take_the_same};
pub use amounts::{Amounts, container_amounts, effective_requirements, matches_runtime, with_amounts};
pub use checkpoint::{ContainerResources, Corrupt, PodResources, parse_checkpoint, print_checkpoint};
pub use conditions::{PENDING, PROGRESS, Progress, ResizeConditions};
pub use judgement::{
    Candidate, Infeasible, Operation, PendingReason, PendingResize, counted_with_actual, in_order, infeasible,
    is_increase, operations,
};
pub use messages::{completed, failed, pending, started};

/// Which resizes this node makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizeGates {
    /// Gate `InPlacePodLevelResourcesVerticalScaling`: resources of whole pods, too.
    pub by_pod: bool,
    /// Gate `InPlacePodVerticalScalingInitContainers`: init containers that run to their end, too.
    pub init_containers: bool,
    /// The CPU manager's policy is `static`, and gate `InPlacePodVerticalScalingExclusiveCPUs` is off: guaranteed pods keep
    /// their CPUs.
    pub cpus_pinned: bool,
    /// The memory manager's policy is `Static`, and gate `InPlacePodVerticalScalingExclusiveMemory` is off: guaranteed pods
    /// keep their memory.
    pub memory_pinned: bool,
}

impl Default for ResizeGates {
    /// Upstream's defaults.
    fn default() -> Self {
        Self { by_pod: true, init_containers: true, cpus_pinned: false, memory_pinned: false }
    }
}

#[cfg(test)]
mod tests;
