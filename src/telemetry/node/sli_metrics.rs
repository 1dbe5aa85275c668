//! `/metrics/slis`: how checks of the agent's health went, since the start or since someone asked for a new count (OBS-19).

use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Registry};

use crate::telemetry::registry::register::Registrar;

/// The one kind of check that there is.
const HEALTHZ: &str = "healthz";

/// See the module.
pub(in crate::telemetry) struct SliMetrics {
    registry: Registry,
    now: IntGaugeVec,
    total: IntCounterVec,
}

impl SliMetrics {
    pub(in crate::telemetry) fn new() -> Self {
        let registry = Registry::new();
        let registrar = Registrar(&registry);
        let now = registrar.whole_gauges(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            &["name", "type"],
        );
        let total = registrar.counters(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
            &["name", "type", "status"],
        );
        Self { registry, now, total }
    }

    /// Counts a check.
    pub(in crate::telemetry) fn checked(&self, name: &str, healthy: bool) {
        self.now.with_label_values(&[name, HEALTHZ]).set(healthy.into());
        let status = if healthy { "success" } else { "error" };
        self.total.with_label_values(&[name, HEALTHZ, status]).inc();
    }

    /// Begins anew.
    pub(in crate::telemetry) fn reset(&self) {
        self.now.reset();
        self.total.reset();
    }

    pub(in crate::telemetry) fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}
