//! Tests of the export of spans.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::UnixListenerStream;
use tracing::Instrument;
use tracing_subscriber::prelude::*;

use super::super::setup::span_layer;
use super::*;

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

/// As the actors' stage and desk make them: a turn, an operation that it starts, the turn that takes its end.
async fn two_turns(calls: &super::super::RuntimeMetrics) -> Vec<(&'static str, String)> {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_operations_and_calls_reach_a_collector_with_parents_and_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("otel.sock");
    let collector = Collector::default();
    let listener = tokio::net::UnixListener::bind(&path).expect("bound");
    let mut tasks = tokio::task::JoinSet::new();
    let service = TraceServiceServer::new(collector.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    tasks.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    let endpoint = Some(format!("unix://{}", path.display()));
    let config = Tracing { endpoint, sampling_rate_per_million: Some(1_000_000) };
    let provider = provider(&config, sampler(&config).expect("sampled"), "n1").expect("an endpoint");
    let subscriber = tracing_subscriber::registry().with(span_layer(&provider));
    let context = {
        let _default = tracing::subscriber::set_default(subscriber);
        let metrics = super::super::Metrics::default();
        two_turns(&metrics.runtime()).await
    };
    crate::platform::blocking::run(move || provider.shutdown().expect("sent")).await;
    let requests = collector.0.lock().expect("whole").clone();
    let resource = format!("{:?}", requests[0].resource_spans[0].resource);
    assert!(resource.contains("kubelet") && resource.contains("n1"), "{resource}");
    let spans: Vec<Span> = requests
        .into_iter()
        .flat_map(|request| request.resource_spans)
        .flat_map(|resource| resource.scope_spans)
        .flat_map(|scope| scope.spans)
        .collect();
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

#[test]
fn nothing_is_sampled_unless_a_rate_says_so() {
    let config = |rate| Tracing { endpoint: None, sampling_rate_per_million: rate };
    assert!(sampler(&config(None)).is_none());
    assert!(sampler(&config(Some(0))).is_none());
    assert!(sampler(&config(Some(1))).is_some());
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
