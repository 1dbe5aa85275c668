//! Figures that the runtime tells of sandboxes and containers. `None` means "not told", never zero.

use super::{ContainerMetadata, FilesystemUsage, Labels, PodSandboxMetadata};
use crate::logic::model::time::Moment;

/// Which statistics to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StatsFilter {
    /// Only this sandbox or container, by ID.
    pub id: Option<String>,
    /// Only containers of this sandbox.
    pub sandbox_id: Option<String>,
    /// Only with these labels.
    pub label_selector: Labels,
}

/// Figures of a container.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ContainerStats {
    /// ID.
    pub id: String,
    /// Name and attempt.
    pub metadata: ContainerMetadata,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Processor.
    pub cpu: Option<CpuUsage>,
    /// Memory.
    pub memory: Option<MemoryUsage>,
    /// Its writable layer.
    pub writable_layer: Option<FilesystemUsage>,
    /// Swap.
    pub swap: Option<SwapUsage>,
    /// Input and output.
    pub io: Option<IoUsage>,
}

/// Figures of a sandbox and its containers.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodSandboxStats {
    /// ID.
    pub id: String,
    /// The identity of the sandbox.
    pub metadata: PodSandboxMetadata,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Processor.
    pub cpu: Option<CpuUsage>,
    /// Memory.
    pub memory: Option<MemoryUsage>,
    /// Network.
    pub network: Option<NetworkUsage>,
    /// How many processes.
    pub process_count: Option<u64>,
    /// Input and output.
    pub io: Option<IoUsage>,
    /// Its containers.
    pub containers: Vec<ContainerStats>,
}

/// Pressure: how long some, or all, tasks waited (PSI).
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct PsiStats {
    /// All tasks waited.
    pub full: PsiData,
    /// At least one task waited.
    pub some: PsiData,
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct PsiData {
    /// Nanoseconds since the start.
    pub total: u64,
    /// Percent over 10 s.
    pub avg10: f64,
    /// Percent over 60 s.
    pub avg60: f64,
    /// Percent over 300 s.
    pub avg300: f64,
}

/// Processor time.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CpuUsage {
    /// When it was looked at.
    pub timestamp: Moment,
    /// Core-nanoseconds since the start.
    pub usage_core_nano_seconds: Option<u64>,
    /// Nanocores just now.
    pub usage_nano_cores: Option<u64>,
    /// Pressure.
    pub psi: Option<PsiStats>,
}

/// Memory, in bytes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MemoryUsage {
    /// When it was looked at.
    pub timestamp: Moment,
    /// The memory that cannot be given back easily.
    pub working_set_bytes: Option<u64>,
    /// Up to the limit.
    pub available_bytes: Option<u64>,
    /// All.
    pub usage_bytes: Option<u64>,
    /// Anonymous and swap cache.
    pub rss_bytes: Option<u64>,
    /// Minor faults.
    pub page_faults: Option<u64>,
    /// Major faults.
    pub major_page_faults: Option<u64>,
    /// Pressure.
    pub psi: Option<PsiStats>,
}

/// Swap, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SwapUsage {
    /// When it was looked at.
    pub timestamp: Moment,
    /// Free.
    pub swap_available_bytes: Option<u64>,
    /// Used.
    pub swap_usage_bytes: Option<u64>,
}

/// Input and output.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct IoUsage {
    /// When it was looked at.
    pub timestamp: Moment,
    /// Pressure.
    pub psi: Option<PsiStats>,
}

/// Network, by interface.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NetworkUsage {
    /// When it was looked at.
    pub timestamp: Moment,
    /// The interface of the default route.
    pub default_interface: Option<NetworkInterfaceUsage>,
    /// All others.
    pub interfaces: Vec<NetworkInterfaceUsage>,
}

/// One interface's counters.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NetworkInterfaceUsage {
    /// Name.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: Option<u64>,
    /// Errors in receiving.
    pub rx_errors: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: Option<u64>,
    /// Errors in sending.
    pub tx_errors: Option<u64>,
}

/// The description of a runtime's metric.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MetricDescriptor {
    /// Name.
    pub name: String,
    /// Help text.
    pub help: String,
    /// Labels, in the order of the values.
    pub label_keys: Vec<String>,
}

/// The runtime's metrics of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodSandboxMetrics {
    /// ID.
    pub sandbox_id: String,
    /// The sandbox' own.
    pub metrics: Vec<Metric>,
    /// By container ID.
    pub containers: Vec<(String, Vec<Metric>)>,
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Metric {
    /// Name.
    pub name: String,
    /// When; [`Moment::EPOCH`] means now.
    pub timestamp: Moment,
    /// A gauge, else a counter.
    pub gauge: bool,
    /// In the order of the descriptor's keys.
    pub label_values: Vec<String>,
    /// Value, where told.
    pub value: Option<u64>,
}
