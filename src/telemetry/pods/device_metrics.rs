//! Metrics of device plugins: their registrations, and how long they take to give devices (RES-39).

use prometheus::{HistogramVec, IntCounterVec, Registry};

use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar, observe};

/// See the module.
pub(super) struct DeviceMetrics {
    registered: IntCounterVec,
    allocated: HistogramVec,
}

impl DeviceMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            registered: registrar.counters(
                "kubelet_device_plugin_registration_total",
                "[ALPHA] Cumulative number of device plugin registrations. Broken down by resource name.",
                &["resource_name"],
            ),
            allocated: registrar.histograms(
                "kubelet_device_plugin_alloc_duration_seconds",
                "[ALPHA] Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
                &DEFAULT_BOUNDS,
                &["resource_name"],
            ),
        }
    }

    /// Counts what is about device plugins; whether it was.
    pub(super) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::DevicePluginRegistered { resource } => self.registered.with_label_values(&[resource]).inc(),
            Observation::DevicesAllocated { resource, took } => observe(&self.allocated, resource, *took),
            _ => return false,
        }
        true
    }
}
