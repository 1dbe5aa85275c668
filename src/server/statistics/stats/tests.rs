//! Tests of the routes: a whole tree without a runtime, on a node that always says the same.

use std::sync::Arc;

use axum::Router;
use hyper::StatusCode;
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use crate::cri::wire::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use crate::cri::wire::{
    ListMetricDescriptorsRequest, ListMetricDescriptorsResponse, ListPodSandboxMetricsRequest,
    ListPodSandboxMetricsResponse, ListPodSandboxStatsRequest, ListPodSandboxStatsResponse, Metric, MetricDescriptor,
    MetricType, PodSandboxMetrics, UInt64Value,
};
use crate::server::routes;
use crate::server::tests::{Node, ask_routes};

async fn router(node: &Node) -> Router {
    node.start().await;
    routes::read_only(Arc::clone(&node.backend))
}

/// SRV-24: on the read-only port, too, in upstream's form.
#[tokio::test]
async fn the_summary_is_json_with_one_blank_a_level() {
    let node = Node::plain();
    let router = router(&node).await;
    for method in ["GET", "POST"] {
        let (status, body) = ask_routes(&router, method, "/stats/summary").await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert!(body.starts_with("{\n \"node\": {\n  \"nodeName\": \"n1\",\n"), "{body}");
        assert!(body.ends_with("\n \"pods\": []\n}"), "{body}");
        let told: Value = serde_json::from_str(&body).expect("JSON");
        assert!(told["node"]["fs"]["capacityBytes"].is_u64() && told["node"]["rlimit"]["maxpid"].is_u64());
    }
    let (status, body) = ask_routes(&router, "DELETE", "/stats/summary").await;
    assert_eq!((status, body.as_str()), (StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"));
    assert_eq!(ask_routes(&router, "GET", "/stats/").await.0, StatusCode::NOT_FOUND);
}

/// SRV-24: exactly that word.
#[tokio::test]
async fn only_the_exact_word_leaves_things_out() {
    let node = Node::plain();
    let router = router(&node).await;
    let cases = [
        ("?only_cpu_and_memory=true", false),
        ("?only_cpu_and_memory=TRUE", true),
        ("?only_cpu_and_memory=1", true),
        ("?only_cpu_and_memory=true&only_cpu_and_memory=true", true),
        ("", true),
    ];
    for (query, is_whole) in cases {
        let (_, body) = ask_routes(&router, "GET", &format!("/stats/summary{query}")).await;
        let told: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(told["node"].get("rlimit").is_some(), is_whole, "{query}");
    }
}

/// OBS-01, OBS-02, OBS-17, OBS-20: each endpoint has its own set.
#[tokio::test]
async fn both_pages_of_metrics_have_their_own_sets() {
    let node = Node::plain();
    let router = router(&node).await;
    let (status, resource) = ask_routes(&router, "GET", "/metrics/resource").await;
    assert_eq!(status, StatusCode::OK);
    assert!(resource.contains("\nresource_scrape_error 0\n") && resource.contains("\nnode_cpu_usage_seconds_total "));
    assert!(!resource.contains("\nscrape_error "), "upstream hides what it deprecated: {resource}");
    assert!(!resource.contains("machine_cpu_cores"));
    let (status, cadvisor) = ask_routes(&router, "GET", "/metrics/cadvisor").await;
    assert_eq!(status, StatusCode::OK);
    assert!(cadvisor.contains("\nmachine_cpu_cores{") && cadvisor.contains("id=\"/kubepods\""));
    assert!(!cadvisor.contains("node_cpu_usage_seconds_total"));
    let (_, metrics) = ask_routes(&router, "GET", "/metrics").await;
    assert!(metrics.contains("podwright_statistics_total{for=\"resources\"} 1\n"), "{metrics}");
    assert!(metrics.contains("podwright_statistics_total{for=\"everything but disks\"} 1\n"));
}

/// PAIN-05: who asks at about the same time shares a look, and who wants less is served by more.
#[tokio::test]
async fn scrapes_at_about_the_same_time_share_a_look() {
    let node = Node::plain();
    let router = router(&node).await;
    for path in
        ["/metrics/cadvisor", "/metrics/cadvisor", "/metrics/resource", "/stats/summary?only_cpu_and_memory=true"]
    {
        assert_eq!(ask_routes(&router, "GET", path).await.0, StatusCode::OK);
    }
    let (_, metrics) = ask_routes(&router, "GET", "/metrics").await;
    let looks: Vec<&str> = metrics.lines().filter(|line| line.starts_with("podwright_statistics_total{")).collect();
    // The page itself looks at disks, for the logs of containers.
    let expected = [
        "podwright_statistics_total{for=\"everything but disks\"} 1",
        "podwright_statistics_total{for=\"summary\"} 1",
        "podwright_statistics_total{for=\"walks\"} 0",
    ];
    assert_eq!(looks, expected);
}

/// A runtime that tells the metrics of one sandbox, and of no pod's figures.
struct Told;

#[tonic::async_trait]
impl RuntimeService for Told {
    async fn list_pod_sandbox_stats(
        &self,
        _: Request<ListPodSandboxStatsRequest>,
    ) -> Result<Response<ListPodSandboxStatsResponse>, Status> {
        Ok(Response::new(ListPodSandboxStatsResponse::default()))
    }

    async fn list_metric_descriptors(
        &self,
        _: Request<ListMetricDescriptorsRequest>,
    ) -> Result<Response<ListMetricDescriptorsResponse>, Status> {
        let (name, help, label_keys) = ("container_tests_total".into(), "Tests.".into(), vec!["id".into()]);
        let descriptors = vec![MetricDescriptor { name, help, label_keys }];
        Ok(Response::new(ListMetricDescriptorsResponse { descriptors }))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<ListPodSandboxMetricsRequest>,
    ) -> Result<Response<ListPodSandboxMetricsResponse>, Status> {
        let metric = Metric {
            name: "container_tests_total".into(),
            metric_type: MetricType::Counter.into(),
            label_values: vec!["/pod".into()],
            value: Some(UInt64Value { value: 7 }),
            ..Metric::default()
        };
        let pod = PodSandboxMetrics { metrics: vec![metric], ..PodSandboxMetrics::default() };
        Ok(Response::new(ListPodSandboxMetricsResponse { pod_metrics: vec![pod] }))
    }
}

/// OBS-20: under the gate the runtime's series take the place of those of control groups.
#[tokio::test]
async fn the_runtimes_metrics_are_shown_under_the_gate() {
    let node = Node::with_figures_of_the_runtime();
    let listener = UnixListener::bind(node.folder.path().join("no-runtime.sock")).expect("free");
    let server = tonic::transport::Server::builder().add_service(RuntimeServiceServer::new(Told));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { drop(server.serve_with_incoming(UnixListenerStream::new(listener)).await) });
    let router = router(&node).await;
    let (status, page) = ask_routes(&router, "GET", "/metrics/cadvisor").await;
    assert_eq!(status, StatusCode::OK);
    let first = "# HELP container_tests_total Tests.\n# TYPE container_tests_total counter\n\
                 container_tests_total{id=\"/pod\"} 7\n# HELP machine_cpu_cores ";
    assert!(page.starts_with(first) && !page.contains("id=\"/kubepods\""), "{page}");
    let (status, summary) = ask_routes(&router, "GET", "/stats/summary").await;
    assert_eq!(status, StatusCode::OK, "{summary}");
    let (_, metrics) = ask_routes(&router, "GET", "/metrics").await;
    assert!(metrics.contains("\nkubelet_metrics_provider{provider=\"cri\"} 1\n"), "{metrics}");
}

/// OBS-20: as upstream, a runtime that is away costs its own metrics, and the figures of pods.
#[tokio::test]
async fn a_runtime_that_is_away_has_no_metrics_under_the_gate() {
    let node = Node::with_figures_of_the_runtime();
    let router = router(&node).await;
    let (status, page) = ask_routes(&router, "GET", "/metrics/cadvisor").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.starts_with("# HELP machine_cpu_cores "), "{page}");
    let (status, body) = ask_routes(&router, "GET", "/stats/summary").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(body.starts_with("Internal Error: failed to list pod stats: "), "{body}");
    let (_, resource) = ask_routes(&router, "GET", "/metrics/resource").await;
    assert!(resource.contains("resource_scrape_error 1\n") && !resource.contains("container_cpu"), "{resource}");
}
