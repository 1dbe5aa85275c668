//! News at an unhappy moment, under paused time: of a plugin during a look, of the Node late or during a question about it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::stream;
use k8s_openapi::api::core::v1::Node;
use tokio::sync::Notify;

use super::*;
use crate::actors::kit::actor::{Actor, spawn};
use crate::actors::kit::context::Context;
use crate::actors::node::tests::played_agent;
use crate::logic::plugins::plugin::PluginInfo;
use crate::logic::plugins::plugin_states::SocketIdentity;
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::users::VolumeUser;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::{Ownership, VolumePlace};
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::plugins::csi_manager::CsiManagerMsg;
use crate::platform::plugins::{Hints, NoPlugins, PluginError, PluginRegistration, PluginRegistry};
use crate::platform::volumes::csi::{CsiHost, DeviceHold};
use crate::platform::volumes::{Progress, VolumeError};

/// How long a look at the registry takes after it has seen what there is.
const LOOK: Duration = Duration::from_millis(5);

/// A registry whose sockets nobody listens at.
#[derive(Default)]
struct Registry {
    sockets: Mutex<BTreeMap<String, SocketIdentity>>,
    appeared: Arc<Notify>,
    looked: Notify,
    called: Mutex<Vec<String>>,
}

impl Registry {
    fn add(&self, socket: &str) {
        let identity = SocketIdentity { device: 1, inode: 1, made: 1 };
        self.sockets.lock().expect("not poisoned").insert(socket.to_owned(), identity);
        self.appeared.notify_one();
    }

    fn called(&self) -> Vec<String> {
        self.called.lock().expect("not poisoned").clone()
    }
}

#[async_trait]
impl PluginRegistry for Registry {
    async fn scan(&self) -> Result<BTreeMap<String, SocketIdentity>, PluginError> {
        let seen = self.sockets.lock().expect("not poisoned").clone();
        self.looked.notify_waiters();
        tokio::time::sleep(LOOK).await;
        Ok(seen)
    }

    async fn watch(&self) -> Result<Hints, PluginError> {
        let next = |appeared: Arc<Notify>| async move {
            appeared.notified().await;
            Some(((), appeared))
        };
        Ok(Box::pin(stream::unfold(Arc::clone(&self.appeared), next)))
    }
}

#[async_trait]
impl PluginRegistration for Registry {
    async fn info(&self, socket: &str) -> Result<PluginInfo, PluginError> {
        self.called.lock().expect("not poisoned").push(socket.to_owned());
        Err(PluginError::Dial { socket: socket.to_owned(), problem: "connection refused".to_owned() })
    }

    async fn notify(&self, _: &str, _: Option<&str>) -> Result<(), PluginError> {
        Ok(())
    }
}

/// RES-47: the look has passed the place, and ends before the wait that the hint began.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_appears_during_a_look_is_found_at_once() {
    let registry = Arc::new(Registry::default());
    let played = played_agent(ObjectServer::default().api(), |_, adapters| {
        adapters.plugins =
            PluginAdapters { registry: registry.clone(), registration: registry.clone(), ..PluginAdapters::none() };
    });
    start_alone(Child::PluginWatcher, &played.agent);
    tokio::time::sleep(Duration::from_secs(1)).await;
    registry.add("/first");
    registry.looked.notified().await;
    registry.add("/second");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let called = registry.called();
    assert!(["/first", "/second"].iter().all(|socket| called.iter().any(|called| called == socket)), "{called:?}");
}

/// `NodeStatus`, which has no Node when it is asked first, and registers the node before that answer arrives.
struct LateNode {
    asked: usize,
    csi_manager: Address<CsiManagerMsg>,
}

impl Actor for LateNode {
    const KIND: &'static str = "NodeStatus";
    type Msg = NodeStatusMsg;
    type Args = Address<CsiManagerMsg>;

    fn begin(csi_manager: Self::Args, _: &mut Context<NodeStatusMsg>) -> Self {
        Self { asked: 0, csi_manager }
    }

    fn receive(&mut self, message: NodeStatusMsg, context: &mut Context<NodeStatusMsg>) {
        let NodeStatusMsg::Node(reply) = message else { return };
        self.asked += 1;
        let node = match self.asked {
            1 => {
                context.tell(&self.csi_manager, CsiManagerMsg::NodeRegistered);
                None
            }
            _ => {
                let mut node = Node::default();
                node.metadata.uid = Some("node-uid".to_owned());
                Some(Arc::new(node))
            }
        };
        reply.send(node).expect("it waits");
    }
}

/// NODE-59.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_while_it_is_asked_for_gets_its_csi_node_at_once() {
    let server = ObjectServer::default();
    let agent = played_agent(server.api(), |_, _| {}).agent;
    spawn::<LateNode>(&agent.directory.node_status, agent.directory.csi_manager.clone(), None);
    start_alone(Child::CsiManager, &agent);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let csi_node = server.object(&format!("/apis/storage.k8s.io/v1/csinodes/{}", agent.settings.node_name));
    assert_eq!(csi_node["metadata"]["ownerReferences"][0]["uid"], "node-uid");
}

/// NODE-12, NODE-34, NODE-59: of a node that somebody else creates.
#[tokio::test(start_paused = true)]
async fn a_node_that_appears_gets_its_csi_node_and_lease_at_once() {
    let server = ObjectServer::default();
    let agent = played_agent(server.api(), |settings, _| settings.node.register = false).agent;
    for child in [Child::NodeStatus, Child::NodeLease, Child::CsiManager] {
        start_alone(child, &agent);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = &agent.settings.node_name;
    server.put(&format!("/api/v1/nodes/{node}"), json!({ "metadata": { "uid": "node-uid" } }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}");
    for path in [format!("/apis/storage.k8s.io/v1/csinodes/{node}"), lease] {
        assert_eq!(server.object(&path)["metadata"]["ownerReferences"][0]["uid"], "node-uid", "{path}");
    }
}

/// A disk whose volumes nobody can list.
#[derive(Default)]
struct Unlisted {
    looks: AtomicUsize,
}

#[async_trait]
impl CsiHost for Unlisted {
    async fn devices(&self) -> Result<Vec<(DevicePlace, VolumeData)>, VolumeError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Err(VolumeError::Refused("input/output error".to_owned()))
    }
    fn root(&self) -> String {
        NoPlugins.root()
    }
    async fn hold(&self, device: &DevicePlace) -> DeviceHold {
        NoPlugins.hold(device).await
    }
    async fn note_device(&self, device: &DevicePlace, data: Option<VolumeData>) -> Result<(), VolumeError> {
        NoPlugins.note_device(device, data).await
    }
    async fn forget_device(&self, device: &DevicePlace) -> Result<(), VolumeError> {
        NoPlugins.forget_device(device).await
    }
    async fn note_pod(&self, place: &VolumePlace, data: VolumeData) -> Result<(), VolumeError> {
        NoPlugins.note_pod(place, data).await
    }
    async fn pod_data(&self, place: &VolumePlace) -> Result<Option<VolumeData>, VolumeError> {
        NoPlugins.pod_data(place).await
    }
    async fn forget_pod(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        NoPlugins.forget_pod(place).await
    }
    async fn is_pod_mounted(&self, place: &VolumePlace) -> Result<bool, VolumeError> {
        NoPlugins.is_pod_mounted(place).await
    }
    async fn users(&self) -> Result<Vec<VolumeUser>, VolumeError> {
        NoPlugins.users().await
    }
    async fn own(&self, place: &VolumePlace, order: Ownership, progress: Arc<Progress>) -> Result<(), VolumeError> {
        NoPlugins.own(place, order, progress).await
    }
    async fn clean_parts(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        NoPlugins.clean_parts(place).await
    }
}

/// VOL-45: each look walks over the disk.
#[tokio::test(start_paused = true)]
async fn looks_at_a_disk_that_cannot_be_read_come_ever_later() {
    let disk = Arc::new(Unlisted::default());
    let played = played_agent(ObjectServer::default().api(), |_, adapters| {
        adapters.plugins = PluginAdapters { volumes: disk.clone(), ..PluginAdapters::none() };
    });
    start_alone(Child::CsiManager, &played.agent);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let looks = disk.looks.load(Ordering::SeqCst);
    assert!((2..=10).contains(&looks), "{looks} looks");
}
