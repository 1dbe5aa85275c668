//! `kubelet_http_*` and the count of streams: requests to the kubelet's own ports, with labels that no client can
//! multiply (SEC-29, CVE-2020-8551).

use std::sync::Arc;
use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, Registry};

use crate::platform::host::clock::Clock;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

const LABELS: [&str; 4] = ["method", "path", "server_type", "long_running"];
/// Methods that keep their name; the others are `other`.
const METHODS: [&str; 8] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];
/// First segments of paths that keep their name on both ports; the others are `other`.
const PATHS: [&str; 4] = ["healthz", "metrics", "pods", "stats"];
/// First segments of paths that only the port with authentication has.
const GUARDED: [&str; 13] = [
    "attach",
    "checkpoint",
    "configz",
    "containerLogs",
    "debug",
    "exec",
    "flagz",
    "logs",
    "portForward",
    "pprof",
    "run",
    "runningpods",
    "statusz",
];
/// The endpoints below `/metrics`, by their whole names; `metrics/slis` is among the others, as upstream has it.
const METRICS: [&str; 3] = ["metrics/cadvisor", "metrics/probes", "metrics/resource"];
/// First segments whose requests last. Upstream does not take `portForward` for one, because it compares with a word in
/// lower case.
const LONG_RUNNING: [&str; 3] = ["attach", "debug", "exec"];
/// The kinds of streams; the others are `other`.
const STREAMS: [&str; 3] = ["attach", "exec", "portforward"];
const OTHER: &str = "other";

/// Which of the kubelet's two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Port {
    /// The one that knows its callers.
    ReadWrite,
    /// The one for everybody.
    ReadOnly,
}

/// See the module.
pub struct HttpMetrics {
    requests: IntCounterVec,
    in_flight: IntGaugeVec,
    duration: HistogramVec,
    streams: IntCounterVec,
}

/// A request under way: counted until it is dropped.
#[must_use = "a request is in flight as long as this is kept"]
pub struct InFlight {
    metrics: Arc<HttpMetrics>,
    clock: Arc<dyn Clock>,
    labels: [&'static str; 4],
    began: Duration,
}

impl HttpMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            requests: registrar.counters(
                "kubelet_http_requests_total",
                "[ALPHA] Number of the http requests received since the server started",
                &LABELS,
            ),
            in_flight: registrar.whole_gauges(
                "kubelet_http_inflight_requests",
                "[ALPHA] Number of the inflight http requests",
                &LABELS,
            ),
            duration: registrar.histograms(
                "kubelet_http_requests_duration_seconds",
                "[ALPHA] Duration in seconds to serve http requests",
                &DEFAULT_BOUNDS,
                &LABELS,
            ),
            streams: registrar.counters(
                "kubelet_websocket_streaming_requests_total",
                "[ALPHA] Total number of WebSocket streaming requests (exec/attach/portforward) received by the kubelet.",
                &["subresource"],
            ),
        }
    }

    /// Counts a request to a port, and times it until the guard is dropped, when its answer is made. Any path and method
    /// will do: what is not known counts as `other`.
    pub fn begin(self: &Arc<Self>, clock: &Arc<dyn Clock>, port: Port, method: &str, path: &str) -> InFlight {
        let path = path_label(port, path);
        let long_running = if LONG_RUNNING.contains(&path) { "true" } else { "false" };
        let labels = [method_label(method), path, port.into(), long_running];
        self.requests.with_label_values(&labels).inc();
        self.in_flight.with_label_values(&labels).inc();
        InFlight { metrics: Arc::clone(self), clock: Arc::clone(clock), labels, began: clock.uptime() }
    }

    /// Counts a stream over a WebSocket: `exec`, `attach` or `portforward`.
    pub fn stream_opened(&self, subresource: &str) {
        let label = STREAMS.into_iter().find(|known| *known == subresource).unwrap_or(OTHER);
        self.streams.with_label_values(&[label]).inc();
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

/// The first segment of a path, below `/metrics` the first two, if it is one that is served.
fn path_label(port: Port, path: &str) -> &'static str {
    let path = path.trim_start_matches('/');
    let mut segments = path.split('/');
    let first = segments.next().unwrap_or_default();
    match segments.next().filter(|second| first == "metrics" && !second.is_empty()) {
        Some(second) => METRICS.into_iter().find(|known| known["metrics/".len()..] == *second).unwrap_or(OTHER),
        None => {
            let guarded = GUARDED.into_iter().filter(|_| port == Port::ReadWrite);
            PATHS.into_iter().chain(guarded).find(|known| *known == first).unwrap_or(OTHER)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::platform::host::clock::SystemClock;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::start())
    }

    /// OBS-11, SRV-50.
    #[test]
    fn labels_are_of_a_fixed_set() {
        for (path, label) in [
            ("/pods", "pods"),
            ("/pods/", "pods"),
            ("/healthz/ping", "healthz"),
            ("/metrics", "metrics"),
            ("/metrics/", "metrics"),
            ("/metrics/probes", "metrics/probes"),
            ("/metrics/cadvisor", "metrics/cadvisor"),
            ("/metrics/slis", OTHER),
            ("/exec/ns/pod/container", "exec"),
            ("/stats/summary", "stats"),
            ("/", OTHER),
            ("/random-4711", OTHER),
        ] {
            assert_eq!(path_label(Port::ReadWrite, path), label, "{path}");
        }
        assert_eq!((path_label(Port::ReadOnly, "/pods"), path_label(Port::ReadOnly, "/exec/a")), ("pods", OTHER));
        assert_eq!((method_label("GET"), method_label("get"), method_label("BREW")), ("GET", OTHER, OTHER));
    }

    #[test]
    fn a_request_is_in_flight_until_it_is_dropped() {
        let metrics = Arc::new(HttpMetrics::new(&Registry::new()));
        let labels = ["GET", "pods", "readonly", "false"];
        let request = metrics.begin(&clock(), Port::ReadOnly, "GET", "/pods");
        let seen = || {
            let counts = (metrics.requests.with_label_values(&labels), metrics.in_flight.with_label_values(&labels));
            (counts.0.get(), counts.1.get(), metrics.duration.with_label_values(&labels).get_sample_count())
        };
        assert_eq!(seen(), (1, 1, 0));
        drop(request);
        assert_eq!(seen(), (1, 0, 1));
    }

    /// SRV-50.
    #[test]
    fn long_requests_are_those_that_upstream_takes_for_long() {
        let metrics = Arc::new(HttpMetrics::new(&Registry::new()));
        for (path, label, long) in [
            ("/exec/ns/pod/c", "exec", "true"),
            ("/debug/pprof", "debug", "true"),
            ("/portForward/ns/pod", "portForward", "false"),
            ("/containerLogs/ns/pod/c", "containerLogs", "false"),
        ] {
            drop(metrics.begin(&clock(), Port::ReadWrite, "POST", path));
            let counted = metrics.requests.with_label_values(&["POST", label, "readwrite", long]);
            assert_eq!(counted.get(), 1, "{path}");
        }
    }

    proptest! {
        /// SEC-29.
        #[test]
        fn sec_29_no_client_makes_series(path: String, method: String, stream: String) {
            let metrics = Arc::new(HttpMetrics::new(&Registry::new()));
            drop(metrics.begin(&clock(), Port::ReadWrite, &method, &path));
            metrics.stream_opened(&stream);
            let known = |label: &str| {
                METHODS.contains(&label) || PATHS.contains(&label) || GUARDED.contains(&label) || METRICS.contains(&label) || STREAMS.contains(&label)
                    || [OTHER, "readwrite", "true", "false"].contains(&label)
            };
            let families = prometheus::core::Collector::collect(&metrics.requests).into_iter()
                .chain(prometheus::core::Collector::collect(&metrics.streams));
            for family in families {
                for metric in family.get_metric() {
                    prop_assert!(metric.get_label().iter().all(|label| known(label.value())), "{metric:?}");
                }
            }
        }
    }
}
