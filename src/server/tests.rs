//! Tests of the listeners as their clients meet them: a whole tree without a runtime, asked over real sockets.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use axum::Router;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::net::{TcpStream, UnixStream};
use tower::ServiceExt;

mod client;
mod cves;
mod looking;
mod plain;
mod settled;

pub(crate) use client::WoundClock;
pub(super) use client::{Answer, ask, ask_with};
pub(crate) use plain::settings;

use super::rpc::RpcListener;
use super::{Backend, HealthzListener, LocalSocket, Pages, ReadOnlyListener, routes};
use crate::actors::agent::{
    Adapters, Agent, ClusterAdapters, LogAdapters, NodeAdapters, PluginAdapters, PodAdapters, SourceAdapters,
};
use crate::actors::kit::trace::{Cause, Faults, Trace};
use crate::actors::server::Listener;
use crate::actors::settings::Settings;
use crate::actors::tree::Directory;
use crate::actors::wiring;
use crate::cli;
use crate::cri::grpc::GrpcRuntime;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::pods::wait::{Awaited, PodWait};
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use crate::logic::resources::{CgroupSettings, CgroupVersion};
use crate::logic::serving::StreamSettings;
use crate::messages::event_recorder::EventSubject;
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::status::status_manager::{PodNews, PodView, RefusedManifest, StatusManagerMsg};
use crate::platform::cgroup::{CgroupError, CgroupManager};
use crate::platform::cluster::objects::Standalone;
use crate::platform::files::checkpoints::FileCheckpoints;
use crate::platform::host::chance::SystemChance;
use crate::platform::host::kernel_log::NoKernelLog;
use crate::platform::host::systemd::ServiceManager;
use crate::platform::images::LinuxImageHost;
use crate::platform::logs::container_logs::LinuxContainerLogs;
use crate::platform::logs::log_reader::LinuxLogReader;
use crate::platform::logs::node_logs::LinuxNodeLogs;
use crate::platform::network::network_probe::HostProber;
use crate::platform::network::tls::Offer;
use crate::platform::pods::pod_files::LinuxPodFiles;
use crate::platform::pods::user_namespace_files::LinuxUserNamespaceFiles;
use crate::platform::volumes::LinuxVolumeHost;
use crate::telemetry::Metrics;

/// Cgroups that are always as they should be.
pub(crate) struct CalmCgroups;

impl CgroupManager for CalmCgroups {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V2
    }
    fn driver(&self) -> CgroupDriver {
        CgroupDriver::Cgroupfs
    }
    fn validate(&self, _: &CgroupName) -> Result<(), CgroupError> {
        Ok(())
    }
    fn create(&self, _: &CgroupName, _: &CgroupSettings) -> Result<(), CgroupError> {
        Ok(())
    }
    fn update(&self, _: &CgroupName, _: &CgroupSettings) -> Result<(), CgroupError> {
        Ok(())
    }
    fn destroy(&self, _: &CgroupName) -> Result<(), CgroupError> {
        Ok(())
    }
    fn pids(&self, _: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        Ok(BTreeSet::new())
    }
    fn list_pods(&self, _: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        Ok(Vec::new())
    }
    fn read(&self, _: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        Ok(CgroupSettings::default())
    }
    fn memory_usage(&self, _: &CgroupName) -> Result<u64, CgroupError> {
        Ok(0)
    }
}

pub(crate) struct NoServiceManager;

impl ServiceManager for NoServiceManager {
    fn feed_watchdog(&self) {}
}

/// Holds up one kind of actor before its next message, until the test lets go by dropping the other end.
struct HeldUp {
    kind: &'static str,
    release: Mutex<mpsc::Receiver<()>>,
}

impl Faults for HeldUp {
    fn strikes_before(&self, kind: &'static str, _: &str, _: u64) -> bool {
        if kind == self.kind {
            let _ = self.release.lock().expect("one waits at a time").recv();
        }
        false
    }
    fn strikes_after(&self, _: &'static str, _: &str, _: u64) -> bool {
        false
    }
}

/// A node without a runtime, whose files are in a folder of its own.
pub(crate) struct Node {
    pub(super) folder: tempfile::TempDir,
    pub(super) clock: Arc<WoundClock>,
    pub(crate) agent: Arc<Agent>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Node {
    fn with(faults: Option<Arc<dyn Faults>>, listeners: impl FnOnce(&Node0) -> Vec<Arc<dyn Listener>>) -> Self {
        Self::configured(faults, listeners, |_| ())
    }

    fn configured(
        faults: Option<Arc<dyn Faults>>,
        listeners: impl FnOnce(&Node0) -> Vec<Arc<dyn Listener>>,
        configure: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root_dir = folder.path().to_str().expect("text").to_owned();
        let journal = client::played_journal(folder.path());
        let metrics = Arc::new(Metrics::default());
        let endpoint = format!("unix://{root_dir}/no-runtime.sock");
        let runtime = GrpcRuntime::connect(&endpoint, "", Duration::from_secs(60), metrics.runtime()).expect("a path");
        let runtime = Arc::new(runtime);
        let clock = Arc::new(WoundClock::default());
        let trace = Trace::with_faults(clock.clone(), faults);
        let adapters = Adapters {
            runtime: runtime.clone(),
            images: runtime,
            image_host: Arc::new(LinuxImageHost::new(folder.path(), folder.path())),
            checkpoints: Arc::new(FileCheckpoints::new(folder.path())),
            cgroups: Arc::new(CalmCgroups),
            chance: Arc::new(SystemChance::from_kernel()),
            service_manager: Arc::new(NoServiceManager),
            observer: metrics.clone(),
            pods: PodAdapters {
                files: Arc::new(LinuxPodFiles::new(folder.path(), folder.path().join("logs"), None)),
                user_namespaces: Arc::new(LinuxUserNamespaceFiles::new(folder.path())),
                volumes: Arc::new(LinuxVolumeHost::new(folder.path(), clock.clone())),
                prober: Arc::new(HostProber::new(Offer::from_environment())),
                ends: Arc::default(),
                probe_store: Default::default(),
            },
            plugins: PluginAdapters::none(),
            logs: LogAdapters {
                containers: Arc::new(LinuxContainerLogs::new(folder.path().join("logs"))),
                reader: Arc::new(LinuxLogReader::new(folder.path().join("logs"))),
                node: Arc::new(LinuxNodeLogs::new(folder.path().join("var-log"), journal)),
            },
            cluster: ClusterAdapters {
                objects: Arc::new(Standalone),
                offline: None,
                api: None,
                certificates: Default::default(),
                doubt_connections: Arc::new(|| {}),
            },
            sources: SourceAdapters { folder: None, url: None, objects: None },
            node: NodeAdapters {
                kernel_log: Arc::new(NoKernelLog),
                statistics: Arc::new(crate::platform::statistics::FixedStatistics::new(clock.clone())),
                facts: Arc::new(crate::platform::host::node_facts::FixedNodeFacts::of_a_small_node()),
                network_rules: Arc::new(crate::platform::network::network_rules::NoNetworkRules),
                placement: Arc::new(crate::platform::cgroup::process_placement::NoPlacement),
                logind: Arc::new(crate::platform::host::logind::NoLogind),
            },
        };
        let directory = Directory::new(&trace);
        let mut settings = settings(&root_dir);
        configure(&mut settings);
        let mut agent = Agent { settings, adapters, directory, trace, listeners: vec![] };
        let pages = Pages { configz: r#"{"kubeletconfig":{}}"#.to_owned().into(), ..Pages::default() };
        let backend = Arc::new(Backend::of(&agent, Arc::clone(&metrics), pages));
        let before = Node0 { socket: folder.path().join(LocalSocket::NAME), backend: Arc::clone(&backend) };
        agent.listeners = listeners(&before);
        Self { folder, clock, agent: Arc::new(agent), backend, metrics }
    }

    pub(crate) fn plain() -> Self {
        Self::with(None, |_| vec![])
    }

    /// Where the runtime tells the figures of pods (gate `PodAndContainerStatsFromCRI`).
    pub(super) fn with_figures_of_the_runtime() -> Self {
        Self::configured(None, |_| vec![], |settings| settings.statistics.from_runtime = true)
    }

    /// With the local socket.
    pub(super) fn with_socket() -> Self {
        Self::with(None, Node0::with_socket)
    }

    /// With the gRPC sockets below its folder, `others`, and what strikes its actors.
    pub(super) fn with_rpc(faults: Option<Arc<dyn Faults>>, others: Vec<Arc<dyn Listener>>) -> Self {
        Self::with(faults, |node| {
            let root = node.socket.parent().expect("a folder");
            let pod_resources = RpcListener::pod_resources(root, &node.backend, true);
            let pods = RpcListener::pods_api(root, &node.backend);
            others.into_iter().chain([Arc::new(pod_resources) as Arc<dyn Listener>, Arc::new(pods)]).collect()
        })
    }

    /// With the local socket, and what of logs is answered.
    pub(super) fn serving_logs(served: crate::logic::serving::ServedLogs) -> Self {
        Self::configured(None, Node0::with_socket, |settings| settings.serving.logs = served)
    }

    /// With the local socket, and these settings of streams.
    pub(super) fn streaming(change: impl FnOnce(&mut StreamSettings)) -> Self {
        Self::configured(None, Node0::with_socket, |settings| change(&mut settings.serving.streams))
    }

    /// Starts the tree; all its actors may get messages then. Nobody waits for more pods.
    pub(crate) async fn start(&self) {
        self.begin().await;
        self.hear_all(&[]);
    }

    /// Starts the tree, which has not heard all sources: there is no runtime to be heard.
    pub(super) async fn begin(&self) {
        wiring::start(Arc::clone(&self.agent));
        while !self.agent.directory.server.is_up() {
            tokio::task::yield_now().await;
        }
    }

    /// Tells, as `PodManager` would, that these are all pods.
    pub(super) fn hear_all(&self, names: &[&str]) {
        let pods = names.iter().map(|name| PodUid::from(format!("uid-{name}"))).collect();
        let to = &self.agent.directory.status_manager;
        to.tell(Cause::outside("test"), StatusManagerMsg::Pods(PodNews::HeardAll(pods))).expect("room");
    }

    /// Tells of a pod as its worker would.
    pub(super) async fn tell_pod(&self, name: &str, status: Value, waiting: &[PodWait]) {
        let uid = PodUid::from(format!("uid-{name}"));
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": uid},
            "spec": {"containers": [{"name": "a", "image": "i"}]},
        });
        let view = PodView {
            uid: uid.clone(),
            pod: Arc::new(serde_json::from_value(pod).expect("a pod")),
            status: Arc::new(serde_json::from_value(status).expect("a status")),
            may_run: true,
            is_over: false,
            waiting: Arc::new(waiting.to_vec()),
        };
        let to = &self.agent.directory;
        to.status_manager.tell(Cause::outside("test"), StatusManagerMsg::StatusChanged(view)).expect("room");
        let subject = EventSubject::pod(&uid, &FullName::new(name, "shop"));
        let event = subject.warning(EventReason::BackOff, "Back-off restarting failed container");
        to.event_recorder.tell(Cause::outside("test"), event).expect("room");
    }

    pub(super) async fn ask_socket(&self, path: &str) -> Answer {
        ask(self.connect().await, "GET", path).await
    }

    /// A connection to the local socket.
    pub(super) async fn connect(&self) -> UnixStream {
        let path_of_socket = self.folder.path().join(LocalSocket::NAME);
        for _ in 0..500 {
            match UnixStream::connect(&path_of_socket).await {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("the local socket did not come up");
    }
}

/// The parts from which listeners are made.
struct Node0 {
    socket: PathBuf,
    backend: Arc<Backend>,
}

impl Node0 {
    fn with_socket(&self) -> Vec<Arc<dyn Listener>> {
        vec![Arc::new(LocalSocket::new(self.socket.clone(), &self.backend))]
    }
}

/// Asks routes without a socket.
pub(super) async fn ask_routes(router: &Router, method: &str, path: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path).body(Empty::<Bytes>::new()).expect("valid");
    let response = router.clone().oneshot(request).await.expect("infallible");
    let status = response.status();
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

const RUNNING: &str = r#"{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}"#;

fn waits_for_image() -> PodWait {
    PodWait::ToRun(Awaited::Image("a".to_owned()).into())
}

fn running() -> Value {
    serde_json::from_str(RUNNING).expect("JSON")
}

/// SRV-06, SRV-21.
#[tokio::test]
async fn health_is_told_in_upstreams_words() {
    let node = Node::plain();
    node.start().await;
    let router = routes::healthz(Arc::clone(&node.backend));
    let all = "[+]ping ok\n[+]log ok\n[+]syncloop ok\n[+]device-plugin ok\n";
    for (method, path, status, body) in [
        ("GET", "/healthz", 200, "ok".to_owned()),
        ("POST", "/healthz", 200, "ok".to_owned()),
        ("GET", "/healthz/ping", 200, "ok".to_owned()),
        ("GET", "/healthz/log", 200, "ok".to_owned()),
        ("GET", "/healthz/syncloop", 200, "ok".to_owned()),
        ("GET", "/healthz?verbose", 200, format!("{all}healthz check passed\n")),
        (
            "GET",
            "/healthz?verbose&exclude=log&exclude=x%20y",
            200,
            "[+]ping ok\n[+]log excluded: ok\n[+]syncloop ok\n[+]device-plugin ok\nwarn: some health checks cannot be \
             excluded: no matches for \"x y\"\nhealthz check passed\n"
                .to_owned(),
        ),
        ("GET", "/healthz/", 404, "404 page not found\n".to_owned()),
        ("GET", "/healthz/nope", 404, "404 page not found\n".to_owned()),
        ("GET", "/pods", 404, "404 page not found\n".to_owned()),
        ("GET", "/metrics", 404, "404 page not found\n".to_owned()),
    ] {
        let (seen_status, seen) = ask_routes(&router, method, path).await;
        assert_eq!((seen_status.as_u16(), seen), (status, body), "{method} {path}");
    }
}

#[tokio::test]
async fn a_pod_manager_that_stays_down_is_no_health() {
    let node = Node::plain(); // Nobody starts the tree.
    let router = routes::healthz(Arc::clone(&node.backend));
    let ask = async || ask_routes(&router, "GET", "/healthz").await.0.as_u16();
    assert_eq!(ask().await, 200, "it may just have failed");
    node.clock.seconds.store(30, Ordering::SeqCst);
    assert_eq!(ask().await, 200);
    node.clock.seconds.store(31, Ordering::SeqCst);
    assert_eq!(ask().await, 500);
    let (_, body) = ask_routes(&router, "GET", "/healthz").await;
    let failed =
        "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\n[+]device-plugin ok\nhealthz check failed\n";
    assert_eq!(body, failed);
    let (_, body) = ask_routes(&router, "GET", "/healthz/syncloop").await;
    assert_eq!(body, "internal server error: PodManager has been down for 31s\n");
    assert_eq!(ask_routes(&router, "GET", "/healthz?exclude=syncloop").await.0.as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_turn_that_does_not_end_is_no_health_and_is_named() {
    let (let_go, release) = mpsc::channel();
    let held_up = HeldUp { kind: "StatusManager", release: Mutex::new(release) };
    let node = Node::with(Some(Arc::new(held_up)), |_| vec![]);
    node.begin().await;
    node.tell_pod("web", running(), &[]).await;
    // The others must be at rest: the clock that is set below would make their turns as old.
    let busy = || {
        let actors = node.agent.trace.actors();
        actors.iter().filter(|actor| actor.open_turn.is_some()).map(|actor| actor.name.to_string()).collect::<Vec<_>>()
    };
    let mut quiet = 0;
    while quiet < 20 {
        quiet = if busy() == ["StatusManager"] { quiet + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let router = routes::local(Arc::clone(&node.backend));
    assert_eq!(ask_routes(&router, "GET", "/healthz").await.0.as_u16(), 200, "it has only begun");
    node.clock.seconds.store(21, Ordering::SeqCst);
    let (status, body) = loop {
        let before = busy();
        let answer = ask_routes(&router, "GET", "/healthz/syncloop").await;
        // One that began a turn just before the clock was set was as old until it ended.
        if [before, busy()].concat().iter().all(|actor| actor == "StatusManager") {
            break answer;
        }
    };
    let expected = "internal server error: StatusManager has been handling StatusChanged for 21s\n";
    assert_eq!((status.as_u16(), body.as_str()), (500, expected));
    let (_, actors) = ask_routes(&router, "GET", "/debug/actors").await;
    let actors: Value = serde_json::from_str(&actors).expect("JSON");
    let actors = actors["actors"].as_array().expect("a list");
    let stuck = actors.iter().find(|actor| actor["name"] == "StatusManager").expect("known");
    assert_eq!((&stuck["state"], &stuck["open_turn"]["message"]), (&"stuck".into(), &"StatusChanged".into()));
    let (_, metrics) = ask_routes(&router, "GET", "/metrics").await;
    assert!(metrics.contains("podwright_actor_open_turn_seconds{actor=\"StatusManager\"} 21\n"), "{metrics}");
    drop(let_go);
}

/// CFG-37, SRV-01.
#[tokio::test]
async fn the_health_port_answers_over_tcp() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let node = Node::with(None, |node| vec![Arc::new(HealthzListener::new(free, &node.backend))]);
    node.start().await;
    let stream = loop {
        match TcpStream::connect(free).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let answer = ask(stream, "GET", "/healthz").await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "ok"));
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
}

/// CFG-39, SRV-08, SRV-23.
#[tokio::test]
async fn the_read_only_port_shows_pods_and_metrics_and_nothing_else() {
    let mut address = None;
    let node = Node::with(None, |node| {
        let listener = ReadOnlyListener::bind(([127, 0, 0, 1], 0).into(), &node.backend).expect("a port");
        address = Some(listener.address());
        vec![Arc::new(listener)]
    });
    let address = address.expect("bound");
    node.start().await;
    let get = async |method: &str, path: &str| {
        let stream = TcpStream::connect(address).await.expect("listening");
        ask(stream, method, path).await
    };
    let empty = get("GET", "/pods").await;
    assert_eq!(empty.body, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":null}\n");
    node.tell_pod("web", running(), &[]).await;
    node.tell_pod("db", running(), &[]).await;
    let pods = get("GET", "/pods").await;
    assert_eq!(pods.headers["content-type"], "application/json");
    assert!(pods.body.starts_with(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"#));
    assert!(pods.body.ends_with("]}\n"));
    let list = pods.json();
    let names: Vec<&Value> =
        list["items"].as_array().expect("a list").iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["db", "web"]);
    assert_eq!(list["items"][1]["status"]["phase"], "Running");
    assert_eq!(list["items"][0].get("kind"), None, "items have no kind of their own");
    let metrics = get("GET", "/metrics").await;
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    for (method, path, status) in [
        ("POST", "/pods", 405),
        ("HEAD", "/metrics", 405),
        ("GET", "/metrics/probes", 200),
        ("GET", "/configz", 404),
        ("GET", "/debug/actors", 404),
        ("GET", "/ps", 404),
        ("GET", "/explain/shop/web", 404),
        ("GET", "/runningpods/", 404),
        ("GET", "/", 404),
        ("GET", "/healthz", 200),
    ] {
        let answer = get(method, path).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}");
        if status == 405 {
            assert_eq!(answer.headers["allow"], "GET");
        }
    }
    let counted = get("GET", "/metrics").await.body;
    for (method, path, count) in [("GET", "pods", 2), ("POST", "pods", 1), ("GET", "other", 6), ("GET", "metrics", 2)] {
        let labels = format!("long_running=\"false\",method=\"{method}\",path=\"{path}\",server_type=\"readonly\"");
        let line = format!("kubelet_http_requests_total{{{labels}}} {count}");
        assert!(counted.lines().any(|found| found == line), "{line} is not in\n{counted}");
    }
}

#[tokio::test]
async fn metrics_have_the_names_that_dashboards_ask_for() {
    let node = Node::with_socket();
    node.start().await;
    node.tell_pod("web", running(), &[]).await;
    let text = node.ask_socket("/metrics").await.body;
    for start in [
        "kubelet_running_pods 0",
        "kubelet_running_containers{container_state=\"running\"} 0",
        "kubelet_node_name{node=\"n1\"} 1",
        "kubelet_cgroup_version 2",
        "kubelet_runtime_operations_total{operation_type=\"status\"} ",
        "kubelet_runtime_operations_errors_total{operation_type=\"status\"} ",
        "kubelet_pleg_relist_duration_seconds_bucket{le=\"0.005\"} ",
        "kubelet_pleg_relist_interval_seconds_count ",
        "kubernetes_build_info{build_date=",
        "kubernetes_feature_enabled{name=\"NodeSwap\",stage=\"\"} 1",
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
        "process_open_fds ",
        "process_start_time_seconds ",
        "podwright_actor_mailbox_depth{actor=\"StatusManager\"} 0",
        "podwright_actor_messages_total{actor=\"StatusManager\",message=\"StatusChanged\"} 1",
        "podwright_actor_turn_seconds_bucket{actor=\"StatusManager\",le=\"+Inf\"} ",
        "podwright_actor_wait_seconds_sum{actor=\"StatusManager\"} ",
        "podwright_actor_restarts_total{actor=\"StatusManager\"} 0",
        "podwright_actor_refused_total{actor=\"StatusManager\"} 0",
    ] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{start} is not in\n{text}");
    }
    let helps: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    let sorted: BTreeSet<&str> = helps.iter().copied().collect();
    assert_eq!(helps, sorted.into_iter().collect::<Vec<_>>(), "each family once, in order");
}

/// SRV-27.
#[tokio::test]
async fn the_local_socket_tells_everything() {
    let node = Node::with_socket();
    node.start().await;
    node.tell_pod("web", running(), &[waits_for_image()]).await;
    let rows = node.ask_socket("/ps").await.json();
    assert_eq!(
        (&rows[0]["name"], &rows[0]["waiting"][0]),
        (&"web".into(), &"waits for the image of container a".into())
    );
    let told = node.ask_socket("/explain/shop/web").await.json();
    assert_eq!(told[0]["healthy"], false);
    assert_eq!(told[0]["why"][0], "waits for the image of container a");
    assert_eq!(told[0]["events"][0]["reason"], "BackOff");
    assert!(told[0]["node_problems"][0].as_str().is_some_and(|text| text.contains("runtime")), "{told}");
    node.tell_pod("api-n1", running(), &[]).await;
    let by_manifest = node.ask_socket("/explain/shop/api").await.json();
    assert_eq!(by_manifest[0]["pod"]["name"], "api-n1", "a static pod may be called as in its manifest");
    let refused = [
        RefusedManifest { pod: Some(("shop".into(), "bad-n1".into())), place: "/m/bad.yaml".into(), why: "no".into() },
        RefusedManifest { pod: None, place: "/m/half.yaml".into(), why: "cannot be parsed".into() },
    ];
    let refused = StatusManagerMsg::Refused(SourceKind::File, refused.into());
    node.agent.directory.status_manager.tell(Cause::outside("test"), refused).expect("room");
    let rows = node.ask_socket("/ps").await.json();
    assert_eq!((&rows[2]["name"], &rows[3]["name"]), (&"bad-n1".into(), &"/m/half.yaml".into()), "{rows}");
    let told = node.ask_socket("/explain/shop/bad").await.json();
    assert_eq!((&told[0]["pod"]["phase"], &told[0]["healthy"]), (&"Refused".into(), &false.into()));
    assert_eq!(told[0]["why"][0], "waits for /m/bad.yaml to be corrected: no");
    let nobody = node.ask_socket("/explain/shop/nobody").await;
    assert_eq!((nobody.status.as_u16(), nobody.body.as_str()), (404, "no pod shop/nobody on this node\n"));
    assert_eq!(node.ask_socket("/configz").await.body, r#"{"kubeletconfig":{}}"#);
    assert_eq!(node.ask_socket("/runningpods/").await.json()["items"], Value::Null);
    let tree = node.ask_socket("/debug/actors?format=text").await.body;
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[1].starts_with("ACTOR") && lines[2].starts_with("Root "), "{tree}");
    assert!(lines[3..].iter().any(|line| line.starts_with("  StatusManager ")), "{tree}");
    let trace = node.ask_socket("/debug/actors/trace?pod=uid-web&format=text").await.body;
    assert!(trace.contains("StatusManager StatusChanged  <- test"), "{trace}");
    let chrome = node.ask_socket("/debug/actors/trace?format=chrome").await.json();
    assert!(chrome["traceEvents"].as_array().is_some_and(|events| events.len() > 3));
    assert_eq!(node.ask_socket("/debug/actors/trace?pod=shop/nobody").await.status.as_u16(), 404);
    assert_eq!(node.ask_socket("/debug/actors/trace?since=never").await.status.as_u16(), 400);
    assert_eq!(node.ask_socket("/debug/actors?format=xml").await.status.as_u16(), 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_reads_the_local_socket() {
    let node = Node::with_socket();
    node.start().await;
    node.tell_pod("web", running(), &[]).await;
    node.tell_pod("stuck", json!({"phase": "Pending"}), &[waits_for_image()]).await;
    node.ask_socket("/ps").await;
    let socket = node.folder.path().join(LocalSocket::NAME).to_str().expect("text").to_owned();
    let run = async |command: &'static str, arguments: &[&str]| {
        let mut all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        all.extend(["--socket".to_owned(), socket.clone()]);
        crate::platform::host::blocking::run(move || cli::run(command, &all)).await
    };
    assert_eq!(run("ps", &[]).await, 0);
    assert_eq!(run("ps", &["-o", "wide"]).await, 0);
    assert_eq!(run("explain", &["shop/web"]).await, 0);
    assert_eq!(run("explain", &["shop/stuck"]).await, 3);
    assert_eq!(run("explain", &["shop/nobody"]).await, 1);
    assert_eq!(run("actors", &["-o", "json"]).await, 0);
    assert_eq!(run("trace", &["--since", "5m", "--actor", "StatusManager"]).await, 0);
    assert_eq!(run("trace", &["--pod", "shop/nobody"]).await, 1);
}
