//! `kubelet_runtime_operations_*`: calls to the runtime, counted as they end.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, Registry};

use crate::cri::instrumented::CallObserver;
use crate::telemetry::registry::register::Registrar;
use crate::telemetry::spans::traces;

/// The label of all three.
const LABEL: &str = "operation_type";

/// Upstream's buckets of runtime operations, in seconds: 5 ms, and each 2.5 times the one before, to 745 s.
fn buckets() -> Vec<f64> {
    (0..14).map(|step| 0.005 * 2.5f64.powi(step)).collect()
}

/// See the module.
pub struct RuntimeMetrics {
    total: IntCounterVec,
    errors: IntCounterVec,
    duration: HistogramVec,
}

impl RuntimeMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            total: registrar.counters(
                "kubelet_runtime_operations_total",
                "[ALPHA] Cumulative number of runtime operations by operation type.",
                &[LABEL],
            ),
            errors: registrar.counters(
                "kubelet_runtime_operations_errors_total",
                "[ALPHA] Cumulative number of runtime operation errors by operation type.",
                &[LABEL],
            ),
            duration: registrar.histograms(
                "kubelet_runtime_operations_duration_seconds",
                "[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.",
                &buckets(),
                &[LABEL],
            ),
        }
    }
}

impl CallObserver for RuntimeMetrics {
    fn called(&self, operation: &'static str, took: Duration, failed: bool) {
        let labels = [operation];
        self.total.with_label_values(&labels).inc();
        self.duration.with_label_values(&labels).observe(took.as_secs_f64());
        if failed {
            self.errors.with_label_values(&labels).inc();
        }
        traces::record_call(operation, took, failed);
    }

    fn context(&self) -> Vec<(&'static str, String)> {
        traces::current_context()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn calls_are_counted_by_their_upstream_names() {
        let registry = Registry::new();
        let metrics = RuntimeMetrics::new(&registry);
        assert_eq!(TextEncoder::new().encode_to_string(&registry.gather()).expect("text"), "", "no call, no series");
        metrics.called("run_podsandbox", Duration::from_millis(20), false);
        metrics.called("run_podsandbox", Duration::from_secs(1), true);
        metrics.called("version", Duration::ZERO, false);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        for line in [
            "# TYPE kubelet_runtime_operations_total counter",
            "# TYPE kubelet_runtime_operations_duration_seconds histogram",
            r#"kubelet_runtime_operations_total{operation_type="run_podsandbox"} 2"#,
            r#"kubelet_runtime_operations_total{operation_type="version"} 1"#,
            r#"kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="0.03125"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="+Inf"} 2"#,
            r#"kubelet_runtime_operations_duration_seconds_sum{operation_type="run_podsandbox"} 1.02"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"errors_total{operation_type="version"}"#), "no error, no series");
    }

    #[test]
    fn buckets_are_upstreams() {
        let buckets = buckets();
        assert_eq!(buckets.len(), 14);
        assert!((buckets[13] - 745.058).abs() < 0.001);
    }
}
