//! Device plugins from their registration to the Node and back: real sockets, a played API server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tonic::Code;

use crate::actors::agent::PluginAdapters;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, PlayedServer, node_agent_with};
use crate::actors::wiring::start_alone;
use crate::logic::plugins::device_sessions::{DevicePluginView, Stage};
use crate::messages::plugins::device_plugins::{DeviceCallError, DevicePluginsMsg, DeviceUse, Preference};
use crate::messages::root::Child;
use crate::platform::host::clock::{Clock, SystemClock};
use crate::platform::plugins::wire::deviceplugin_v1beta1::{ContainerAllocateResponse, DevicePluginOptions};
use crate::platform::plugins::{GrpcDevices, GrpcRegistration, LinuxPluginRegistry};
use crate::server::rpc::DeviceRegistration;
use crate::testing::device_plugin::{Plugin, Serving, register};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
const GPU: &str = "vendor.com/gpu";
const NIC: &str = "vendor.com/nic";
/// All calls that a plugin may want.
const ALL: DevicePluginOptions =
    DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: true };

struct Setup {
    played: PlayedAgent,
    server: PlayedServer,
    root: tempfile::TempDir,
}

impl Setup {
    /// The actors of plugins and of the Node, and no plugin yet.
    async fn new() -> Self {
        let (server, root) = (PlayedServer::default(), tempfile::tempdir().expect("a folder"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let path = root.path();
        std::fs::create_dir(path.join("plugins_registry")).expect("made");
        let played = node_agent_with(&server, Arc::clone(&clock), |settings, adapters| {
            settings.node.update_period = Duration::from_millis(50);
            adapters.plugins = PluginAdapters {
                registry: Arc::new(LinuxPluginRegistry::new(path)),
                registration: Arc::new(GrpcRegistration),
                device_socket: Arc::new(DeviceRegistration::new(&path.join("devices"), Arc::clone(&clock))),
                devices: Arc::new(GrpcDevices::new(path.join("devices"), &clock)),
                ..PluginAdapters::none()
            };
        });
        let setup = Self { played, server, root };
        let of_the_node = [Child::NodeStatus, Child::RuntimeMonitor, Child::AllocationManager];
        for child in of_the_node.into_iter().chain([Child::DevicePlugins, Child::PluginWatcher]) {
            start_alone(child, &setup.played.agent);
        }
        setup.eventually("the socket is there", async || setup.socket().exists()).await;
        setup
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn socket(&self) -> PathBuf {
        self.path("devices/kubelet.sock")
    }

    fn plugin(&self, resource: &str, devices: &[&str]) -> Plugin {
        Plugin::new(resource, &self.path("devices"), devices)
    }

    /// A plugin that is used, and has told its devices.
    async fn used(&self, plugin: &Plugin) -> Serving {
        let serving = plugin.serve();
        plugin.register(&self.socket()).await.expect("registered");
        self.eventually("its devices are known", async || {
            let views = self.views().await;
            views.iter().any(|view| view.stage == Stage::Registered && view.devices > 0)
        })
        .await;
        serving
    }

    async fn views(&self) -> Vec<DevicePluginView> {
        self.ask(DevicePluginsMsg::List).await
    }

    async fn view(&self, resource: &str) -> DevicePluginView {
        let views = self.views().await;
        views.into_iter().find(|view| view.resource == resource).expect("it is known")
    }

    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(ractor::RpcReplyPort<T>) -> DevicePluginsMsg) -> T {
        let to = &self.played.agent.directory.device_plugins;
        to.ask(Cause::outside("test"), LONG, question).await.expect("answered")
    }

    /// The Node's capacity and allocatable of a resource.
    fn amounts(&self, resource: &str) -> (Value, Value) {
        let status = self.server.node().unwrap_or_default()["status"].clone();
        (status["capacity"][resource].clone(), status["allocatable"][resource].clone())
    }

    async fn eventually(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        for _ in 0..3000 {
            if is_so().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}; {:?}", self.views().await);
    }
}

fn devices(resource: &str, ids: &[&str]) -> DeviceUse {
    DeviceUse { resource: resource.to_owned(), ids: ids.iter().map(|id| (*id).to_owned()).collect() }
}

/// RES-39, RES-40, RES-43: from the registration to the Node, and what is left of a plugin that dies.
#[tokio::test]
async fn devices_of_a_plugin_are_amounts_of_the_node() {
    let setup = Setup::new().await;
    let plugin = setup.plugin(GPU, &["a", "b", "c!"]);
    let serving = setup.used(&plugin).await;
    setup.eventually("the Node has them", async || setup.amounts(GPU) == (json!("3"), json!("2"))).await;
    plugin.tell(&["a!", "b!"]);
    setup.eventually("none is healthy", async || setup.amounts(GPU) == (json!("2"), json!("0"))).await;
    plugin.tell(&["a", "b"]);
    setup.eventually("all are healthy", async || setup.amounts(GPU) == (json!("2"), json!("2"))).await;
    drop(serving);
    setup.eventually("it is gone", async || setup.amounts(GPU) == (json!("2"), json!("0"))).await;
    let view = setup.view(GPU).await;
    assert_eq!((view.stage, view.healthy, view.devices), (Stage::Stopped, 0, 2));
    assert!(view.last_error.is_some());
    let _serving = setup.used(&plugin).await;
    setup.eventually("it is back", async || setup.amounts(GPU) == (json!("2"), json!("2"))).await;
}

/// RES-39, SEC-56.
#[tokio::test]
async fn sec_56_registrations_are_refused_by_the_socket_in_upstreams_words() {
    let setup = Setup::new().await;
    let plugin = setup.plugin(GPU, &["a"]);
    plugin.switches().fails.entry("GetDevicePluginOptions").or_default().push_back(Code::Internal);
    let _serving = plugin.serve();
    let endpoint = plugin.endpoint();
    std::os::unix::fs::symlink(plugin.socket(), setup.path("devices/link.sock")).expect("linked");
    for (version, endpoint, resource, expected) in [
        ("v1", &*endpoint, GPU, "requested API version \"v1\" is not supported by kubelet. Supported version is"),
        ("v1beta1", &*endpoint, "cpu", "the ResourceName \"cpu\" is invalid"),
        ("v1beta1", "../x.sock", GPU, "the endpoint \"../x.sock\" is not the name of a socket"),
        ("v1beta1", "none.sock", GPU, "failed to dial device plugin: "),
        ("v1beta1", "link.sock", GPU, "failed to dial device plugin: "),
        ("v1beta1", &*endpoint, GPU, "failed to get device plugin options: rpc error: code = Internal desc = "),
    ] {
        let refused = register(&setup.socket(), version, endpoint, resource).await.expect_err("refused");
        assert_eq!(refused.code(), Code::Unknown);
        assert!(refused.message().starts_with(expected), "{}", refused.message());
    }
    assert_eq!(setup.view(GPU).await.stage, Stage::Failed);
    plugin.register(&setup.socket()).await.expect("registered");
}

/// RES-41, RES-42: calls for containers, made where the plugin wants them.
#[tokio::test]
async fn a_plugin_is_called_for_containers_as_it_wants() {
    let setup = Setup::new().await;
    let plugin = setup.plugin(GPU, &["a", "b"]);
    let serving = setup.used(&plugin).await;
    let preference = || Preference {
        resource: GPU.to_owned(),
        available: vec!["a".to_owned(), "b".to_owned()],
        required: vec![],
        count: 1,
    };
    let chosen = setup.ask(|reply| DevicePluginsMsg::Prefer(preference(), reply)).await;
    assert_eq!(chosen, Ok(vec![]), "it has no preferences");
    let started = setup.ask(|reply| DevicePluginsMsg::PreStart(devices(GPU, &["a"]), reply)).await;
    assert_eq!((started, plugin.seen().calls.len()), (Ok(()), 2), "it was not called");
    plugin.switches().options = ALL;
    plugin.switches().grant =
        ContainerAllocateResponse { envs: [("GPU".to_owned(), "a".to_owned())].into(), ..Default::default() };
    plugin.register(&setup.socket()).await.expect("registered anew");
    let chosen = setup.ask(|reply| DevicePluginsMsg::Prefer(preference(), reply)).await;
    assert_eq!(chosen, Ok(vec!["b".to_owned()]));
    let grant = setup.ask(|reply| DevicePluginsMsg::Allocate(devices(GPU, &["b"]), reply)).await.expect("given");
    assert_eq!(grant.envs["GPU"], "a");
    let started = setup.ask(|reply| DevicePluginsMsg::PreStart(devices(GPU, &["b"]), reply)).await;
    assert_eq!((started, plugin.seen().calls.last().map(String::as_str)), (Ok(()), Some("PreStartContainer b")));
    plugin.switches().fails.entry("Allocate").or_default().push_back(Code::Aborted);
    let refused = setup.ask(|reply| DevicePluginsMsg::Allocate(devices(GPU, &["a"]), reply)).await;
    let refused = refused.expect_err("refused").to_string();
    assert_eq!(refused, "rpc error: code = Aborted desc = Allocate is to fail");
    assert_eq!(setup.view(GPU).await.last_error.as_deref(), Some(&*refused));
    drop(serving);
    setup.eventually("it is gone", async || setup.view(GPU).await.stage == Stage::Stopped).await;
    let stopped = || Err(DeviceCallError::Stopped(GPU.to_owned()));
    assert_eq!(setup.ask(|reply| DevicePluginsMsg::PreStart(devices(GPU, &["a"]), reply)).await, stopped());
    let unknown = setup.ask(|reply| DevicePluginsMsg::PreStart(devices(NIC, &["a"]), reply)).await;
    assert_eq!(unknown, Ok(()), "an earlier run of the agent may have known it");
}

/// RES-39: a plugin that hangs, floods or dies is no other's trouble.
#[tokio::test]
async fn a_plugin_that_hangs_or_floods_keeps_no_other() {
    let setup = Setup::new().await;
    let hung = setup.plugin(GPU, &["a"]);
    hung.switches().hangs.insert("GetDevicePluginOptions");
    let _hung = hung.serve();
    let socket = setup.socket();
    let waits = hung.register(&socket);
    let mut waits = std::pin::pin!(waits);
    tokio::time::timeout(Duration::from_millis(300), &mut waits).await.expect_err("it hangs");
    let flood = setup.plugin("vendor.com/flood", &["f"; 1000]);
    flood.switches().floods = true;
    let _flood = flood.serve();
    flood.register(&socket).await.expect("registered");
    let plugin = setup.plugin(NIC, &["n"]);
    let _serving = setup.used(&plugin).await;
    setup.eventually("the Node has it", async || setup.amounts(NIC) == (json!("1"), json!("1"))).await;
    setup.ask(|reply| DevicePluginsMsg::Allocate(devices(NIC, &["n"]), reply)).await.expect("given");
    let refused = waits.await.expect_err("too late");
    let expected = "failed to get device plugin options: rpc error: code = DeadlineExceeded";
    assert!(refused.message().starts_with(expected), "{}", refused.message());
}

/// RES-39: after a restart of the actor the socket is a new one, and those of plugins are gone, so that they register again.
#[tokio::test]
async fn a_restarted_actor_makes_its_socket_anew() {
    let setup = Setup::new().await;
    let plugin = setup.plugin(GPU, &["a"]);
    let _serving = setup.used(&plugin).await;
    let inode = |path: PathBuf| {
        use std::os::unix::fs::MetadataExt;
        std::fs::symlink_metadata(path).map(|found| (found.ino(), found.ctime_nsec())).ok()
    };
    let before = inode(setup.socket());
    let actor = start_alone(Child::DevicePlugins, &setup.played.agent);
    setup.eventually("a new socket", async || inode(setup.socket()).is_some_and(|now| Some(now) != before)).await;
    assert!(!plugin.socket().exists(), "the plugin sees that it has to register again");
    assert_eq!(setup.views().await, []);
    let _again = setup.used(&plugin).await;
    drop(actor);
}

/// RES-39: by the plugins' registry.
#[tokio::test]
async fn a_plugin_of_the_registry_is_judged_and_used_until_its_socket_goes() {
    let setup = Setup::new().await;
    let plugin = setup.plugin(GPU, &["a", "b"]);
    plugin.switches().versions = vec!["v1".to_owned()];
    let serving = plugin.serve_in_registry(&setup.path("plugins_registry"));
    setup.eventually("it is judged", async || !plugin.seen().verdicts.is_empty()).await;
    let (used, why) = plugin.seen().verdicts[0].clone();
    let expected = "manager version, v1beta1, is not among plugin supported versions [v1]";
    assert!(!used && why.ends_with(expected), "{why}");
    plugin.switches().versions = vec!["v1beta1".to_owned()];
    setup.eventually("it is used", async || plugin.seen().verdicts.last().is_some_and(|(used, _)| *used)).await;
    setup.eventually("the Node has them", async || setup.amounts(GPU) == (json!("2"), json!("2"))).await;
    assert!(setup.view(GPU).await.registry_socket.is_some());
    drop(serving);
    setup.eventually("it is gone", async || setup.amounts(GPU) == (json!("2"), json!("0"))).await;
}
