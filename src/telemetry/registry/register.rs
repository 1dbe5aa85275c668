//! Metrics that are counted as they happen: how they are made and put into the registry, and the bounds they share.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// Upstream's default bounds, in seconds.
pub(in crate::telemetry) const DEFAULT_BOUNDS: [f64; 11] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Makes metrics and has the registry keep them. Names and labels are constants of this program.
pub(in crate::telemetry) struct Registrar<'a>(pub(in crate::telemetry) &'a Registry);

impl Registrar<'_> {
    pub(in crate::telemetry) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.keep(IntCounter::new(name, help))
    }

    pub(in crate::telemetry) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.keep(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(in crate::telemetry) fn gauge(&self, name: &str, help: &str) -> Gauge {
        self.keep(Gauge::new(name, help))
    }

    pub(in crate::telemetry) fn whole_gauge(&self, name: &str, help: &str) -> IntGauge {
        self.keep(IntGauge::new(name, help))
    }

    pub(in crate::telemetry) fn whole_gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.keep(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(in crate::telemetry) fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Histogram {
        self.keep(Histogram::with_opts(HistogramOpts::new(name, help).buckets(bounds.to_vec())))
    }

    pub(in crate::telemetry) fn histograms(
        &self,
        name: &str,
        help: &str,
        bounds: &[f64],
        labels: &[&str],
    ) -> HistogramVec {
        self.keep(HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds.to_vec()), labels))
    }

    fn keep<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        let metric = metric.expect("invariant: names and labels are well-formed constants");
        self.0.register(Box::new(metric.clone())).expect("invariant: each name is registered once");
        metric
    }
}

pub(in crate::telemetry) fn observe(histograms: &HistogramVec, label: &str, took: Duration) {
    histograms.with_label_values(&[label]).observe(took.as_secs_f64());
}
