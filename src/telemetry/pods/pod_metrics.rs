//! Metrics of pods and their workers (POD-39), counted as it happens; gauges of pods are in `pod_gauges`.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};

use super::attempt_metrics::AttemptMetrics;
use super::claim_metrics::ClaimMetrics;
use super::device_metrics::DeviceMetrics;
use super::sacrifice_metrics::SacrificeMetrics;
use super::start_metrics::StartMetrics;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::platform::observer::Observation;
use crate::telemetry::registry::register::observe;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

/// Upper bounds of how long statuses take to be sent, in seconds.
const STATUS_BOUNDS: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// See the module.
pub(in crate::telemetry) struct PodMetrics {
    passes: HistogramVec,
    containers_per_pod: Histogram,
    worker_start: Histogram,
    refused: IntCounterVec,
    sacrifices: SacrificeMetrics,
    devices: DeviceMetrics,
    orphans: IntCounter,
    came_back: IntCounterVec,
    status_sent: Histogram,
    status_not_taken: IntCounterVec,
    starts: StartMetrics,
    attempts: AttemptMetrics,
    claims: ClaimMetrics,
}

impl PodMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            passes: registrar.histograms(
                "kubelet_pod_worker_duration_seconds",
                "[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
                &DEFAULT_BOUNDS,
                &["operation_type"],
            ),
            containers_per_pod: registrar.histogram(
                "kubelet_containers_per_pod_count",
                "[ALPHA] The number of containers per pod.",
                &[1.0, 2.0, 4.0, 8.0, 16.0],
            ),
            worker_start: registrar.histogram(
                "kubelet_pod_worker_start_duration_seconds",
                "[ALPHA] Duration in seconds from kubelet seeing a pod to starting a worker.",
                &DEFAULT_BOUNDS,
            ),
            refused: registrar.counters(
                "kubelet_admission_rejections_total",
                "[ALPHA] Cumulative number pod admission rejections by the Kubelet.",
                &["reason"],
            ),
            sacrifices: SacrificeMetrics::new(registry),
            devices: DeviceMetrics::new(registry),
            orphans: registrar.counter(
                "kubelet_orphaned_runtime_pods_total",
                "[ALPHA] Number of pods that have been detected in the container runtime without being already known to \
                 the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in \
                 the API or in the local configuration, which is unusual.",
            ),
            came_back: registrar.counters(
                "kubelet_restarted_pods_total",
                "[ALPHA] Number of pods that have been restarted because they were deleted and recreated with the same \
                 UID while the kubelet was watching them (common for static pods, extremely uncommon for API pods)",
                &["static"],
            ),
            status_sent: registrar.histogram(
                "kubelet_pod_status_sync_duration_seconds",
                "[ALPHA] Duration in seconds to sync a pod status update. Measures time from detection of a change to \
                 pod status until the API is successfully updated for that pod, even if multiple intevening changes to \
                 pod status occur.",
                &STATUS_BOUNDS,
            ),
            status_not_taken: registrar.counters(
                "podwright_pod_status_not_taken_total",
                "Patches of pods' statuses that the API server answered without taking them over (ignored), or refused \
                 as invalid or forbidden (refused); once for a pod until that changes.",
                &["result"],
            ),
            starts: StartMetrics::new(registry),
            attempts: AttemptMetrics::new(registry),
            claims: ClaimMetrics::new(registry),
        }
    }

    /// An image was pulled for the pod; that time is not its start's.
    pub(in crate::telemetry) fn pulled(&self, uid: &PodUid, began: Moment, took: Duration) {
        self.starts.pulled(uid, began, took);
    }

    /// Counts what is about pods; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::PassEnded { operation, took } => observe(&self.passes, operation, *took),
            Observation::PodTaken { containers, waited } => {
                self.containers_per_pod.observe(*containers as f64);
                if let Some(waited) = waited {
                    self.worker_start.observe(waited.as_secs_f64());
                }
            }
            Observation::PodRefused { reason } => self.refused.with_label_values(&[reason.label()]).inc(),
            Observation::OrphanFound => self.orphans.inc(),
            Observation::PodCameBack { is_static } => {
                self.came_back.with_label_values(&[if *is_static { "true" } else { "" }]).inc();
            }
            Observation::StatusSent { took } => self.status_sent.observe(took.as_secs_f64()),
            Observation::StatusNotTaken { refused } => {
                self.status_not_taken.with_label_values(&[if *refused { "refused" } else { "ignored" }]).inc();
            }
            _ => {
                let counted = self.starts.observe(what) || self.attempts.observe(what) || self.devices.observe(what);
                return counted || self.sacrifices.observe(what) || self.claims.observe(what);
            }
        }
        true
    }
}
