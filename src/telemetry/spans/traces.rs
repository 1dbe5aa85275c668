//! Spans over OTLP, as upstream's `tracing` section asks for them: turns, operations, and calls to the runtime.
//!
//! A turn is a trace's root, linked to the turn that sent its message: a chain of causes has no end, so it cannot be
//! one trace. So is a pass of a pod's worker, by upstream's names, with all that the worker has under way for it. An
//! operation is its turn's or its pass's child, a call its operation's. Keeps the exporter, once one is set up.

use std::sync::OnceLock;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use opentelemetry::propagation::{Injector, TextMapCompositePropagator, TextMapPropagator};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanLimits,
};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::config::Tracing;
use crate::cri::instrumented::Call;
use crate::platform::host::blocking::lookup;
use crate::platform::host::clock::{Clock, SystemClock};

/// The target of the spans that are exported.
pub(in crate::telemetry) const TURN_TARGET: &str = "podwright::turn";
/// The name of the span of a request, which may have a parent elsewhere.
pub(in crate::telemetry) const REQUEST: &str = "request";
/// Upstream's default collector.
const ENDPOINT_DEFAULT: &str = "localhost:4317";
/// How long a batch may take to send.
const EXPORT_LIMIT: Duration = Duration::from_secs(10);
/// Spans that wait to be sent; more are dropped.
const QUEUE_MAX: usize = 2048;

/// Set once spans are exported; without it, spans cost nothing.
static EXPORT: OnceLock<Export> = OnceLock::new();

struct Export {
    tracer: SdkTracer,
    clock: SystemClock,
}

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// The endpoint is none that gRPC can reach.
    #[error("tracing endpoint {endpoint:?}: {why}")]
    Endpoint {
        /// As configured.
        endpoint: String,
        /// Why.
        why: String,
    },
    /// The exporter cannot be made.
    #[error("tracing exporter: {0}")]
    Exporter(String),
}

/// A collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// `host:port`.
    Host(String),
    /// A socket's path.
    Unix(String),
    /// A socket's name in Linux' abstract space.
    Abstract(String),
}

/// Reads gRPC's forms of names: without scheme, `dns`, `unix`, `unix-abstract`.
fn parse_endpoint(endpoint: &str) -> Target {
    for (scheme, make) in [("unix-abstract:", Target::Abstract as fn(String) -> Target), ("unix:", Target::Unix)] {
        if let Some(rest) = endpoint.strip_prefix(scheme) {
            // `unix://` has an empty authority before the path.
            return make(rest.strip_prefix("//").unwrap_or(rest).to_owned());
        }
    }
    let rest = match endpoint.strip_prefix("dns:") {
        // `dns://server/name`: which server to ask is the system's choice here.
        Some(rest) => match rest.strip_prefix("//") {
            Some(rest) => rest.split_once('/').map_or(rest, |(_, name)| name),
            None => rest,
        },
        None => endpoint,
    };
    Target::Host(rest.to_owned())
}

fn channel(endpoint: &str) -> Result<Channel, TracingError> {
    let refuse = |why: String| TracingError::Endpoint { endpoint: endpoint.to_owned(), why };
    let (uri, target) = match parse_endpoint(endpoint) {
        Target::Host(host) => (format!("http://{host}"), None),
        other => ("http://localhost".to_owned(), Some(other)),
    };
    let made = Endpoint::from_shared(uri).map_err(|error| refuse(error.to_string()))?;
    let made = made.timeout(EXPORT_LIMIT).connect_timeout(EXPORT_LIMIT);
    let Some(target) = target else {
        let dial = service_fn(|uri: Uri| async move { dial(&uri).await.map(TokioIo::new) });
        return Ok(made.connect_with_connector_lazy(dial));
    };
    Ok(made.connect_with_connector_lazy(service_fn(move |_: Uri| {
        let target = target.clone();
        async move { connect(&target).await.map(TokioIo::new) }
    })))
}

/// Connects to a collector's host, whose name keeps none of the agent's threads for blocking calls.
async fn dial(uri: &Uri) -> std::io::Result<TcpStream> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let addresses = lookup::find(host, uri.port_u16().unwrap_or(80)).await.map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(addresses.as_slice()).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect(target: &Target) -> std::io::Result<UnixStream> {
    use std::os::linux::net::SocketAddrExt;
    match target {
        Target::Abstract(name) => {
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes())?;
            // The kernel answers at once: an abstract socket has its queue or refuses.
            let stream = std::os::unix::net::UnixStream::connect_addr(&address)?;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        }
        Target::Host(path) | Target::Unix(path) => UnixStream::connect(path).await,
    }
}

/// Whether traces may begin here. Where they may not, requests are still told whose caller had theirs sampled.
pub(in crate::telemetry) fn begins_traces(config: &Tracing) -> bool {
    config.sampling_rate_per_million.is_some_and(|rate| rate > 0)
}

/// The sampler: whatever a caller sampled, and this part of the traces that begin here.
pub(in crate::telemetry) fn sampler(config: &Tracing) -> Sampler {
    let own = match config.sampling_rate_per_million.filter(|rate| *rate > 0) {
        Some(rate) => Sampler::TraceIdRatioBased(f64::from(rate) / 1e6),
        None => Sampler::AlwaysOff,
    };
    Sampler::ParentBased(Box::new(own))
}

/// Makes the exporter of a configuration. Call it inside the tokio runtime.
///
/// # Errors
/// An endpoint that cannot be one. A collector that does not answer is no error: spans are dropped until it does.
pub(in crate::telemetry) fn provider(config: &Tracing, node_name: &str) -> Result<SdkTracerProvider, TracingError> {
    let channel = channel(config.endpoint.as_deref().unwrap_or(ENDPOINT_DEFAULT))?;
    let exporter = SpanExporter::builder().with_tonic().with_channel(channel).build();
    let exporter = exporter.map_err(|error| TracingError::Exporter(error.to_string()))?;
    let batches = BatchConfigBuilder::default().with_max_queue_size(QUEUE_MAX).build();
    let resource = Resource::builder_empty()
        .with_attributes([KeyValue::new("service.name", "kubelet"), KeyValue::new("host.name", node_name.to_owned())])
        .build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build())
        .with_sampler(sampler(config))
        .with_span_limits(SpanLimits::default())
        .with_resource(resource)
        .build())
}

/// The tracer of turns, passes and requests.
pub(in crate::telemetry) fn tracer(provider: &SdkTracerProvider) -> SdkTracer {
    provider.tracer("podwright")
}

/// From now on calls to the runtime have spans, too, and go out with their context. A second exporter in one process is for
/// tests alone; calls go to the first.
pub(in crate::telemetry) fn export_calls(provider: &SdkTracerProvider) {
    let _ = EXPORT.set(Export { tracer: tracer(provider), clock: SystemClock::start() });
}

/// Tells a call to the runtime that just ended, as a child of the span it was made in.
pub(in crate::telemetry) fn record_call(operation: &'static str, took: Duration, failed: bool) {
    let Some(export) = EXPORT.get() else { return };
    let parent = tracing::Span::current().context();
    if !parent.span().span_context().is_sampled() {
        return;
    }
    let ended = std::time::UNIX_EPOCH + export.clock.now().since(crate::logic::model::time::Moment::EPOCH);
    let span = export
        .tracer
        .span_builder(call_name(operation))
        .with_kind(SpanKind::Client)
        .with_start_time(ended - took)
        .with_attributes([KeyValue::new("rpc.system", "grpc")]);
    let mut span = export.tracer.build_with_context(span, &parent);
    if failed {
        span.set_status(Status::error("call failed"));
    }
    span.end_with_timestamp(ended);
}

/// The call's full gRPC name, as upstream's spans have it.
fn call_name(operation: &'static str) -> String {
    let image = ["list_images", "image_status", "pull_image", "remove_image", "image_fs_info"].contains(&operation);
    let service = if image { "ImageService" } else { "RuntimeService" };
    let call = Call::ALL.iter().find(|call| call.operation == operation);
    format!("runtime.v1.{service}/{}", call.map_or(operation, |call| call.method))
}

/// The current span's context as W3C writes it; empty where nothing is exported.
pub(in crate::telemetry) fn current_context() -> Vec<(&'static str, String)> {
    if EXPORT.get().is_none() {
        return Vec::new();
    }
    injected(&tracing::Span::current().context())
}

fn injected(context: &Context) -> Vec<(&'static str, String)> {
    struct Pairs(Vec<(&'static str, String)>);
    impl Injector for Pairs {
        fn set(&mut self, key: &str, value: String) {
            let known = ["traceparent", "tracestate", "baggage"].into_iter().find(|name| *name == key);
            if let Some(name) = known.filter(|_| !value.is_empty()) {
                self.0.push((name, value));
            }
        }
    }
    let mut pairs = Pairs(Vec::new());
    propagator().inject_context(context, &mut pairs);
    pairs.0
}

/// The headers that go from call to call, as upstream has it: W3C's trace context and baggage.
pub(super) fn propagator() -> TextMapCompositePropagator {
    TextMapCompositePropagator::new(vec![Box::new(TraceContextPropagator::new()), Box::new(BaggagePropagator::new())])
}

#[cfg(test)]
mod tests;
