//! Metrics of the node itself that are counted as it happens: cgroups, and what its runtime lacks.

use prometheus::{HistogramVec, IntGaugeVec, Registry};

use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

/// See the module.
pub(in crate::telemetry) struct NodeMetrics {
    cgroups: HistogramVec,
    losing_support: IntGaugeVec,
    /// Without labels; absent until the gate `MemoryQoS` has something kept.
    memory_kept: [IntGaugeVec; 2],
}

impl NodeMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            cgroups: registrar.histograms(
                "kubelet_cgroup_manager_duration_seconds",
                "[ALPHA] Duration in seconds for cgroup manager operations. Broken down by method.",
                &DEFAULT_BOUNDS,
                &["operation_type"],
            ),
            losing_support: registrar.whole_gauges(
                "kubelet_cri_losing_support",
                "[ALPHA] the Kubernetes version that the currently running CRI implementation will lose support on if \
                 not upgraded.",
                &["version"],
            ),
            memory_kept: [
                registrar.whole_gauges(
                    "kubelet_memory_qos_node_memory_min_bytes",
                    "[ALPHA] Total cgroup v2 memory.min in bytes for Guaranteed pods. This memory is hard-reserved and \
                     never reclaimed by the kernel.",
                    &[],
                ),
                registrar.whole_gauges(
                    "kubelet_memory_qos_node_memory_low_bytes",
                    "[ALPHA] Total cgroup v2 memory.low in bytes for Burstable pods. This memory is soft-reserved and \
                     may be reclaimed under extreme pressure.",
                    &[],
                ),
            ],
        }
    }

    /// The runtime lacks what it will need from this release on.
    pub(in crate::telemetry) fn loses_support(&self, version: &str) {
        self.losing_support.with_label_values(&[version]).set(1);
    }

    /// Counts what is about the node; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::CgroupDone { operation, took } => {
                self.cgroups.with_label_values(&[operation]).observe(took.as_secs_f64());
            }
            Observation::MemoryKept { hard, soft } => {
                for (gauge, bytes) in self.memory_kept.iter().zip([hard, soft]) {
                    gauge.with_label_values::<&str>(&[]).set(*bytes);
                }
            }
            _ => return false,
        }
        true
    }
}
