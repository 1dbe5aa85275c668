//! Claims from a driver's socket to a container's devices and back: a real driver and files, a played API server.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tonic::Code;

use crate::actors::agent::PluginAdapters;
use crate::actors::kit::address::{Address, AskError};
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, played_agent_with};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::logic::plugins::claims::book::ClaimBook;
use crate::messages::plugins::claim_manager::{ClaimManagerMsg, ClaimReply};
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::root::Child;
use crate::platform::files::checkpoints::FileCheckpoints;
use crate::platform::host::clock::SystemClock;
use crate::platform::observer::Unobserved;
use crate::platform::plugins::{GrpcCsi, GrpcDra, GrpcRegistration, LinuxPluginRegistry, PluginCalls};
use crate::testing::dra_driver::{DraDriver, DraServing};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

struct Setup {
    played: PlayedAgent,
    server: ObjectServer,
    driver: DraDriver,
    root: Arc<tempfile::TempDir>,
    folder: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("plugins_registry")).expect("made");
        Self::on(Arc::new(root), ObjectServer::default())
    }

    /// An agent that begins on this disk.
    fn on(root: Arc<tempfile::TempDir>, server: ObjectServer) -> Self {
        let clock: Arc<SystemClock> = Arc::new(SystemClock::start());
        let path = root.path();
        let played = played_agent_with(server.api(), clock.clone(), None, |_, adapters| {
            let calls = PluginCalls::new(clock);
            adapters.checkpoints = Arc::new(FileCheckpoints::new(path));
            adapters.plugins = PluginAdapters {
                registry: Arc::new(LinuxPluginRegistry::new(path)),
                registration: Arc::new(GrpcRegistration),
                csi: Arc::new(GrpcCsi::new(calls.clone(), Arc::new(Unobserved))),
                dra: Arc::new(GrpcDra::new(calls)),
                ..PluginAdapters::none()
            };
        });
        let folder = tempfile::tempdir().expect("a folder");
        let driver = DraDriver::new("drv.test", folder.path());
        let setup = Self { played, server, driver, root, folder };
        for child in [Child::CsiManager, Child::ClaimManager, Child::PluginWatcher] {
            start_alone(child, &setup.played.agent);
        }
        setup
    }

    fn manager(&self) -> &Address<ClaimManagerMsg> {
        &self.played.agent.directory.claim_manager
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    async fn eventually(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..3000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}; calls {:?}", self.driver.calls());
    }

    /// Serves, and waits until the driver is used.
    async fn serve(&self) -> DraServing {
        let before = self.driver.verdicts().len();
        let serving = self.driver.serve(&self.path("plugins_registry"));
        self.eventually("the driver is used", || self.driver.verdicts().len() > before).await;
        assert_eq!(self.driver.verdicts().last(), Some(&(true, String::new())));
        serving
    }

    /// A claim with a device of the driver, for these pods.
    fn put_claim(&self, name: &str, pods: &[&str]) {
        let reserved: Vec<_> = pods.iter().map(|uid| json!({ "resource": "pods", "name": uid, "uid": uid })).collect();
        let result = json!({ "driver": "drv.test", "pool": "pool", "device": name, "request": "r" });
        let status = json!({ "allocation": { "devices": { "results": [result] } }, "reservedFor": reserved });
        let claim = json!({ "metadata": { "uid": format!("uid-{name}") }, "spec": {}, "status": status });
        self.server.put(&format!("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/{name}"), claim);
    }

    async fn ask(&self, question: impl FnOnce(ClaimReply) -> ClaimManagerMsg) -> Result<(), String> {
        let answer = self.manager().ask(Cause::outside("test"), LONG, question).await.expect("answered");
        answer.map_err(|error| error.to_string())
    }

    async fn prepare(&self, pod: &Arc<Pod>) -> Result<(), String> {
        self.ask(|reply| ClaimManagerMsg::Prepare(Arc::clone(pod), reply)).await
    }

    async fn release(&self, uid: &str) -> Result<(), String> {
        self.ask(|reply| ClaimManagerMsg::Release(PodUid::from(uid), reply)).await
    }

    async fn devices(&self, pod: &Arc<Pod>) -> Result<Vec<String>, String> {
        let question = |reply| ClaimManagerMsg::Devices(Arc::clone(pod), "c".to_owned(), reply);
        let answer = self.manager().ask(Cause::outside("test"), LONG, question).await.expect("answered");
        answer.map_err(|error| error.to_string())
    }

    async fn book(&self) -> Arc<ClaimBook> {
        let book = self.manager().ask(Cause::outside("test"), LONG, ClaimManagerMsg::Claims).await;
        book.expect("answered").expect("read")
    }

    fn file(&self) -> String {
        fs::read_to_string(self.path("dra_manager_state")).unwrap_or_default()
    }
}

/// A pod of this UID whose container `c` has these claims.
fn pod(uid: &str, claims: &[&str]) -> Arc<Pod> {
    let entry = |name: &&str| json!({ "name": name, "resourceClaimName": name });
    let used = |name: &&str| json!({ "name": name });
    let resources = json!({ "claims": claims.iter().map(used).collect::<Vec<_>>() });
    let pod = json!({
        "metadata": { "name": uid, "namespace": "ns", "uid": uid },
        "spec": {
            "containers": [{ "name": "c", "resources": resources }],
            "resourceClaims": claims.iter().map(entry).collect::<Vec<_>>(),
        },
    });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

/// RES-48, RES-50.
#[tokio::test]
async fn res_48_a_claim_is_prepared_once_shared_and_released_with_its_last_pod() {
    let setup = Setup::new();
    setup.put_claim("a", &["one", "two"]);
    setup.put_claim("b", &["one"]);
    let (one, two) = (pod("one", &["a", "b"]), pod("two", &["a"]));
    assert_eq!(setup.prepare(&one).await, Err("DRA driver drv.test is not registered".to_owned()));
    assert_eq!(setup.file(), "", "nothing is noted of a driver that never was there");
    let _serving = setup.serve().await;
    assert_eq!(setup.prepare(&one).await, Ok(()));
    assert_eq!(setup.prepare(&two).await, Ok(()));
    let names = |claims: &[&str]| claims.iter().map(|name| setup.driver.cdi(name)).collect::<Vec<_>>();
    assert_eq!(setup.devices(&one).await, Ok(names(&["a", "b"])));
    assert_eq!(setup.devices(&two).await, Ok(names(&["a"])));
    assert!(setup.file().contains("drv.test/device=b"), "{}", setup.file());
    assert_eq!(setup.book().await.in_use()["drv.test"], 2);
    assert_eq!(setup.release("one").await, Ok(()));
    assert!(!setup.file().contains("device=b") && setup.file().contains("device=a"), "{}", setup.file());
    assert_eq!(setup.release("two").await, Ok(()));
    assert_eq!(setup.release("two").await, Ok(()), "as often as it is asked");
    let calls = ["v1 NodePrepareResources a b", "v1 NodeUnprepareResources b", "v1 NodeUnprepareResources a"]
        .map(str::to_owned);
    assert_eq!(setup.driver.calls(), calls);
    assert_eq!(setup.book().await.all().count(), 0);
}

/// RES-48: the words of failures, and that none of them is the last.
#[tokio::test]
async fn res_48_failures_are_told_and_tried_again() {
    let setup = Setup::new();
    let _serving = setup.serve().await;
    let one = pod("one", &["a"]);
    let missing = setup.prepare(&one).await.expect_err("no such claim");
    assert!(missing.starts_with("fetch ResourceClaim a: "), "{missing}");
    setup.put_claim("a", &["two"]);
    let refused = "pod one (one) is not allowed to use ResourceClaim a (uid-a)";
    assert_eq!(setup.prepare(&one).await, Err(refused.to_owned()));
    setup.put_claim("a", &["one"]);
    setup.driver.switches().refuses.insert("a".to_owned(), "no device".to_owned());
    let words = "NodePrepareResources failed for ResourceClaim a: no device";
    assert_eq!(setup.prepare(&one).await, Err(words.to_owned()));
    setup.driver.switches().refuses.clear();
    setup.driver.switches().fails.insert("NodePrepareResources", [Code::Internal].into());
    let failed = setup.prepare(&one).await.expect_err("it is to fail");
    assert_eq!(failed, "NodePrepareResources: rpc error: code = Internal desc = NodePrepareResources is to fail");
    assert!(
        setup.file().contains("\\\"one\\\":{}"),
        "the pod was noted before the driver was called: {}",
        setup.file()
    );
    assert_eq!(setup.prepare(&one).await, Ok(()));
    setup.driver.switches().fails.insert("NodeUnprepareResources", [Code::Unavailable].into());
    setup.release("one").await.expect_err("it is to fail");
    assert_eq!(setup.book().await.all().count(), 1, "it stays until it is released");
    assert_eq!(setup.release("one").await, Ok(()));
}

/// RES-48: one hung driver costs its own pods, and the wait names it.
#[tokio::test]
async fn res_48_a_driver_that_hangs_keeps_no_pod_of_another() {
    let setup = Setup::new();
    let _serving = setup.serve().await;
    setup.driver.switches().hangs.insert("NodePrepareResources");
    setup.put_claim("a", &["one"]);
    let one = pod("one", &["a"]);
    let question = |reply| ClaimManagerMsg::Prepare(Arc::clone(&one), reply);
    let late = setup.manager().ask(Cause::outside("test"), Duration::from_millis(300), question).await;
    assert!(matches!(late, Err(AskError::Late)), "{late:?}");
    let question = |reply| ClaimManagerMsg::Progress(PodUid::from("one"), reply);
    let progress = setup.manager().ask(Cause::outside("test"), LONG, question).await.expect("answered");
    let told = progress.expect("under way").to_string();
    assert!(told.starts_with("DRA driver drv.test, which has not answered NodePrepareResources since 20"), "{told}");
    let folder = tempfile::tempdir().expect("a folder");
    let other = DraDriver::new("other.test", folder.path());
    let _other = other.serve(&setup.path("plugins_registry"));
    setup.eventually("it is used", || !other.verdicts().is_empty()).await;
    let result = json!({ "driver": "other.test", "pool": "pool", "device": "b", "request": "r" });
    let reserved = json!([{ "resource": "pods", "name": "two", "uid": "two" }]);
    let status = json!({ "allocation": { "devices": { "results": [result] } }, "reservedFor": reserved });
    let claim = json!({ "metadata": { "uid": "uid-b" }, "spec": {}, "status": status });
    setup.server.put("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/b", claim);
    assert_eq!(setup.prepare(&pod("two", &["b"])).await, Ok(()));
}

/// RES-48, RES-50: an agent that begins anew prepares again, and gives running pods what they have.
#[tokio::test]
async fn res_50_the_next_agent_goes_on_from_the_file() {
    let setup = Setup::new();
    setup.put_claim("a", &["one"]);
    let one = pod("one", &["a"]);
    let serving = setup.serve().await;
    assert_eq!(setup.prepare(&one).await, Ok(()));
    drop(serving);
    let next = Setup::on(Arc::clone(&setup.root), setup.server.clone());
    assert_eq!(next.devices(&one).await, Ok(vec![next.driver.cdi("a")]), "before the driver is there again");
    let _serving = next.serve().await;
    assert_eq!(next.prepare(&one).await, Ok(()));
    assert_eq!(next.driver.calls(), ["v1 NodePrepareResources a"]);
    assert_eq!(next.release("one").await, Ok(()));
    drop(next);
    fs::write(setup.path("dra_manager_state"), "{\"Data\":\"{}\",\"Checksum\":1}").expect("written");
    let last = Setup::on(Arc::clone(&setup.root), setup.server.clone());
    let question = |reply| ClaimManagerMsg::Prepare(Arc::clone(&one), reply);
    let late = last.manager().ask(Cause::outside("test"), Duration::from_millis(300), question).await;
    assert!(late.is_err(), "nothing is prepared without the file: {late:?}");
}

/// RES-48: versions that nobody knows, and two instances during an update.
#[tokio::test]
async fn res_48_the_newest_instance_is_called_and_an_unknown_version_is_refused() {
    let setup = Setup::new();
    setup.driver.switches().versions = vec!["v9.DRAPlugin".to_owned()];
    let refused = setup.driver.serve(&setup.path("plugins_registry"));
    setup.eventually("it is refused", || !setup.driver.verdicts().is_empty()).await;
    let (is_used, why) = setup.driver.verdicts()[0].clone();
    assert!(!is_used && why.contains("none of services supported by the plugin ([\"v9.DRAPlugin\"])"), "{why}");
    drop(refused);
    setup.driver.switches().versions = vec!["v1beta1.DRAPlugin".to_owned()];
    let _old = setup.serve().await;
    setup.put_claim("a", &["one"]);
    assert_eq!(setup.prepare(&pod("one", &["a"])).await, Ok(()));
    let folder = setup.folder.path().join("new");
    fs::create_dir(&folder).expect("made");
    let new = DraDriver::new("drv.test", &folder);
    let serving = new.serve_as(&setup.path("plugins_registry"), "new.sock");
    setup.eventually("it is used", || !new.verdicts().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(300)).await; // its connection
    assert_eq!(setup.release("one").await, Ok(()));
    assert_eq!(new.calls(), ["v1 NodeUnprepareResources a"]);
    assert_eq!(setup.driver.calls(), ["v1beta1 NodePrepareResources a"]);
    drop(serving);
    setup.put_claim("b", &["one"]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(setup.prepare(&pod("one", &["b"])).await, Ok(()));
    assert_eq!(setup.driver.calls().last().map(String::as_str), Some("v1beta1 NodePrepareResources b"));
}

/// RES-49.
#[tokio::test]
async fn res_49_all_slices_of_the_node_are_deleted_at_the_start() {
    let setup = Setup::new();
    setup.eventually("they are deleted", || !setup.server.queries("resourceslices").is_empty()).await;
    let node = &setup.played.agent.settings.node_name;
    let expected = format!("DELETE /apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{node}");
    assert_eq!(setup.server.queries("resourceslices"), [expected]);
}

/// RES-51.
#[tokio::test]
async fn res_51_the_worker_hears_how_its_devices_are() {
    use crate::platform::plugins::wire::dra_health_v1alpha1::HealthStatus;
    let setup = Setup::new();
    let _serving = setup.serve().await;
    setup.put_claim("a", &["one"]);
    let one = pod("one", &["a"]);
    assert_eq!(setup.prepare(&one).await, Ok(()));
    let worker: Address<PodWorkerMsg> =
        Address::new(&setup.played.agent.trace, "PodWorker/one", "PodWorker", "PodManager", 16);
    let follow = ClaimManagerMsg::Follow(PodUid::from("one"), Some((Arc::clone(&one), worker.subscriber())));
    setup.manager().tell(Cause::outside("test"), follow).expect("room");
    setup.driver.say("a", HealthStatus::Unhealthy, "hot");
    let state = || fs::read_to_string(setup.path("dra_health_state")).unwrap_or_default();
    setup.eventually("it is kept", || state().contains("\"Health\":\"Unhealthy\"")).await;
    assert!(state().contains("\"Message\":\"hot\""), "{}", state());
}

/// RES-49, RES-51: as upstream, which drivers rely on.
#[tokio::test]
async fn res_49_calls_and_news_of_health_share_one_connection() {
    use crate::platform::plugins::wire::dra_health_v1alpha1::HealthStatus;
    let setup = Setup::new();
    setup.driver.say("a", HealthStatus::Unhealthy, "hot");
    let state = || fs::read_to_string(setup.path("dra_health_state")).unwrap_or_default();
    // Another instance has a connection of its own.
    for (uid, connections) in [("one", 1), ("two", 2)] {
        let _serving = setup.serve().await;
        setup.put_claim("a", &[uid]);
        assert_eq!(setup.prepare(&pod(uid, &["a"])).await, Ok(()));
        setup.eventually("its health is kept", || state().contains("\"Message\":\"hot\"")).await;
        assert_eq!(setup.release(uid).await, Ok(()));
        assert_eq!(setup.driver.connections(), connections);
    }
}
