//! Tests of the gRPC sockets as their clients meet them: the published protocols over real sockets, and a tree without a
//! runtime.

mod pod_resources;
mod pods;
mod raw;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

use super::wire::podresources_v1::pod_resources_lister_client::PodResourcesListerClient;
use super::wire::pods_v1alpha1::pods_client::PodsClient;
use crate::actors::kit::trace::Cause;
use crate::logic::model::ids::PodUid;
use crate::messages::status::status_manager::{PodView, StatusManagerMsg};
use crate::server::tests::Node;

/// Longer than anything takes that must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A socket of the node, once somebody listens there.
async fn socket(node: &Node, name: &str) -> PathBuf {
    let path = node.folder.path().join(name);
    for _ in 0..1000 {
        if UnixStream::connect(&path).await.is_ok() {
            return path;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} did not come up");
}

async fn channel(path: &Path) -> Channel {
    let path = path.to_owned();
    let connect = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connect).await.expect("somebody listens")
}

async fn pod_resources(node: &Node) -> PodResourcesListerClient<Channel> {
    PodResourcesListerClient::new(channel(&socket(node, "pod-resources/kubelet.sock").await).await)
}

async fn pods(node: &Node) -> PodsClient<Channel> {
    PodsClient::new(channel(&socket(node, "pods-api/pods-api.sock").await).await)
}

/// A pod as its worker tells it: running, with a container `a`.
fn view(name: &str) -> PodView {
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-{name}") },
        "spec": { "containers": [{ "name": "a", "image": "i" }] },
    });
    PodView {
        uid: PodUid::from(format!("uid-{name}")),
        pod: Arc::new(serde_json::from_value(pod).expect("a pod")),
        status: status(json!({ "phase": "Running" })),
        may_run: true,
        is_over: false,
        waiting: Arc::default(),
    }
}

fn status(value: Value) -> Arc<k8s_openapi::api::core::v1::PodStatus> {
    Arc::new(serde_json::from_value(value).expect("a status"))
}

fn tell(node: &Node, message: StatusManagerMsg) {
    node.agent.directory.status_manager.tell(Cause::outside("test"), message).expect("room");
}

fn tell_view(node: &Node, view: &PodView) {
    tell(node, StatusManagerMsg::StatusChanged(view.clone()));
}
