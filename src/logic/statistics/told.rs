//! Figures of pods and containers as the runtime tells them (gate `PodAndContainerStatsFromCRI`), in the summary's forms.
//!
//! A snapshot keeps them. `None` is a figure that the runtime does not tell; `build` says what stands for it.

use std::collections::BTreeMap;

use super::figures::Usage;
use super::summary::{CpuStats, IoStats, MemoryStats, NetworkStats, SwapStats};
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::time::Moment;

/// The pods that the runtime tells of, by sandbox.
pub type ToldPods = BTreeMap<SandboxId, ToldPod>;

/// A pod, as the runtime tells of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToldPod {
    /// Processor time.
    pub cpu: Option<CpuStats>,
    /// Memory.
    pub memory: Option<MemoryStats>,
    /// Input and output.
    pub io: Option<IoStats>,
    /// Traffic.
    pub network: Option<NetworkStats>,
    /// Processes, a count.
    pub processes: Option<u64>,
    /// Its containers.
    pub containers: BTreeMap<ContainerId, ToldContainer>,
}

/// A container, as the runtime tells of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToldContainer {
    /// Processor time.
    pub cpu: Option<CpuStats>,
    /// Memory.
    pub memory: Option<MemoryStats>,
    /// Swap.
    pub swap: Option<SwapStats>,
    /// Input and output.
    pub io: Option<IoStats>,
    /// Its writable layer.
    pub layer: Option<LayerUse>,
}

/// The use of a writable layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerUse {
    /// When it was measured.
    pub at: Moment,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Files, directories and links.
    pub inodes: Option<u64>,
}

impl From<Usage> for LayerUse {
    fn from(usage: Usage) -> Self {
        Self { at: usage.at, bytes: Some(usage.bytes), inodes: Some(usage.inodes) }
    }
}

/// Processor time so far of containers, in ns, and when the runtime looked.
pub fn cpu_times(pods: &ToldPods) -> impl Iterator<Item = (&ContainerId, Moment, u64)> {
    pods.values().flat_map(|pod| &pod.containers).filter_map(|(id, container)| {
        let cpu = container.cpu?;
        Some((id, cpu.time.0, cpu.usage_core_nano_seconds?))
    })
}
