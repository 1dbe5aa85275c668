//! `kubelet_http_*`: requests to the kubelet's own ports, with labels that no client can multiply (CVE-2020-8551).

use std::sync::Arc;
use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::relist_metrics::DEFAULT_BUCKETS;
use super::runtime_metrics::register;
use crate::platform::clock::Clock;

const LABELS: [&str; 4] = ["method", "path", "server_type", "long_running"];
/// Methods that keep their name; the others are `other`.
const METHODS: [&str; 8] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];
/// First segments of paths that keep their name; the others are `other`.
const PATHS: [&str; 3] = ["healthz", "metrics", "pods"];
/// The one path below `/metrics` that is served, by its whole name.
const PROBES: &str = "metrics/probes";
const OTHER: &str = "other";

/// See the module.
pub(crate) struct HttpMetrics {
    requests: IntCounterVec,
    in_flight: IntGaugeVec,
    duration: HistogramVec,
}

/// A request under way: counted until it is dropped.
pub(crate) struct InFlight {
    metrics: Arc<HttpMetrics>,
    clock: Arc<dyn Clock>,
    labels: [&'static str; 4],
    began: Duration,
}

impl HttpMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let requests = Opts::new(
            "kubelet_http_requests_total",
            "[ALPHA] Number of the http requests received since the server started",
        );
        let in_flight = Opts::new("kubelet_http_inflight_requests", "[ALPHA] Number of the inflight http requests");
        let duration = HistogramOpts::new(
            "kubelet_http_requests_duration_seconds",
            "[ALPHA] Duration in seconds to serve http requests",
        );
        Self {
            requests: register(registry, IntCounterVec::new(requests, &LABELS)),
            in_flight: register(registry, IntGaugeVec::new(in_flight, &LABELS)),
            duration: register(registry, HistogramVec::new(duration.buckets(DEFAULT_BUCKETS.to_vec()), &LABELS)),
        }
    }

    /// Counts a request to the read-only port, and times it until the guard is dropped, when its answer is made.
    pub(crate) fn begin(self: &Arc<Self>, clock: &Arc<dyn Clock>, method: &str, path: &str) -> InFlight {
        let labels = [method_label(method), path_label(path), "readonly", "false"];
        self.requests.with_label_values(&labels).inc();
        self.in_flight.with_label_values(&labels).inc();
        InFlight { metrics: Arc::clone(self), clock: Arc::clone(clock), labels, began: clock.uptime() }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let took = self.clock.uptime().saturating_sub(self.began);
        self.metrics.in_flight.with_label_values(&self.labels).dec();
        self.metrics.duration.with_label_values(&self.labels).observe(took.as_secs_f64());
    }
}

fn method_label(method: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER)
}

/// The first segment of a path; of what is below `/metrics/` one alone is served.
fn path_label(path: &str) -> &'static str {
    if path.trim_matches('/') == PROBES {
        return PROBES;
    }
    let mut segments = path.trim_matches('/').split('/');
    let first = segments.next().unwrap_or_default();
    let deeper = segments.next().is_some();
    PATHS.into_iter().find(|known| *known == first && !(deeper && first == "metrics")).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock::SystemClock;

    #[test]
    fn labels_are_of_a_fixed_set() {
        for (path, label) in [
            ("/pods", "pods"),
            ("/pods/", "pods"),
            ("/healthz/ping", "healthz"),
            ("/metrics", "metrics"),
            ("/metrics/probes", "metrics/probes"),
            ("/metrics/slis", OTHER),
            ("/", OTHER),
            ("/random-4711", OTHER),
        ] {
            assert_eq!(path_label(path), label, "{path}");
        }
        assert_eq!((method_label("GET"), method_label("get"), method_label("BREW")), ("GET", OTHER, OTHER));
    }

    #[test]
    fn a_request_is_in_flight_until_it_is_dropped() {
        let metrics = Arc::new(HttpMetrics::new(&Registry::new()));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let labels = ["GET", "pods", "readonly", "false"];
        let request = metrics.begin(&clock, "GET", "/pods");
        let seen = || {
            let counts = (metrics.requests.with_label_values(&labels), metrics.in_flight.with_label_values(&labels));
            (counts.0.get(), counts.1.get(), metrics.duration.with_label_values(&labels).get_sample_count())
        };
        assert_eq!(seen(), (1, 1, 0));
        drop(request);
        assert_eq!(seen(), (1, 0, 1));
    }
}
