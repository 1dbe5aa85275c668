//! Spans of requests to the agent's own ports (SRV-54, OBS-30): children of the caller's, where the caller is known.

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::baggage::BaggageExt;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::traces::{TURN_TARGET, propagator};

/// The trust in a request's own word about its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceOrigin {
    /// The request's span is a child of what its `traceparent` names, and its `baggage` goes on to the runtime: the port
    /// knows its callers.
    Caller,
    /// The request begins a trace of its own, linked to what its `traceparent` names: anybody may say anything.
    Anybody,
}

/// The span of one request: have its handler run in it (`tracing::Instrument`). `route` is the path as it is registered,
/// such as `/exec/{namespace}/{pod}/{container}`, so that names are few. Costs nothing while no spans are exported.
pub fn request_span(method: &str, route: &str, headers: &HeaderMap, origin: TraceOrigin) -> Span {
    let span = tracing::info_span!(
        target: TURN_TARGET,
        parent: None,
        "request", // `traces::REQUEST`
        otel.name = route,
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = tracing::field::Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let remote = propagator().extract_with_context(&Context::new(), &Headers(headers));
    let context = remote.span().span_context().clone();
    match origin {
        // Fails only where the span has begun already; it has not.
        TraceOrigin::Caller if context.is_valid() || !remote.baggage().is_empty() => drop(span.set_parent(remote)),
        TraceOrigin::Anybody if context.is_valid() => span.add_link(context),
        _ => {}
    }
    span
}

/// Notes in a request's span how it was answered.
pub fn request_answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.set_status(opentelemetry::trace::Status::error(""));
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
