//! PodResources: what is listed, found and refused; counts, rate, and the socket after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tonic::Code;

use super::super::wire::podresources_v1::{
    self as v1, AllocatableResourcesRequest, GetPodResourcesRequest, ListPodResourcesRequest,
};
use super::super::wire::podresources_v1alpha1 as v1alpha1;
use super::super::wire::podresources_v1alpha1::pod_resources_lister_client::PodResourcesListerClient as OldClient;
use super::{channel, pod_resources, socket, status, tell_view, view};
use crate::actors::kit::trace::Faults;
use crate::actors::server::Listener;
use crate::logic::plugins::claims::book::{ClaimBook, ClaimInfo};
use crate::logic::plugins::claims::{ClaimId, ClaimKey, PreparedDevice};
use crate::logic::resources::allocations::{Allocation, Allocations, DeviceEntry, MemoryBlock};
use crate::server::rpc::pod_resources::{Owned, of_pod, of_pod_before_v1};
use crate::server::tests::Node;

fn get(name: &str, namespace: &str) -> GetPodResourcesRequest {
    GetPodResourcesRequest { pod_name: name.to_owned(), pod_namespace: namespace.to_owned() }
}

fn names(pods: &[v1::PodResources]) -> Vec<&str> {
    pods.iter().map(|pod| pod.name.as_str()).collect()
}

/// RES-53, SRV-51: both versions on one socket; one who has ended is in the older list alone.
#[tokio::test]
async fn active_pods_are_listed_and_found_by_their_names() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let (web, mut ended, mut over) = (view("web"), view("ended"), view("over"));
    (ended.may_run, ended.status) = (false, status(json!({ "phase": "Succeeded" })));
    (over.may_run, over.is_over) = (false, true);
    [&web, &ended, &over].into_iter().for_each(|view| tell_view(&node, view));

    let mut client = pod_resources(&node).await;
    let listed = client.list(ListPodResourcesRequest {}).await.expect("answered").into_inner().pod_resources;
    assert_eq!(names(&listed), ["web"]);
    assert_eq!((&*listed[0].namespace, &*listed[0].containers[0].name), ("shop", "a"));

    let found = client.get(get("web", "shop")).await.expect("answered").into_inner();
    assert_eq!(found.pod_resources.as_ref(), Some(&listed[0]));
    for (name, namespace) in [("ended", "shop"), ("over", "shop"), ("web", "other"), ("nobody", "shop")] {
        let refused = client.get(get(name, namespace)).await.expect_err("not there");
        assert_eq!(refused.code(), Code::Unknown);
        assert_eq!(refused.message(), format!("pod {name} in namespace {namespace} not found"));
    }
    let given = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.expect("answered").into_inner();
    assert_eq!(given, v1::AllocatableResourcesResponse::default(), "policy none has nothing to give");

    let mut older = OldClient::new(channel(&socket(&node, "pod-resources/kubelet.sock").await).await);
    let listed = older.list(v1alpha1::ListPodResourcesRequest {}).await.expect("answered").into_inner().pod_resources;
    assert_eq!(listed.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["ended", "web"]);
}

/// RES-53.
#[test]
fn containers_that_last_are_shown_with_what_they_own() {
    let pod = json!({
        "metadata": { "name": "p", "namespace": "n", "uid": "u" },
        "spec": {
            "initContainers": [{ "name": "first" }, { "name": "side", "restartPolicy": "Always" }],
            "containers": [{ "name": "main" }, { "name": "other" }],
        },
    });
    let pod = serde_json::from_value(pod).expect("a pod");
    let memory = MemoryBlock { memory_type: "hugepages-2Mi".to_owned(), bytes: 1 << 40, nodes: vec![0, 1] };
    let device = |node| DeviceEntry { resource: "vendor.com/gpu".to_owned(), id: "g0".to_owned(), node };
    let owned = Allocation { cpu_ids: vec![2, 3], memory: vec![memory], devices: vec![device(Some(1)), device(None)] };
    let containers = [("first".to_owned(), owned.clone()), ("main".to_owned(), owned)].into();
    let allocations = Allocations { containers: [("u".into(), containers)].into(), ..Allocations::default() };

    let allocations = Arc::new(allocations);
    let owned = Owned { allocations: Arc::clone(&allocations), ..Owned::default() };
    let shown = of_pod(&"u".into(), &pod, &owned);
    let of = |name: &str| shown.containers.iter().find(|container| container.name == name).expect("is shown");
    assert_eq!(
        shown.containers.iter().map(|container| &*container.name).collect::<Vec<_>>(),
        ["side", "main", "other"]
    );
    let at = |ids: &[i64]| Some(v1::TopologyInfo { nodes: ids.iter().map(|id| v1::NumaNode { id: *id }).collect() });
    let main = of("main");
    assert_eq!(main.cpu_ids, [2, 3]);
    assert_eq!(
        main.memory[0],
        v1::ContainerMemory { memory_type: "hugepages-2Mi".to_owned(), size: 1 << 40, topology: at(&[0, 1]) }
    );
    assert_eq!(main.devices.iter().map(|device| device.topology.clone()).collect::<Vec<_>>(), [at(&[1]), None]);
    assert_eq!(of("other"), &v1::ContainerResources { name: "other".to_owned(), ..Default::default() });

    let older = of_pod_before_v1(&"u".into(), &pod, &allocations);
    let devices: Vec<(&str, usize)> =
        older.containers.iter().map(|container| (&*container.name, container.devices.len())).collect();
    assert_eq!(devices, [("main", 2), ("other", 0)]);
}

/// RES-53.
#[test]
fn res_53_a_container_is_shown_with_the_claims_that_it_names() {
    let resources = json!({ "claims": [{ "name": "gpu" }] });
    let pod = json!({
        "metadata": { "name": "p", "namespace": "n", "uid": "u" },
        "spec": {
            "containers": [{ "name": "main", "resources": resources }, { "name": "other" }],
            "resourceClaims": [{ "name": "gpu", "resourceClaimName": "a" }],
        },
    });
    let pod = serde_json::from_value(pod).expect("a pod");
    let device = PreparedDevice {
        pool_name: "pool".to_owned(),
        device_name: "d0".to_owned(),
        share_id: Some("s".to_owned()),
        request_names: vec![],
        cdi_device_ids: vec!["vendor.com/gpu=d0".to_owned()],
    };
    let key = ClaimKey { namespace: "n".to_owned(), name: "a".to_owned() };
    let claim = ClaimInfo {
        id: ClaimId { key, uid: "c".to_owned() },
        pods: ["u".into()].into(),
        drivers: [("drv".to_owned(), vec![device])].into(),
        prepared: true,
    };
    let owned = Owned { claims: Arc::new(ClaimBook::of([claim])), ..Owned::default() };
    let shown = of_pod(&"u".into(), &pod, &owned);
    let resource = v1::ClaimResource {
        cdi_devices: vec![v1::CdiDevice { name: "vendor.com/gpu=d0".to_owned() }],
        driver_name: "drv".to_owned(),
        pool_name: "pool".to_owned(),
        device_name: "d0".to_owned(),
        share_id: Some("s".to_owned()),
    };
    let claim = v1::DynamicResource {
        claim_name: "a".to_owned(),
        claim_namespace: "n".to_owned(),
        claim_resources: vec![resource],
    };
    assert_eq!(shown.containers[0].dynamic_resources, [claim]);
    assert_eq!(shown.containers[1].dynamic_resources, []);
}

/// RES-54: a burst of ten for both versions together; what is over the rate is refused with upstream's text, and counted
/// nowhere.
#[tokio::test]
async fn calls_are_bounded_by_rate_and_counted() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let mut client = pod_resources(&node).await;
    let mut older = OldClient::new(channel(&socket(&node, "pod-resources/kubelet.sock").await).await);
    for _ in 0..4 {
        client.list(ListPodResourcesRequest {}).await.expect("answered");
        older.list(v1alpha1::ListPodResourcesRequest {}).await.expect("answered");
    }
    client.get(get("nobody", "shop")).await.expect_err("not there");
    client.get_allocatable_resources(AllocatableResourcesRequest {}).await.expect("answered");
    let refused = client.list(ListPodResourcesRequest {}).await.expect_err("over the rate");
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "rejected by rate limit"));
    let refused = older.list(v1alpha1::ListPodResourcesRequest {}).await.expect_err("over the rate");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    node.clock.advance(Duration::from_secs(1));
    client.list(ListPodResourcesRequest {}).await.expect("a second later");

    let text = node.metrics.all(&node.backend.sources).await.text();
    for line in [
        "requests_total{server_api_version=\"v1\"} 7",
        "requests_total{server_api_version=\"v1alpha1\"} 4",
        "requests_list{server_api_version=\"v1\"} 5",
        "requests_get{server_api_version=\"v1\"} 1",
        "requests_get_allocatable{server_api_version=\"v1\"} 1",
        "errors_get{server_api_version=\"v1\"} 1",
    ] {
        let line = format!("kubelet_pod_resources_endpoint_{line}");
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("endpoint_errors_list"), "{text}");
}

/// A listener that ends as soon as it begins.
struct Ends;

#[async_trait::async_trait]
impl Listener for Ends {
    fn name(&self) -> String {
        "ends".to_owned()
    }
    async fn serve(&self) -> String {
        "no reason".to_owned()
    }
}

/// Strikes `Server` at its first message.
#[derive(Default)]
struct Once(AtomicBool);

impl Faults for Once {
    fn strikes_before(&self, kind: &'static str, _: &str, _: u64) -> bool {
        kind == "Server" && !self.0.swap(true, Ordering::SeqCst)
    }
    fn strikes_after(&self, _: &'static str, _: &str, _: u64) -> bool {
        false
    }
}

/// SRV-51.
#[tokio::test]
async fn the_socket_is_served_again_after_a_crash() {
    let struck = Arc::new(Once::default());
    let node = Node::with_rpc(Some(struck.clone()), vec![Arc::new(Ends)]);
    node.start().await;
    while !struck.0.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tell_view(&node, &view("web"));
    // The socket of the first incarnation may still be seen for a moment.
    let listed = loop {
        if let Ok(listed) = pod_resources(&node).await.list(ListPodResourcesRequest {}).await {
            break listed.into_inner().pod_resources;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(names(&listed), ["web"]);
}
