//! Metrics of volumes: work for them and calls to their drivers, what a start found, what sweeps left (VOL-52).

use prometheus::{HistogramVec, IntCounter, IntGauge, Registry};

use super::label_metrics::LabelMetrics;
use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar, observe};

/// Upper bounds of how long something takes for a volume, in seconds.
const BOUNDS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// The one operation that is measured from what was asked for to what is there.
const OVERALL: &str = "overall_volume_mount";

/// See the module.
pub(in crate::telemetry) struct VolumeMetrics {
    operations: HistogramVec,
    calls: HistogramVec,
    whole: HistogramVec,
    measured: HistogramVec,
    found: IntCounter,
    found_errors: IntCounter,
    /// Always zero: what cannot be read is never removed by force.
    _forced: [IntCounter; 2],
    swept: IntGauge,
    swept_errors: IntGauge,
    labels: LabelMetrics,
}

impl VolumeMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            operations: registrar.histograms(
                "storage_operation_duration_seconds",
                "[ALPHA] Storage operation duration",
                &BOUNDS,
                &["volume_plugin", "operation_name", "status", "migrated"],
            ),
            calls: registrar.histograms(
                "csi_operations_seconds",
                "[ALPHA] Container Storage Interface operation duration with gRPC error code status total",
                &BOUNDS,
                &["driver_name", "method_name", "grpc_status_code", "migrated"],
            ),
            whole: registrar.histograms(
                "volume_operation_total_seconds",
                "[ALPHA] Storage operation end to end duration in seconds",
                &BOUNDS,
                &["plugin_name", "operation_name"],
            ),
            measured: registrar.histograms(
                "kubelet_volume_metric_collection_duration_seconds",
                "[ALPHA] Duration in seconds to calculate volume stats",
                &DEFAULT_BOUNDS,
                &["metric_source"],
            ),
            found: registrar.counter(
                "reconstruct_volume_operations_total",
                "[ALPHA] The number of volumes that were attempted to be reconstructed from the operating system during \
                 kubelet startup. This includes both successful and failed reconstruction.",
            ),
            found_errors: registrar.counter(
                "reconstruct_volume_operations_errors_total",
                "[ALPHA] The number of volumes that failed reconstruction from the operating system during kubelet \
                 startup.",
            ),
            _forced: [
                registrar.counter(
                    "force_cleaned_failed_volume_operations_total",
                    "[ALPHA] The number of volumes that were force cleaned after their reconstruction failed during kubelet \
                     startup. This includes both successful and failed cleanups.",
                ),
                registrar.counter(
                    "force_cleaned_failed_volume_operation_errors_total",
                    "[ALPHA] The number of volumes that failed force cleanup after their reconstruction failed during \
                     kubelet startup.",
                ),
            ],
            swept: registrar.whole_gauge(
                "kubelet_orphan_pod_cleaned_volumes",
                "[ALPHA] The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.",
            ),
            swept_errors: registrar.whole_gauge(
                "kubelet_orphan_pod_cleaned_volumes_errors",
                "[ALPHA] The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.",
            ),
            labels: LabelMetrics::new(registry),
        }
    }

    /// Counts what is about volumes; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::VolumeDone { plugin, operation, migrated, took, failed } => {
                let status = if *failed { "fail-unknown" } else { "success" };
                let labels = [plugin, operation, status, word(*migrated)];
                self.operations.with_label_values(&labels).observe(took.as_secs_f64());
            }
            Observation::DriverCalled { driver, method, code, took, migrated } => {
                let labels = [driver, method, code, word(*migrated)];
                self.calls.with_label_values(&labels).observe(took.as_secs_f64());
            }
            Observation::DriverMeasured { driver, took } => observe(&self.measured, driver, *took),
            Observation::VolumeThere { plugin, took } => {
                self.whole.with_label_values(&[plugin, OVERALL]).observe(took.as_secs_f64());
            }
            Observation::VolumesFound { count, failed } => {
                self.found.inc_by(*count as u64);
                self.found_errors.inc_by((*failed).into());
            }
            Observation::OrphansSwept { found, failed } => {
                self.swept.set(i64::try_from(*found).unwrap_or(i64::MAX));
                self.swept_errors.set(i64::try_from(*failed).unwrap_or(i64::MAX));
            }
            _ => return self.labels.observe(what),
        }
        true
    }
}

/// As Go writes it.
fn word(yes: bool) -> &'static str {
    if yes { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Tries are one thing, from what was asked for to what is there another.
    #[test]
    fn a_volume_that_came_late_is_measured_as_a_whole_once() {
        let registry = Registry::new();
        let metrics = VolumeMetrics::new(&registry);
        let (plugin, took) = ("kubernetes.io/nfs", Duration::from_secs(2));
        for failed in [true, true, false] {
            metrics.observe(&Observation::VolumeDone {
                plugin,
                operation: "volume_mount",
                migrated: false,
                took,
                failed,
            });
        }
        metrics.observe(&Observation::VolumeThere { plugin, took: Duration::from_secs(30) });
        let families = registry.gather();
        let whole = families.iter().find(|family| family.name() == "volume_operation_total_seconds").expect("told");
        let [one] = whole.get_metric() else { panic!("{whole:?}") };
        let labels: Vec<&str> = one.get_label().iter().map(prometheus::proto::LabelPair::value).collect();
        assert_eq!(labels, [OVERALL, plugin]);
        assert_eq!((one.get_histogram().get_sample_count(), one.get_histogram().get_sample_sum()), (1, 30.0));
    }

    /// VOL-52: a driver's volume is told by its driver, and a call by its method and how it ended.
    #[test]
    fn drivers_are_told_apart() {
        let registry = Registry::new();
        let metrics = VolumeMetrics::new(&registry);
        let (took, driver) = (Duration::from_millis(200), "drv.test");
        let (plugin, operation) = ("kubernetes.io/csi:drv.test", "volume_mount");
        metrics.observe(&Observation::VolumeDone { plugin, operation, migrated: true, took, failed: true });
        for (code, migrated) in [("OK", false), ("OK", false), ("DeadlineExceeded", true)] {
            let method = "/csi.v1.Node/NodeStageVolume";
            metrics.observe(&Observation::DriverCalled { driver, method, code, took, migrated });
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("families");
        let called = |code: &str, migrated: bool, rest: &str, count: u64| {
            format!(
                "csi_operations_seconds_bucket{{driver_name=\"drv.test\",grpc_status_code=\"{code}\",\
                 method_name=\"/csi.v1.Node/NodeStageVolume\",migrated=\"{migrated}\",le=\"{rest}\"}} {count}"
            )
        };
        let done = "storage_operation_duration_seconds_count{migrated=\"true\",operation_name=\"volume_mount\",\
                    status=\"fail-unknown\",volume_plugin=\"kubernetes.io/csi:drv.test\"} 1";
        let ok = [called("OK", false, "0.1", 0), called("OK", false, "0.25", 2), called("OK", false, "600", 2)];
        for line in ok.iter().chain([&called("DeadlineExceeded", true, "0.25", 1)]).map(|line| &**line).chain([done]) {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    /// VOL-15: a sweep counts all orphans, those that stay among them.
    #[test]
    fn a_sweep_counts_what_stays_too() {
        let registry = Registry::new();
        let metrics = VolumeMetrics::new(&registry);
        metrics.observe(&Observation::OrphansSwept { found: 3, failed: 1 });
        assert_eq!((metrics.swept.get(), metrics.swept_errors.get()), (3, 1));
    }
}
