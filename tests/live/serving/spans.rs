//! Spans as a collector gets them: a pod's start by upstream's names, with the calls to the runtime below it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tokio_stream::wrappers::UnixListenerStream;

use crate::harness::Node;
use crate::pods::{forever, pod, with};

/// A collector that remembers.
#[derive(Clone, Default)]
pub struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// One beside a node, whose agent sends it every span; it listens as long as the runtime lives.
    pub fn beside(node: &mut Node) -> (Self, tokio::runtime::Runtime) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (collector, socket) = (Self::default(), node.dir.join("otel.sock"));
        collector.listen(&runtime, &socket);
        let endpoint = format!("unix://{}", socket.display());
        node.configure(json!({"tracing": {"endpoint": endpoint, "samplingRatePerMillion": 1_000_000}}));
        (collector, runtime)
    }

    /// Listens on a socket as long as the runtime lives.
    fn listen(&self, runtime: &tokio::runtime::Runtime, socket: &Path) {
        let _context = runtime.enter();
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let service = TraceServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    }

    /// All spans that have come.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Option<opentelemetry_proto::tonic::common::v1::AnyValue>| format!("{value:?}");
    span.attributes.iter().map(|pair| (pair.key.as_str(), text(&pair.value))).collect()
}

/// OBS-28, OBS-29, OBS-30, CFG-47, SEC-40: what a pod is given in confidence is in no span.
#[test]
fn calls_to_the_runtime_are_below_the_pods_sync() {
    let Some(mut node) = Node::new() else { return };
    let (collector, _runtime) = Collector::beside(&mut node);
    node.start_agent();
    let environment = json!({"env": [{"name": "TOKEN", "value": "marked-environment-4711"}]});
    node.apply(&pod("web", &[with(forever("main"), environment)]));
    node.wait_running("web", "main");
    node.delete("web");
    node.wait_gone("web");
    // A span goes out when it is over: the last one's end comes after what the runtime was asked in it.
    node.eventually("the pod's end is told", || {
        let spans = collector.spans();
        let removal = spans.iter().find(|span| span.name == "runtime.v1.RuntimeService/RemovePodSandbox")?;
        let mut of_trace = spans.iter().filter(|span| span.trace_id == removal.trace_id);
        of_trace.any(|span| span.name == "syncTerminatedPod").then_some(())
    });
    node.stop_agent();
    let spans = collector.spans();
    assert!(!format!("{spans:?}").contains("marked-"), "{spans:?}");
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    // From a span up to its trace's root.
    let root_of = |span: &Span| {
        let mut at = span.clone();
        while let Some(parent) = by_id.get(at.parent_span_id.as_slice()) {
            at = (*parent).clone();
        }
        at
    };
    for (call, root) in [
        ("runtime.v1.RuntimeService/RunPodSandbox", "syncPod"),
        ("runtime.v1.RuntimeService/CreateContainer", "syncPod"),
        ("runtime.v1.RuntimeService/StartContainer", "syncPod"),
        ("runtime.v1.RuntimeService/StopPodSandbox", "syncTerminatingPod"),
        ("runtime.v1.RuntimeService/RemovePodSandbox", "syncTerminatedPod"),
    ] {
        let made = spans.iter().find(|span| span.name == call).unwrap_or_else(|| panic!("no {call}"));
        let top = root_of(made);
        assert_eq!((top.name.as_str(), &top.trace_id), (root, &made.trace_id), "{call}");
        let told = attributes(&top);
        for (key, value) in
            [("k8s.pod.name", "web-node1"), ("k8s.namespace.name", "default"), ("k8s.pod", "default/web-node1")]
        {
            assert!(told.get(key).is_some_and(|told| told.contains(value)), "{key} of {told:?}");
        }
        assert!(told.contains_key("k8s.pod.uid") && told.contains_key("k8s.pod.update_type"), "{told:?}");
    }
}
