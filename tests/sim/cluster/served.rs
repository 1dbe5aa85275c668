//! The simulated API server on a real socket, asked by the agent's real transport: what the simulated node meets in memory
//! is what a client meets on the wire.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::core::ObjectMeta;
use podwright::platform::cluster::kube_api::credentials::Credentials;
use podwright::platform::cluster::kube_api::kubeconfig::Kubeconfig;
use podwright::platform::cluster::kube_api::reflector::{Followed, follow};
use podwright::platform::cluster::kube_api::transport::{Settings, Transport, user_agent};
use podwright::platform::cluster::kube_api::{ApiServer, Lane, PatchKind, Place, Selector, WatchEvent, WatchFrom};
use podwright::platform::host::clock::{Clock, SystemClock};
use podwright::platform::network::tls::Offer;
use podwright::sim::api_server;
use serde_json::{Value, json};

const NODE: &str = "node-1";

/// The agent's way to the server at this address.
fn client(address: SocketAddr) -> ApiServer {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubelet.conf");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {{name: c, context: {{cluster: x, user: x}}}}\n\
         clusters:\n- name: x\n  cluster: {{server: 'http://{address}'}}\nusers:\n- name: x\n  user: {{}}\n"
    );
    std::fs::write(&path, text).expect("written");
    let kubeconfig = Kubeconfig::load(&path).expect("usable");
    let settings = Settings::from_environment(kubeconfig.server.clone(), user_agent("v1.36.0"));
    let offer = Offer::Http1;
    let credentials = Credentials::new(kubeconfig, offer, Arc::new(SystemClock::start()));
    Transport::new(Settings { offer, ..settings }, Arc::new(credentials)).server(None, None)
}

/// A server on a socket, and the way to it.
async fn served() -> (Arc<api_server::ApiServer>, ApiServer) {
    let clock = SystemClock::start();
    let server = api_server::ApiServer::new(move || clock.now());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    #[expect(clippy::disallowed_methods, reason = "the test's own server")]
    tokio::spawn(api_server::http::serve(Arc::clone(&server), listener, NODE.to_owned()));
    (server, client(address))
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn pod(server: &api_server::ApiServer, name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["nodeName"] = NODE.into();
    let object = json!({ "metadata": { "name": name }, "spec": spec });
    server.admin("POST", "/api/v1/namespaces/default/pods", object).expect("made")
}

#[tokio::test]
async fn a_node_registers_and_renews_its_lease() {
    let (_, api) = served().await;
    api.healthz().await.expect("up");
    let at = Place::Cluster;
    let missing = api.get::<Node>(&at, NODE).await.expect_err("not there yet");
    assert!(missing.is_not_found() && missing.to_string() == "nodes \"node-1\" not found", "{missing}");
    let node = Node { metadata: named(NODE), ..Node::default() };
    let made = api.create(&at, &node).await.expect("created");
    assert!(api.create(&at, &node).await.expect_err("there already").is_already_exists());
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let patched: Node = api.patch(&at, NODE, Some("status"), PatchKind::Strategic, &status).await.expect("patched");
    assert_eq!(patched.status.expect("a status").conditions.expect("conditions")[0].type_, "Ready");
    assert!(api.replace(&at, &made, None).await.expect_err("changed since").is_conflict());
    assert!(api.get::<Node>(&at, "node-2").await.expect_err("another's").is_forbidden());
    let (leases, heartbeat) = (Place::namespace("kube-node-lease"), api.on(Lane::Heartbeat));
    let lease = heartbeat.create(&leases, &Lease { metadata: named(NODE), ..Lease::default() }).await.expect("created");
    heartbeat.replace(&leases, &lease, None).await.expect("nothing changed meanwhile");
}

#[tokio::test]
async fn a_pod_is_followed_told_of_and_taken_away() {
    let (server, api) = served().await;
    let first = pod(&server, "web", json!({ "containers": [{ "name": "main", "image": "app" }] }));
    let at = Place::namespace("default");
    let selector = Selector::fields(format!("spec.nodeName={NODE}"));
    let refused = api.list::<Pod>(&Place::Cluster, &Selector::all(), None).await.expect_err("all pods are not its own");
    assert!(refused.is_forbidden());
    let mut watch = api
        .watch::<Pod>(&Place::Cluster, &selector, WatchFrom::InitialEvents, Duration::from_secs(60))
        .await
        .expect("watched");
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Bookmark { initial_events_end: true, .. }))));
    let uid = first["metadata"]["uid"].as_str().expect("a UID");
    let body = |uid: &str| json!({ "metadata": { "uid": uid }, "status": { "phase": "Running" } });
    let patch = async |uid: &str| {
        let body = body(uid);
        api.patch::<Pod>(&at, "web", Some("status"), PatchKind::Strategic, &body).await
    };
    patch(uid).await.expect("patched");
    assert!(patch("another").await.expect_err("another UID").is_conflict());
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Modified(_)))));
    server.admin("DELETE", "/api/v1/namespaces/default/pods/web", Value::Null).expect("deleted");
    let Some(Ok(WatchEvent::Modified(ending))) = watch.next().await else { panic!("it is to end") };
    assert!(ending.metadata.deletion_timestamp.is_some());
    assert_eq!(ending.metadata.deletion_grace_period_seconds, Some(30));
    assert!(api.delete::<Pod>(&at, "web", Some(0), Some("another")).await.expect_err("another UID").is_conflict());
    api.delete::<Pod>(&at, "web", Some(0), Some(uid)).await.expect("taken away");
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Deleted(_)))));
    server.compact();
    let old = WatchFrom::Version("1");
    let mut watch = api.watch::<Pod>(&Place::Cluster, &selector, old, Duration::from_secs(60)).await.expect("begun");
    assert!(watch.next().await.expect("told").expect_err("too old").is_gone());
}

#[tokio::test]
async fn a_node_reads_what_its_pods_name_and_hears_of_changes() {
    let (server, api) = served().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |value: &str| json!({ "metadata": { "name": "settings" }, "data": { "level": value } });
    server.admin("POST", maps, map("1")).expect("made");
    let at = Place::namespace("default");
    assert!(api.get::<ConfigMap>(&at, "settings").await.expect_err("nobody here names it").is_forbidden());
    let volumes = json!([{ "name": "v", "configMap": { "name": "settings" } }]);
    pod(&server, "web", json!({ "containers": [{ "name": "main", "image": "app" }], "volumes": volumes }));
    let told = Arc::new(Mutex::new(vec![]));
    let heard = Arc::clone(&told);
    let tell = move |followed: Followed<ConfigMap>| {
        let levels = |map: ConfigMap| map.data.unwrap_or_default()["level"].clone();
        heard.lock().expect("log").push(match followed {
            Followed::Reset(maps) => maps.into_iter().map(levels).collect(),
            Followed::Applied(map) => levels(map),
            Followed::Deleted(_) => "deleted".to_owned(),
            Followed::Trouble(error) => format!("trouble {error}"),
        });
    };
    let selector = Selector::name("settings");
    let followed = follow(&api, &at, &selector, || 0.5, tell);
    let changes = async {
        let reach = async |count: usize| {
            while told.lock().expect("log").len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        reach(1).await;
        server.admin("PUT", &format!("{maps}/settings"), map("2")).expect("changed");
        reach(2).await;
        server.admin("DELETE", &format!("{maps}/settings"), Value::Null).expect("deleted");
        reach(3).await;
    };
    tokio::select! {
        never = followed => match never {},
        () = changes => {}
    }
    assert_eq!(*told.lock().expect("log"), ["1", "2", "deleted"]);
}
