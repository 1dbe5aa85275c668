//! Hardware for pods, with files that can be held up and played device plugins.

mod devices;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use ractor::{ActorCell, RpcReplyPort};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::*;
use crate::actors::kit::actor::spawn;
use crate::actors::kit::trace::{Cause, lock};
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::placing::Placing;
use crate::logic::resources::allocations::Allocations;
use crate::logic::resources::allocations::tests::{managers, owner};
use crate::logic::resources::topology::policy::PolicyKind;
use crate::messages::resources::allocation_manager::{Actuated, PlaceRequest};
use crate::messages::root::Child;
use crate::platform::files::FileError;

/// Files in memory. Each write takes one of the permits, and fails when there will be none, or while the disk is full.
struct HeldFiles {
    writes: Semaphore,
    is_full: AtomicBool,
    kept: Mutex<BTreeMap<&'static str, Vec<u8>>>,
}

impl HeldFiles {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self { writes: Semaphore::new(permits), is_full: AtomicBool::new(false), kept: Mutex::default() })
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(lock(&self.kept).get(name).cloned().unwrap_or_default()).expect("text")
    }
}

#[async_trait]
impl Checkpoints for HeldFiles {
    async fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(lock(&self.kept).get(name).cloned())
    }
    async fn write(&self, name: &'static str, bytes: Vec<u8>) -> Result<(), FileError> {
        let full = || FileError { attempt: "write", path: name.to_owned(), problem: "no space left".to_owned() };
        self.writes.acquire().await.map_err(|_| full())?.forget();
        if self.is_full.load(Ordering::Relaxed) {
            return Err(full());
        }
        lock(&self.kept).insert(name, bytes);
        Ok(())
    }
    async fn set_aside(&self, name: &'static str) -> Result<(), FileError> {
        lock(&self.kept).remove(name);
        Ok(())
    }
}

/// Hands messages to `DevicePlugins` to the test.
struct Plugins(mpsc::UnboundedSender<DevicePluginsMsg>);

impl Actor for Plugins {
    const KIND: &'static str = "DevicePlugins";
    type Msg = DevicePluginsMsg;
    type Args = mpsc::UnboundedSender<DevicePluginsMsg>;

    fn begin(args: Self::Args, _: &mut Context<DevicePluginsMsg>) -> Self {
        Self(args)
    }

    fn receive(&mut self, message: DevicePluginsMsg, _: &mut Context<DevicePluginsMsg>) {
        let _ = self.0.send(message); // The test may be over.
    }
}

/// Hands messages to `NodeStatus` to the test.
struct NodeObject(mpsc::UnboundedSender<NodeStatusMsg>);

impl Actor for NodeObject {
    const KIND: &'static str = "NodeStatus";
    type Msg = NodeStatusMsg;
    type Args = mpsc::UnboundedSender<NodeStatusMsg>;

    fn begin(args: Self::Args, _: &mut Context<NodeStatusMsg>) -> Self {
        Self(args)
    }

    fn receive(&mut self, message: NodeStatusMsg, _: &mut Context<NodeStatusMsg>) {
        let _ = self.0.send(message); // The test may be over.
    }
}

type Answer = oneshot::Receiver<BTreeMap<PodUid, Placing>>;

/// An agent with an `AllocationManager` and played plugins.
struct Node {
    played: PlayedAgent,
    files: Arc<HeldFiles>,
    told: mpsc::UnboundedReceiver<DevicePluginsMsg>,
    told_node: mpsc::UnboundedReceiver<NodeStatusMsg>,
    manager: ActorCell,
    _others: [ActorCell; 2],
}

impl Node {
    /// With plugins that were heard, and have no devices.
    async fn new(files: &Arc<HeldFiles>, wait: Duration) -> Self {
        let mut node = Self::unheard(files, wait).await;
        let asked = node.told.try_recv();
        assert!(matches!(asked, Ok(DevicePluginsMsg::Remembered(_))), "the devices are asked for: {asked:?}");
        node.tell(HardwareMsg::Devices(Arc::default()));
        seconds(1.0).await;
        node
    }

    /// With plugins that nobody has heard of yet.
    async fn unheard(files: &Arc<HeldFiles>, wait: Duration) -> Self {
        let kept = Arc::clone(files);
        let played = played_agent(ObjectServer::default().api(), |settings, adapters| {
            settings.resources.managers = Arc::new(managers(PolicyKind::BestEffort));
            settings.resources.device_plugin_wait = wait;
            adapters.plugins.device_files = kept.clone();
            adapters.checkpoints = kept;
        });
        let (sender, told) = mpsc::unbounded_channel();
        let plugins = spawn::<Plugins>(&played.agent.directory.device_plugins, sender, None);
        let (sender, told_node) = mpsc::unbounded_channel();
        let node = spawn::<NodeObject>(&played.agent.directory.node_status, sender, None);
        let manager = start_alone(Child::AllocationManager, &played.agent);
        seconds(1.0).await;
        Self { played, files: Arc::clone(files), told, told_node, manager, _others: [plugins, node] }
    }

    fn tell(&self, message: HardwareMsg) {
        let address = &self.played.agent.directory.allocation_manager;
        address.tell(Cause::outside("test"), AllocationManagerMsg::Hardware(message)).expect("has room");
    }

    fn place(&self, pod: Pod, holding: &[&str]) -> Answer {
        self.ask(pod, Some(holders(holding)))
    }

    fn ask(&self, pod: Pod, holders: Option<Arc<BTreeSet<PodUid>>>) -> Answer {
        let (reply, answer) = oneshot::channel();
        let (pods, reply) = (vec![Arc::new(pod)], RpcReplyPort::from(reply));
        self.tell(HardwareMsg::Place(PlaceRequest { pods, holders, running: BTreeMap::new(), reply }));
        answer
    }

    async fn allocations(&self) -> Arc<Allocations> {
        let address = &self.played.agent.directory.allocation_manager;
        let asked = address.ask(Cause::outside("test"), Duration::from_secs(1), AllocationManagerMsg::Allocations);
        asked.await.expect("answers")
    }
}

fn holders(pods: &[&str]) -> Arc<BTreeSet<PodUid>> {
    Arc::new(pods.iter().map(|uid| PodUid::from(*uid)).collect())
}

/// The answer about the one pod of a question.
async fn answered(answer: Answer) -> Placing {
    answer.await.expect("answered").into_values().next().expect("one pod")
}

/// A question that waited for the disk must not bring back a pod that has ended meanwhile.
#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_while_its_question_waited_is_given_nothing() {
    let node = Node::new(&HeldFiles::new(2), Duration::ZERO).await;
    let first = node.place(owner("a", "2", "1Gi"), &["a"]);
    seconds(1.0).await;
    let second = node.place(owner("b", "2", "1Gi"), &["a", "b"]);
    node.tell(HardwareMsg::Holders(holders(&["a"])));
    seconds(1.0).await;
    node.files.writes.add_permits(100);
    assert_eq!(answered(first).await, Placing::Given);
    assert_eq!(answered(second).await, Placing::NotYet("nobody wants the pod any more".to_owned()));
    assert_eq!(node.allocations().await.containers.keys().collect::<Vec<_>>(), [&PodUid::from("a")]);
}

/// A `PodManager` that has begun anew, and has not heard of all sources yet, may have new pods placed.
#[tokio::test(start_paused = true)]
async fn holders_that_are_not_known_yet_keep_no_pod_away() {
    let node = Node::new(&HeldFiles::new(100), Duration::ZERO).await;
    assert_eq!(answered(node.place(owner("a", "2", "1Gi"), &["a"])).await, Placing::Given);
    assert_eq!(answered(node.ask(owner("b", "2", "1Gi"), None)).await, Placing::Given);
    assert_eq!(node.allocations().await.containers.len(), 2, "nobody is known to have ended");
}

#[tokio::test(start_paused = true)]
async fn starts_are_noted_only_where_managers_can_take_them() {
    let node = Node::new(&HeldFiles::new(0), Duration::ZERO).await;
    let address = node.played.agent.directory.device_plugins.clone();
    let mut hardware = Hardware::new(Arc::default(), address, Duration::ZERO);
    hardware.note_start(Arc::default(), "main".to_owned());
    assert_eq!(hardware.starts_noted(), 0, "nobody would ever take it");
    hardware.managers = Ok(ResourceManagers::default());
    hardware.note_start(Arc::default(), "main".to_owned());
    assert_eq!(hardware.starts_noted(), 1);
}

/// Pods without amounts wait for no write, and one serves all that come together; a pod with amounts waits, and takes the
/// others' entries along.
#[tokio::test(start_paused = true)]
async fn only_amounts_are_waited_for() {
    let node = Node::new(&HeldFiles::new(100), Duration::ZERO).await;
    node.files.writes.forget_permits(100); // Managers write at the start, too.
    let address = node.played.agent.directory.allocation_manager.clone();
    let actuate = |uid: &str, amounts: Option<&str>| {
        let requests = amounts.map(|cpu| [("cpu".to_owned(), Quantity(cpu.to_owned()))].into());
        let made_with = ResourceRequirements { requests, ..ResourceRequirements::default() };
        let containers = [("main".to_owned(), made_with)].into_iter().collect();
        let actuated = Actuated { uid: PodUid::from(uid), containers, pod: None };
        let address = address.clone();
        let ask = |reply| AllocationManagerMsg::Actuate(actuated, reply);
        async move { address.ask(Cause::outside("test"), Duration::from_secs(30), ask).await.expect("answers") }
    };
    for uid in ["a", "b", "c"] {
        actuate(uid, None).await.expect("not waited for");
    }
    node.files.writes.add_permits(1);
    seconds(2.0).await;
    let kept = node.files.text("actuated_pods_state");
    assert!(["a", "b", "c"].iter().all(|uid| kept.contains(&format!(r#"\"{uid}\""#))), "{kept}");
    assert_eq!(node.files.writes.available_permits(), 0, "one write");
    actuate("d", None).await.expect("not waited for");
    let mut waits = Box::pin(actuate("e", Some("1")));
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waits).await.is_err(), "the disk has it not yet");
    node.files.writes.add_permits(1);
    waits.await.expect("written");
    let kept = node.files.text("actuated_pods_state");
    assert!(["d", "e"].iter().all(|uid| kept.contains(&format!(r#"\"{uid}\""#))), "{kept}");
    seconds(5.0).await;
    // It has amounts on the disk: that it has none any more is waited for.
    let mut waits = Box::pin(actuate("e", None));
    assert!(tokio::time::timeout(Duration::from_secs(5), &mut waits).await.is_err(), "the disk says otherwise");
    node.files.writes.add_permits(1);
    waits.await.expect("written");
}
