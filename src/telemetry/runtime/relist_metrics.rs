//! `kubelet_pleg_*` and `kubelet_evented_pleg_*`: looks at the runtime, counted as they end.

use prometheus::{Gauge, Histogram, IntCounter, Registry};

use crate::logic::model::time::Moment;
use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

/// See the module.
pub(in crate::telemetry) struct RelistMetrics {
    duration: Histogram,
    interval: Histogram,
    pod: Histogram,
    last_seen: Gauge,
    dropped: IntCounter,
    streams_opened: IntCounter,
    streams_failed: IntCounter,
    latency: Histogram,
}

impl RelistMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        let histogram = |name: &str, help: &str| registrar.histogram(name, help, &DEFAULT_BOUNDS);
        Self {
            duration: histogram(
                "kubelet_pleg_relist_duration_seconds",
                "[ALPHA] Duration in seconds for relisting pods in PLEG.",
            ),
            interval: histogram(
                "kubelet_pleg_relist_interval_seconds",
                "[ALPHA] Interval in seconds between relisting in PLEG.",
            ),
            pod: histogram(
                "kubelet_pleg_pod_relist_duration_seconds",
                "[ALPHA] Duration in seconds for relisting a single pod in PLEG.",
            ),
            last_seen: registrar.gauge(
                "kubelet_pleg_last_seen_seconds",
                "[ALPHA] Timestamp in seconds when PLEG was last seen active.",
            ),
            dropped: registrar.counter("kubelet_pleg_discard_events", "[ALPHA] The number of discard events in PLEG."),
            streams_opened: registrar.counter(
                "kubelet_evented_pleg_connection_success_count",
                "[ALPHA] The number of times a streaming client was obtained to receive CRI Events.",
            ),
            streams_failed: registrar.counter(
                "kubelet_evented_pleg_connection_error_count",
                "[ALPHA] The number of errors encountered during the establishment of streaming connection with the \
                 CRI runtime.",
            ),
            latency: histogram(
                "kubelet_evented_pleg_connection_latency_seconds",
                "[ALPHA] The latency of streaming connection with the CRI runtime, measured in seconds.",
            ),
        }
    }

    /// Counts what is about looks at the runtime; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::Relisted { ended, took, interval } => {
                self.duration.observe(took.as_secs_f64());
                self.last_seen.set((ended.since(Moment::EPOCH).saturating_sub(*took)).as_secs_f64());
                if let Some(interval) = interval {
                    self.interval.observe(interval.as_secs_f64());
                }
            }
            Observation::PodInspected { took } => self.pod.observe(took.as_secs_f64()),
            Observation::NewsDropped => self.dropped.inc(),
            Observation::StreamOpened => self.streams_opened.inc(),
            Observation::StreamFailed => self.streams_failed.inc(),
            Observation::EventTaken { age } => self.latency.observe(age.as_secs_f64()),
            _ => return false,
        }
        true
    }
}
