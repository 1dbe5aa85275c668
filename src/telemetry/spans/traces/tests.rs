//! Tests of the export of spans.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::UnixListenerStream;
use tracing::Instrument;
use tracing_subscriber::prelude::*;

use super::super::request_spans::{TraceOrigin, request_answered, request_span};
use super::*;
use crate::telemetry::setup::span_layer;

/// A collector that remembers.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.0.lock().expect("whole").push(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

/// As the actors' stage and context make them: a turn, an operation that it starts, the turn that takes its end.
async fn two_turns(calls: &crate::telemetry::RuntimeMetrics) -> Vec<(&'static str, String)> {
    use crate::cri::instrumented::CallObserver;
    let first = tracing::info_span!(target: TURN_TARGET, parent: None, "turn", actor = "A", message = "Go");
    let operation = first.in_scope(|| {
        tracing::info!("a line of the log is no part of a span's export");
        tracing::info_span!(target: TURN_TARGET, "operation", name = "run sandbox")
    });
    let (context, sender) = async {
        calls.called("run_podsandbox", Duration::from_millis(20), true);
        (calls.context(), tracing::Span::current())
    }
    .instrument(operation)
    .await;
    let second = tracing::info_span!(target: TURN_TARGET, parent: None, "turn", actor = "A", message = "Ended");
    second.follows_from(sender.id());
    drop(tracing::info_span!(target: "elsewhere", "not exported"));
    context
}

/// The spans that a collector gets of `code`, with a sampling rate a million.
async fn exported<T>(
    rate: i32,
    with_calls: bool,
    code: impl AsyncFnOnce() -> T,
) -> (Vec<Span>, Vec<ExportTraceServiceRequest>, T) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("otel.sock");
    let collector = Collector::default();
    let listener = tokio::net::UnixListener::bind(&path).expect("bound");
    let mut tasks = tokio::task::JoinSet::new();
    let service = TraceServiceServer::new(collector.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    tasks.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    let endpoint = Some(format!("unix://{}", path.display()));
    let config = Tracing { endpoint, sampling_rate_per_million: Some(rate) };
    let provider = provider(&config, "n1").expect("an endpoint");
    let subscriber = tracing_subscriber::registry().with(span_layer(&provider, begins_traces(&config)));
    if with_calls {
        export_calls(&provider); // In one test of the process.
    }
    let outcome = {
        let _default = tracing::subscriber::set_default(subscriber);
        code().await
    };
    crate::platform::host::blocking::run(move || {
        provider.shutdown_with_timeout(Duration::from_secs(60)).expect("sent")
    })
    .await;
    let requests = collector.0.lock().expect("whole").clone();
    let spans = requests
        .iter()
        .flat_map(|request| &request.resource_spans)
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| scope.spans.clone())
        .collect();
    (spans, requests, outcome)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_operations_and_calls_reach_a_collector_with_parents_and_links() {
    let metrics = crate::telemetry::Metrics::default();
    let (spans, requests, context) = exported(1_000_000, true, async || two_turns(&metrics.runtime()).await).await;
    let resource = format!("{:?}", requests[0].resource_spans[0].resource);
    assert!(resource.contains("kubelet") && resource.contains("n1"), "{resource}");
    assert_eq!(spans.len(), 4, "{spans:?}");
    let of = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let [operation] = of("operation")[..] else { panic!("one operation") };
    let [call] = of("runtime.v1.RuntimeService/RunPodSandbox")[..] else { panic!("one call") };
    let turn = |message: &str| {
        let has = |span: &&Span| format!("{:?}", span.attributes).contains(message);
        of("turn").into_iter().find(|span| has(span)).expect("a turn")
    };
    let (first, second) = (turn("Go"), turn("Ended"));
    assert!(first.parent_span_id.is_empty() && second.parent_span_id.is_empty(), "turns are roots");
    assert_eq!((&operation.trace_id, &operation.parent_span_id), (&first.trace_id, &first.span_id));
    assert_eq!((&call.trace_id, &call.parent_span_id), (&operation.trace_id, &operation.span_id));
    assert_eq!(call.end_time_unix_nano - call.start_time_unix_nano, 20_000_000);
    let links: Vec<_> = second.links.iter().map(|link| (&link.trace_id, &link.span_id)).collect();
    assert_eq!(links, [(&operation.trace_id, &operation.span_id)]);
    let hex: String = operation.span_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let traceparent = &context.iter().find(|(name, _)| *name == "traceparent").expect("sent along").1;
    assert!(traceparent.ends_with(&format!("{hex}-01")), "{traceparent}");
}

/// CFG-47.
#[test]
fn endpoints_have_grpcs_forms() {
    let host = |text: &str| Target::Host(text.to_owned());
    for (endpoint, target) in [
        ("localhost:4317", host("localhost:4317")),
        ("[::1]:4317", host("[::1]:4317")),
        ("dns:collector:1", host("collector:1")),
        ("dns:///collector:1", host("collector:1")),
        ("dns://10.0.0.1/collector:1", host("collector:1")),
        ("unix:/run/otel.sock", Target::Unix("/run/otel.sock".to_owned())),
        ("unix:///run/otel.sock", Target::Unix("/run/otel.sock".to_owned())),
        ("unix-abstract:otel", Target::Abstract("otel".to_owned())),
    ] {
        assert_eq!(parse_endpoint(endpoint), target, "{endpoint}");
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A request as the server has it run, by a caller whose trace is sampled.
async fn one_request(origin: TraceOrigin) {
    let mut headers = http::HeaderMap::new();
    headers.insert("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01").parse().expect("a value"));
    let span = request_span("GET", "/pods", &headers, origin);
    async { request_answered(&tracing::Span::current(), 200) }.instrument(span).await;
    drop(tracing::info_span!(target: TURN_TARGET, parent: None, "turn"));
}

/// SRV-54, OBS-28, OBS-30: a caller's trace goes on here whatever the rate, but nobody unknown can have one sampled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requests_span_is_its_callers_child_where_callers_are_known() {
    for (rate, origin, names) in [
        (0, TraceOrigin::Caller, vec!["/pods"]),
        (0, TraceOrigin::Anybody, vec![]),
        (1_000_000, TraceOrigin::Caller, vec!["/pods", "turn"]),
        (1_000_000, TraceOrigin::Anybody, vec!["/pods", "turn"]),
    ] {
        let (mut spans, _, ()) = exported(rate, false, async || one_request(origin).await).await;
        spans.sort_by(|one, other| one.name.cmp(&other.name));
        let told: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(told, names, "{rate} {origin:?}");
        let Some(request) = spans.first() else { continue };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let parent = hex(&request.parent_span_id);
        match origin {
            TraceOrigin::Caller => {
                assert_eq!((hex(&request.trace_id).as_str(), parent.as_str()), (TRACE, "b7ad6b7169203331"));
            }
            TraceOrigin::Anybody => {
                assert!(parent.is_empty() && hex(&request.trace_id) != TRACE);
                assert_eq!(hex(&request.links[0].trace_id), TRACE);
            }
        }
        assert_eq!(request.kind, 2, "a server's");
        let attributes = format!("{:?}", request.attributes);
        assert!(attributes.contains("http.response.status_code") && attributes.contains("200"), "{attributes}");
    }
}

/// OBS-30: what a known caller's request carries goes on with the calls that are made for it; nobody else's does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn baggage_goes_on_where_callers_are_known() {
    let carried = async |origin, trace: bool| {
        let mut headers = http::HeaderMap::new();
        headers.insert("baggage", "tenant=blue,path=a%20b".parse().expect("a value"));
        if trace {
            headers.insert("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01").parse().expect("a value"));
        }
        let span = request_span("GET", "/pods", &headers, origin);
        let pairs = async { injected(&tracing::Span::current().context()) }.instrument(span).await;
        pairs.into_iter().find(|(name, _)| *name == "baggage").map(|(_, value)| value)
    };
    for trace in [true, false] {
        let (_, _, (known, unknown)) = exported(1_000_000, false, async || {
            (carried(TraceOrigin::Caller, trace).await, carried(TraceOrigin::Anybody, trace).await)
        })
        .await;
        let known = known.expect("carried on");
        let mut parts: Vec<&str> = known.split(',').collect();
        parts.sort_unstable();
        assert_eq!(parts, ["path=a%20b", "tenant=blue"]);
        assert_eq!(unknown, None);
    }
}

#[test]
fn traces_begin_here_only_if_a_rate_says_so() {
    let config = |rate| Tracing { endpoint: None, sampling_rate_per_million: rate };
    let begins: Vec<bool> = [None, Some(0), Some(1)].map(|rate| begins_traces(&config(rate))).to_vec();
    assert_eq!(begins, [false, false, true]);
}

#[test]
fn calls_have_their_grpc_names() {
    assert_eq!(call_name("run_podsandbox"), "runtime.v1.RuntimeService/RunPodSandbox");
    assert_eq!(call_name("image_status"), "runtime.v1.ImageService/ImageStatus");
    assert_eq!(call_name("update_container"), "runtime.v1.RuntimeService/UpdateContainerResources");
}

#[test]
fn a_context_is_written_as_w3c_has_it() {
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
    let span = SpanContext::new(
        TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").expect("hex"),
        SpanId::from_hex("b7ad6b7169203331").expect("hex"),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    let pairs = injected(&Context::new().with_remote_span_context(span));
    let expected = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_eq!(pairs, [("traceparent", expected.to_owned())]);
    assert!(injected(&Context::new()).is_empty());
}
