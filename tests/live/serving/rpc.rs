//! The gRPC sockets of the agent as it ships: PodResources and the Pods API, asked by clients of the published protocols.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use podwright::server::rpc::wire::podresources_v1::pod_resources_lister_client::PodResourcesListerClient;
use podwright::server::rpc::wire::podresources_v1::{
    AllocatableResourcesRequest, GetPodResourcesRequest, ListPodResourcesRequest, PodResources,
};
use podwright::server::rpc::wire::pods_v1alpha1::pods_client::PodsClient;
use podwright::server::rpc::wire::pods_v1alpha1::{EventType, ListPodsRequest, WatchPodsEvent, WatchPodsRequest};
use serde_json::json;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use crate::harness::{Node, PATIENCE, http_get};
use crate::pods::{forever, pod, with};

/// A client on a thread of its own.
pub struct Client {
    tokio: tokio::runtime::Runtime,
    socket: PathBuf,
}

impl Client {
    pub fn of(node: &Node, socket: &str) -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { tokio, socket: node.dir.join("kubelet").join(socket) }
    }

    /// `None` while nobody listens.
    fn channel(&self) -> Option<Channel> {
        let socket = self.socket.clone();
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        self.tokio.block_on(Endpoint::from_static("http://localhost").connect_with_connector(connect)).ok()
    }

    pub fn list(&self) -> Option<Result<Vec<PodResources>, Status>> {
        let mut client = PodResourcesListerClient::new(self.channel()?);
        let answer = self.tokio.block_on(client.list(ListPodResourcesRequest {}));
        Some(answer.map(|answer| answer.into_inner().pod_resources))
    }

    fn get(&self, name: &str) -> Result<PodResources, Status> {
        let request = GetPodResourcesRequest { pod_name: name.to_owned(), pod_namespace: "default".to_owned() };
        let mut client = PodResourcesListerClient::new(self.channel().expect("somebody listens"));
        let answer = self.tokio.block_on(client.get(request))?;
        Ok(answer.into_inner().pod_resources.expect("a pod"))
    }

    fn next(&self, events: &mut Streaming<WatchPodsEvent>) -> WatchPodsEvent {
        let next = async { tokio::time::timeout(PATIENCE, events.message()).await };
        self.tokio.block_on(next).expect("in time").expect("goes on").expect("does not end")
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// RES-53, RES-54, SRV-51, SRV-53, SEC-57: a running static pod is listed and found, the socket is its owner's alone, calls
/// are bounded, and the socket comes back with the agent.
#[test]
fn sec_57_pod_resources_shows_running_pods_at_its_socket() {
    let Some(mut node) = Node::running() else { return };
    let side = with(forever("side"), json!({ "restartPolicy": "Always" }));
    let spec = json!({ "spec": { "initContainers": [side] } });
    node.apply(&with(pod("web", &[forever("main"), forever("other")]), spec));
    node.wait_running("web", "other");
    let client = Client::of(&node, "pod-resources/kubelet.sock");
    let named = |pods: &[PodResources]| pods.iter().find(|pod| pod.name == "web-node1").cloned();

    let listed = client.list().expect("somebody listens").expect("answered");
    let web = named(&listed).expect("is listed");
    assert_eq!(web.namespace, "default");
    assert_eq!(web.containers.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["side", "main", "other"]);
    assert!(web.containers.iter().all(|one| one.cpu_ids.is_empty() && one.devices.is_empty()), "{web:?}");
    assert_eq!(client.get("web-node1").expect("is found"), web);
    let refused = client.get("nobody").expect_err("not there");
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, "pod nobody in namespace default not found"));
    let mut raw = PodResourcesListerClient::new(client.channel().expect("somebody listens"));
    client.tokio.block_on(raw.get_allocatable_resources(AllocatableResourcesRequest {})).expect("answered");

    let folder = client.socket.parent().unwrap();
    assert!(fs::symlink_metadata(&client.socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&client.socket), mode(folder)), (0o750, 0o750));

    let flood = client.tokio.block_on(async {
        let calls = (0..300).map(|_| {
            let mut raw = raw.clone();
            async move { raw.list(ListPodResourcesRequest {}).await.map(drop) }
        });
        futures_util::future::join_all(calls).await
    });
    let refused = flood
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .find(|status| status.message() == "rejected by rate limit");
    assert_eq!(refused.map(Status::code), Some(Code::ResourceExhausted), "{flood:?}");
    let (_, metrics) = http_get(&format!("127.0.0.1:{}", node.named("READ_ONLY_PORT")), "/metrics").expect("answered");
    assert!(metrics.contains("kubelet_pod_resources_endpoint_errors_get{server_api_version=\"v1\"} 1\n"), "{metrics}");

    // The socket that a killed agent left is replaced, and an agent that ends takes its own with it.
    node.kill_agent();
    assert!(client.socket.exists(), "it was left");
    node.start_agent();
    node.eventually("the pod is listed again", || named(&client.list()?.ok()?));
    node.stop_agent();
    assert!(!client.socket.exists(), "it is gone");
}

/// SRV-52, SRV-53: a watcher hears of a static pod from its manifest to its end, and without the gate there is nothing.
#[test]
fn the_pods_api_tells_of_static_pods_where_its_gate_is_on() {
    let Some(mut node) = Node::new() else { return };
    node.start_agent();
    node.wait_for_words(&["Started kubelet"]);
    let client = Client::of(&node, "pods-api/pods-api.sock");
    assert!(!client.socket.exists(), "the gate is off");
    node.stop_agent();
    node.configure(json!({ "featureGates": { "PodsAPI": true } }));
    node.start_agent();

    let mut raw = PodsClient::new(node.eventually("the socket is served", || client.channel()));
    let mut events = client.tokio.block_on(raw.watch_pods(WatchPodsRequest {})).expect("answered").into_inner();
    assert_eq!(client.next(&mut events).r#type(), EventType::InitialSyncComplete, "there are no pods");
    assert_eq!((mode(&client.socket), mode(client.socket.parent().unwrap())), (0o750, 0o750));
    node.apply(&pod("web", &[forever("main")]));
    node.wait_running("web", "main");
    let added = client.next(&mut events);
    assert_eq!(added.r#type(), EventType::Added);
    // The name is a text among the bytes; the unit tests look at all of them.
    let names = |bytes: &[u8]| bytes.windows(9).any(|window| window == b"web-node1");
    let listed = client.tokio.block_on(raw.list_pods(ListPodsRequest {})).expect("answered").into_inner().pods;
    assert!(names(&added.pod) && listed.len() == 1 && names(&listed[0]));
    node.delete("web");
    node.wait_gone("web");
    let mut kinds = BTreeSet::new();
    while !kinds.contains(&EventType::Deleted) {
        let event = client.next(&mut events);
        assert!(names(&event.pod));
        kinds.insert(event.r#type());
    }
    assert_eq!(kinds, BTreeSet::from([EventType::Modified, EventType::Deleted]));
}
