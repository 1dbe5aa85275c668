//! `apiserver_delegated_authn_*` and `apiserver_delegated_authz_*`: what the API server was asked about callers.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, Registry};

use crate::telemetry::registry::register::Registrar;

/// Upper bounds of how long an answer took, in seconds.
const BOUNDS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
const CODE: [&str; 1] = ["code"];

/// One of the two kinds of questions.
pub(in crate::telemetry) struct AuthMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
}

impl AuthMetrics {
    /// `kind` is `authn` or `authz`.
    pub(in crate::telemetry) fn new(registry: &Registry, kind: &str) -> Self {
        let registrar = Registrar(registry);
        Self {
            requests: registrar.counters(
                &format!("apiserver_delegated_{kind}_request_total"),
                "[ALPHA] Number of HTTP requests partitioned by status code.",
                &CODE,
            ),
            duration: registrar.histograms(
                &format!("apiserver_delegated_{kind}_request_duration_seconds"),
                "[ALPHA] Request latency in seconds. Broken down by status code.",
                &BOUNDS,
                &CODE,
            ),
        }
    }

    /// Counts an answer by its status; `None` for none.
    pub(in crate::telemetry) fn answered(&self, code: Option<u16>, took: Duration) {
        let code = code_label(code);
        self.requests.with_label_values(&[&code]).inc();
        self.duration.with_label_values(&[&code]).observe(took.as_secs_f64());
    }
}

/// A status as upstream's label has it.
pub(super) fn code_label(code: Option<u16>) -> String {
    code.map_or_else(|| "<error>".to_owned(), |code| code.to_string())
}
