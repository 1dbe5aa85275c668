//! `rest_client_*`: calls to the API server. The label is `method` on the count of requests and `verb` elsewhere, because
//! it is so upstream (OBS-13).

use prometheus::{HistogramVec, IntCounterVec, Registry};

use super::auth_metrics::code_label;
use crate::platform::observer::Observation;
use crate::telemetry::registry::register::Registrar;

/// Upper bounds of how long calls take, in seconds.
const BOUNDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Upper bounds of sizes, in bytes.
const SIZES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];
const VERB: [&str; 2] = ["verb", "host"];

/// See the module.
pub(in crate::telemetry) struct ClientMetrics {
    requests: IntCounterVec,
    retries: IntCounterVec,
    duration: HistogramVec,
    held_back: HistogramVec,
    sent: HistogramVec,
    read: HistogramVec,
}

impl ClientMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        let histograms = |name: &str, help: &str, bounds: &[f64]| registrar.histograms(name, help, bounds, &VERB);
        Self {
            requests: registrar.counters(
                "rest_client_requests_total",
                "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
            ),
            retries: registrar.counters(
                "rest_client_request_retries_total",
                "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
                &["code", "verb", "host"],
            ),
            duration: histograms(
                "rest_client_request_duration_seconds",
                "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
                &BOUNDS,
            ),
            held_back: histograms(
                "rest_client_rate_limiter_duration_seconds",
                "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
                &BOUNDS,
            ),
            sent: histograms(
                "rest_client_request_size_bytes",
                "[ALPHA] Request size in bytes. Broken down by verb and host.",
                &SIZES,
            ),
            read: histograms(
                "rest_client_response_size_bytes",
                "[ALPHA] Response size in bytes. Broken down by verb and host.",
                &SIZES,
            ),
        }
    }

    /// Counts what is about the API server; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::ApiAnswered { method, host, code, took, request_bytes } => {
                let code = code_label(*code);
                self.requests.with_label_values(&[code.as_str(), method, host]).inc();
                self.duration.with_label_values(&[method, host]).observe(took.as_secs_f64());
                if *request_bytes > 0 {
                    self.sent.with_label_values(&[method, host]).observe(*request_bytes as f64);
                }
            }
            Observation::ApiRead { method, host, bytes } => {
                self.read.with_label_values(&[method, host]).observe(*bytes as f64);
            }
            Observation::ApiRetried { method, host, code } => {
                self.retries.with_label_values(&[code.to_string().as_str(), method, host]).inc();
            }
            Observation::ApiHeldBack { method, host, took } => {
                self.held_back.with_label_values(&[method, host]).observe(took.as_secs_f64());
            }
            _ => return false,
        }
        true
    }
}
