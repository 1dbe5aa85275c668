//! To `ResourceManager`.

use crate::logic::resources::node_cgroups::MachineSize;
use crate::logic::resources::{CgroupSettings, TierSums};
use crate::messages::{Ended, describe};

/// The settings of the cgroups above the pods' own.
#[derive(Debug, PartialEq, Eq)]
pub struct Tiers {
    /// That of all pods.
    pub all: CgroupSettings,
    /// That of the best-effort pods.
    pub best_effort: CgroupSettings,
    /// That of the burstable pods, whose share follows them.
    pub burstable: CgroupSettings,
    /// Memory that the kernel keeps for guaranteed and for burstable pods, in bytes; `None` without the gate `MemoryQoS`.
    pub kept: Option<(i64, i64)>,
}

/// The cgroups above the pods' own are there.
#[derive(Debug)]
pub struct TiersMade {
    /// The settings that were asked for.
    pub tiers: Box<Tiers>,
    /// Why the limits of all pods are not in force: pods use more than they allow, for one.
    pub unlimited: Option<String>,
    /// The reserved cgroups, as far as they were tried: at the first time alone.
    pub reserved: Vec<ReservedSet>,
}

/// A cgroup of the host's daemons, with the text of the node's Event.
#[derive(Debug)]
pub enum ReservedSet {
    /// It is limited.
    Enforced(String),
    /// It cannot be limited. No further one was tried.
    Failed(String),
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ResourceManagerMsg {
    /// From `PodManager`: what the pods that are wanted and not ended ask for; the tiers' settings follow them. Told when it
    /// changes.
    ActivePods(TierSums),
    /// From `NodeStatus`: CPUs or memory were added to the machine, or taken away.
    MachineChanged(MachineSize),
    /// From itself: the cgroups of all pods and of the tiers are there, or why they cannot be.
    TiersMade(Ended<TiersMade>),
    /// From itself: time to set them again.
    RefreshDue,
}

describe!(ResourceManagerMsg);
