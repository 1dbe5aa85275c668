//! `/stats/summary` as it is on the wire: upstream's `stats/v1alpha1`. An absent field is not known; 0 is zero.

use serde::{Serialize, Serializer};

use super::figures::{Pressure, PressureLine};
use crate::logic::model::time::Moment;

/// A time in whole seconds; the epoch stands for one that is not known, which is written as null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Moment);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == Moment::EPOCH {
            return serializer.serialize_none();
        }
        serializer.collect_str(&self.0.to_timestamp())
    }
}

/// The whole answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The node.
    pub node: NodeStats,
    /// Its pods.
    pub pods: Vec<PodStats>,
}

/// The node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStats {
    /// Its name.
    pub node_name: String,
    /// Daemons, and all pods together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_containers: Vec<ContainerStats>,
    /// When it booted.
    pub start_time: Time,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStats>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStats>,
    /// Input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStats>,
    /// Traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
    /// The file system of the agent's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsStats>,
    /// File systems of the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeStats>,
    /// Process IDs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimit: Option<RlimitStats>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStats>,
}

/// Process IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RlimitStats {
    /// When they were counted.
    pub time: Time,
    /// The most there can be.
    #[serde(rename = "maxpid", skip_serializing_if = "Option::is_none")]
    pub max_pid: Option<u64>,
    /// Threads there are.
    #[serde(rename = "curproc", skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
}

/// File systems of the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStats {
    /// Of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_fs: Option<FsStats>,
    /// Of writable layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_fs: Option<FsStats>,
}

/// The owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodReference {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID.
    pub uid: String,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStats {
    /// Which.
    pub pod_ref: PodReference,
    /// When its sandbox was made.
    pub start_time: Time,
    /// Its containers that run.
    pub containers: Vec<ContainerStats>,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStats>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStats>,
    /// Input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStats>,
    /// Traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
    /// Its volumes.
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeStats>,
    /// The use of the node's disk that counts against its limit.
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<FsStats>,
    /// Its processes.
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub process_stats: Option<ProcessStats>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStats>,
}

/// Processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessStats {
    /// How many.
    pub process_count: u64,
}

/// A container, or a group of the system.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStats {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub start_time: Time,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStats>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStats>,
    /// Input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStats>,
    /// Its writable layer, on the file system of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<FsStats>,
    /// Its log files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<FsStats>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStats>,
}

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuStats {
    /// When it was read.
    pub time: Time,
    /// Used a second, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_nano_cores: Option<u64>,
    /// Used so far, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_core_nano_seconds: Option<u64>,
    /// Pressure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PsiStats>,
}

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// When it was read.
    pub time: Time,
    /// The limit less the working set; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// All.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
    /// Memory that cannot simply be given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// Anonymous memory.
    #[serde(rename = "rssBytes", skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// A count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
    /// A count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_page_faults: Option<u64>,
    /// Pressure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PsiStats>,
}

/// Input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct IoStats {
    /// When it was read.
    pub time: Time,
    /// Pressure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PsiStats>,
}

/// Swap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapStats {
    /// When it was read.
    pub time: Time,
    /// The limit less what is used; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_available_bytes: Option<u64>,
    /// Swapped out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_usage_bytes: Option<u64>,
}

/// Pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PsiStats {
    /// All tasks at once.
    pub full: PsiData,
    /// At least one.
    pub some: PsiData,
}

/// One line of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PsiData {
    /// Microseconds.
    pub total: u64,
    /// Percent of the last 10 s.
    pub avg10: Decimal,
    /// Percent of the last 60 s.
    pub avg60: Decimal,
    /// Percent of the last 300 s.
    pub avg300: Decimal,
}

impl From<Pressure> for PsiStats {
    fn from(pressure: Pressure) -> Self {
        Self { full: pressure.full.into(), some: pressure.some.into() }
    }
}

impl From<PressureLine> for PsiData {
    fn from(line: PressureLine) -> Self {
        Self {
            total: line.total_us,
            avg10: Decimal(line.avg10),
            avg60: Decimal(line.avg60),
            avg300: Decimal(line.avg300),
        }
    }
}

/// A number as Go writes it: a whole one without a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decimal(pub f64);

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The values here are percentages: neither the cast's bounds nor its sign are ever met.
        if self.0.fract() == 0.0 { serializer.serialize_u64(self.0 as u64) } else { serializer.serialize_f64(self.0) }
    }
}

/// Traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkStats {
    /// When it was read.
    pub time: Time,
    /// The interface that counts as the default one; its name is empty where there is none.
    #[serde(flatten)]
    pub default: InterfaceStats,
    /// All.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStats>,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStats {
    /// Name.
    pub name: String,
    /// Bytes received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_bytes: Option<u64>,
    /// Errors on the way in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_errors: Option<u64>,
    /// Bytes sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_bytes: Option<u64>,
    /// Errors on the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_errors: Option<u64>,
}

/// Space on a file system, and what somebody uses of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FsStats {
    /// When it was looked at.
    pub time: Time,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Of the one that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Of the one that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_used: Option<u64>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStats {
    /// Its space.
    #[serde(flatten)]
    pub space: FsStats,
    /// Its name in the pod.
    pub name: String,
    /// The claim that it comes from.
    #[serde(rename = "pvcRef", skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimReference>,
    /// Its condition, where its driver tells it (gate `CSIVolumeHealth`).
    #[serde(rename = "volumeHealthStats", skip_serializing_if = "Option::is_none")]
    pub health: Option<VolumeHealth>,
}

/// The condition of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeHealth {
    /// Whether it is bad.
    pub abnormal: bool,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClaimReference {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}
