//! Metrics of the node itself that are counted as it happens: cgroups, and what its runtime lacks.

use prometheus::{HistogramVec, IntGaugeVec, Registry};

use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

/// See the module.
pub(in crate::telemetry) struct NodeMetrics {
    cgroups: HistogramVec,
    losing_support: IntGaugeVec,
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
            _ => return false,
        }
        true
    }
}
