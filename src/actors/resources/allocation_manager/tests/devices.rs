//! Pods with devices of plugins: the plugins are played by the test.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::*;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::node::node_status::DeviceResources;
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::resources::device_manager::devices::{
    Device, DeviceGrant, Health, Inventory, PluginOptions, ResourceDevices, Session,
};
use crate::logic::resources::testing;
use crate::messages::node::node_status::NodeNews;
use crate::messages::plugins::device_plugins::{DeviceCallError, DeviceUse};
use crate::messages::status::status_manager::PodView;

const GPU: &str = "vendor.com/gpu";
const NIC: &str = "z.io/nic";

fn devices(ids: &[&str], health: Health, preferred: bool) -> ResourceDevices {
    let device = |id: &&str| ((*id).to_owned(), Device { health, nodes: BTreeSet::new() });
    let options = PluginOptions { preferred, ..PluginOptions::default() };
    ResourceDevices { devices: ids.iter().map(device).collect(), options, session: Session::Live }
}

fn inventory(of: Vec<(&str, ResourceDevices)>) -> Arc<Inventory> {
    Arc::new(of.into_iter().map(|(name, devices)| (name.to_owned(), devices)).collect())
}

fn two_gpus() -> Arc<Inventory> {
    inventory(vec![(GPU, devices(&["g0", "g1"], Health::Healthy, false))])
}

/// A Guaranteed pod with a CPU of its own and devices.
fn user(uid: &str, resource: &str, count: usize) -> Pod {
    let amounts = format!("cpu=1,memory=1Gi,{resource}={count}");
    let mut pod = testing::pod(vec![testing::container("main", &amounts, &amounts)], vec![]);
    pod.metadata.uid = Some(uid.to_owned());
    pod
}

fn given(resource: &str) -> Placing {
    Placing::GivenDevices([resource.to_owned()].into())
}

fn refused(why: &str) -> Placing {
    let message = format!("Allocate failed due to {why}, which is unexpected");
    Placing::Refused { reason: AdmissionReason::UnexpectedAdmissionError, message }
}

type Granted = RpcReplyPort<Result<DeviceGrant, DeviceCallError>>;

impl Node {
    /// The next call of a plugin.
    async fn call(&mut self) -> DevicePluginsMsg {
        seconds(0.1).await;
        self.told.try_recv().expect("a plugin is called")
    }

    /// The next call, which is to give devices.
    async fn allocate(&mut self) -> (DeviceUse, Granted) {
        match self.call().await {
            DevicePluginsMsg::Allocate(wanted, reply) => (wanted, reply),
            other => panic!("{other:?}"),
        }
    }
}

fn grant(name: &str) -> DeviceGrant {
    DeviceGrant { envs: [("DEVICE".to_owned(), name.to_owned())].into(), ..DeviceGrant::default() }
}

/// RES-41, RES-42: a plugin that takes its time holds up its own pods alone.
#[tokio::test(start_paused = true)]
async fn a_pod_is_given_its_devices_when_its_plugin_answers() {
    let mut node = Node::new(&HeldFiles::new(1000), Duration::ZERO).await;
    let nics = devices(&["n0"], Health::Healthy, false);
    let gpus = devices(&["g0", "g1", "g2"], Health::Healthy, true);
    node.tell(HardwareMsg::Devices(inventory(vec![(GPU, gpus), (NIC, nics)])));
    let slow = node.place(user("slow", GPU, 2), &["slow"]);
    let DevicePluginsMsg::Prefer(preference, prefer) = node.call().await else { panic!("it is asked first") };
    assert_eq!((preference.available.len(), preference.count), (3, 2));
    prefer.send(Ok(vec!["g2".to_owned(), "g0".to_owned()])).expect("awaited");
    let (wanted, slow_reply) = node.allocate().await;
    assert_eq!(wanted, DeviceUse { resource: GPU.to_owned(), ids: vec!["g0".to_owned(), "g2".to_owned()] });
    let plain = node.place(owner("plain", "1", "1Gi"), &["slow", "plain"]);
    assert_eq!(answered(plain).await, Placing::Given);
    let other = node.place(user("other", NIC, 1), &["slow", "plain", "other"]);
    let (_, reply) = node.allocate().await;
    reply.send(Ok(grant("nic"))).expect("awaited");
    assert_eq!(answered(other).await, given(NIC));
    // A chosen device is taken, also while the plugin has not given it.
    let more = node.place(user("more", GPU, 2), &["slow", "plain", "other", "more"]);
    let why = "requested number of devices unavailable for vendor.com/gpu. Requested: 2, Available: 1";
    assert_eq!(answered(more).await, refused(why));
    assert!(!node.files.text("kubelet_internal_checkpoint").contains("slow"));
    slow_reply.send(Ok(grant("gpu"))).expect("awaited");
    assert_eq!(answered(slow).await, given(GPU));
    let text = node.files.text("kubelet_internal_checkpoint");
    assert!(text.contains(r#""PodUID":"slow""#) && text.contains(r#""DeviceIDs":{"-1":["g0","g2"]}"#), "{text}");
    let (reply, found) = oneshot::channel();
    let pod = Arc::new(user("slow", GPU, 2));
    node.tell(HardwareMsg::Find { pod, starting: None, reply: RpcReplyPort::from(reply) });
    assert_eq!(found.await.expect("found").of("main").devices.grant, grant("gpu"));
}

/// RES-45: what was taken for a pod is free again when a plugin does not give it.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_plugin_fails_gives_all_back() {
    let mut node = Node::new(&HeldFiles::new(1000), Duration::ZERO).await;
    node.tell(HardwareMsg::Devices(two_gpus()));
    let failing = node.place(user("failing", GPU, 2), &["failing"]);
    let (_, reply) = node.allocate().await;
    let problem = CallProblem::Unreachable("it broke".to_owned());
    let error = CallError { method: "Allocate", problem };
    let why = DeviceCallError::Call(error.clone()).to_string();
    reply.send(Err(DeviceCallError::Call(error))).expect("awaited");
    assert_eq!(answered(failing).await, refused(&why));
    assert_eq!(node.allocations().await.containers, BTreeMap::new());
    let silent = node.place(user("silent", GPU, 2), &["failing", "silent"]);
    let _call = node.allocate().await;
    seconds(31.0).await;
    assert_eq!(answered(silent).await, refused("no answer in time"), "a plugin that hangs has a deadline");
    let next = node.place(user("next", GPU, 2), &["next"]);
    let (wanted, reply) = node.allocate().await;
    assert_eq!(wanted.ids, ["g0", "g1"]);
    reply.send(Ok(DeviceGrant::default())).expect("awaited");
    assert_eq!(answered(next).await, given(GPU));
}

/// A pod that ends while its plugin is asked gets nothing, and its answer comes too late.
#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_while_its_plugin_is_asked_is_given_nothing() {
    let mut node = Node::new(&HeldFiles::new(1000), Duration::ZERO).await;
    node.tell(HardwareMsg::Devices(two_gpus()));
    let ended = node.place(user("ended", GPU, 2), &["ended"]);
    let (_, reply) = node.allocate().await;
    node.tell(HardwareMsg::Holders(holders(&[])));
    assert_eq!(answered(ended).await, Placing::NotYet("nobody wants the pod any more".to_owned()));
    let next = node.place(user("next", GPU, 2), &["next"]);
    let (_, next_reply) = node.allocate().await;
    let _ = reply.send(Ok(grant("late"))); // Nobody waits for it.
    next_reply.send(Ok(grant("next"))).expect("awaited");
    assert_eq!(answered(next).await, given(GPU));
    assert_eq!(node.allocations().await.containers.keys().collect::<Vec<_>>(), [&PodUid::from("next")]);
}

/// A full disk undoes what was chosen: nobody counts on devices that no file names.
#[tokio::test(start_paused = true)]
async fn devices_that_cannot_be_noted_are_not_given() {
    let mut node = Node::new(&HeldFiles::new(1000), Duration::ZERO).await;
    node.tell(HardwareMsg::Devices(two_gpus()));
    let pod = node.place(user("pod", GPU, 1), &["pod"]);
    let (_, reply) = node.allocate().await;
    node.files.writes.close();
    reply.send(Ok(grant("gpu"))).expect("awaited");
    let Placing::NotYet(why) = answered(pod).await else { panic!("the disk is full") };
    assert!(why.contains("no space left"), "{why}");
    let devices: Vec<_> = node.allocations().await.containers.values().flat_map(|of| of.values()).cloned().collect();
    assert!(devices.iter().all(|one| one.devices.is_empty()), "{devices:?}");
}

/// RES-45: devices whose record is lost are given anew, with all that their plugin says: else the container would start without it.
#[tokio::test(start_paused = true)]
async fn devices_whose_record_is_lost_are_asked_for_again() {
    let mut node = Node::new(&HeldFiles::new(1000), Duration::ZERO).await;
    node.tell(HardwareMsg::Devices(two_gpus()));
    let pod = node.place(user("pod", GPU, 1), &["pod"]);
    let (_, reply) = node.allocate().await;
    node.files.is_full.store(true, Ordering::Relaxed);
    reply.send(Ok(grant("gpu"))).expect("awaited");
    let Placing::NotYet(_) = answered(pod).await else { panic!("the disk is full") };
    node.files.is_full.store(false, Ordering::Relaxed);
    seconds(6.0).await;
    let pod = node.place(user("pod", GPU, 1), &["pod"]);
    let (_, reply) = node.allocate().await;
    reply.send(Ok(grant("gpu"))).expect("awaited");
    assert_eq!(answered(pod).await, given(GPU));
}

/// RES-44, RES-45: the next agent knows who owns which devices. One whose plugin is late waits for it where the agent is set so.
#[tokio::test(start_paused = true)]
async fn after_a_restart_a_late_plugin_is_waited_for() {
    let files = HeldFiles::new(1000);
    let mut node = Node::new(&files, Duration::ZERO).await;
    node.tell(HardwareMsg::Devices(two_gpus()));
    let pod = node.place(user("pod", GPU, 2), &["pod"]);
    let (_, reply) = node.allocate().await;
    reply.send(Ok(grant("gpu"))).expect("awaited");
    assert_eq!(answered(pod).await, given(GPU));
    node.manager.stop(None);
    let why = "no healthy devices present; cannot allocate unhealthy devices vendor.com/gpu";
    let mut strict = Node::unheard(&files, Duration::ZERO).await;
    let DevicePluginsMsg::Remembered(known) = strict.call().await else { panic!("told of the file") };
    assert_eq!(known, [GPU.to_owned()].into());
    strict.tell(HardwareMsg::Devices(Arc::default()));
    assert_eq!(answered(strict.place(user("pod", GPU, 2), &["pod"])).await, refused(why), "as upstream");
    strict.manager.stop(None);
    let patient = Node::new(&files, Duration::from_secs(60)).await;
    let Placing::NotYet(waits) = answered(patient.place(user("pod", GPU, 2), &["pod"])).await else {
        panic!("it waits")
    };
    assert!(
        waits.starts_with("the device plugin of vendor.com/gpu has no healthy device yet; the pod waits since 20"),
        "{waits}"
    );
    patient.tell(HardwareMsg::Devices(two_gpus()));
    assert_eq!(answered(patient.place(user("pod", GPU, 2), &["pod"])).await, given(GPU), "without a call");
    patient.tell(HardwareMsg::Devices(inventory(vec![(GPU, devices(&["g0"], Health::Unhealthy, false))])));
    let waits = answered(patient.place(user("new", GPU, 1), &["pod", "new"])).await;
    assert!(matches!(waits, Placing::NotYet(_)), "{waits:?}");
    seconds(59.0).await;
    assert_eq!(answered(patient.place(user("new", GPU, 1), &["pod", "new"])).await, waits);
    seconds(2.0).await;
    assert_eq!(answered(patient.place(user("new", GPU, 1), &["pod", "new"])).await, refused(why));
}

/// RES-45: the file does not name the resource yet, so only the plugins can tell that the pod wants devices.
#[tokio::test(start_paused = true)]
async fn no_pod_is_decided_before_plugins_were_heard() {
    let mut node = Node::unheard(&HeldFiles::new(1000), Duration::ZERO).await;
    let asked = node.told.try_recv().expect("the devices are asked for");
    let DevicePluginsMsg::Remembered(known) = asked else { panic!("{asked:?}") };
    assert_eq!(known, BTreeSet::new());
    let mut pod = node.place(user("pod", GPU, 1), &["pod"]);
    seconds(60.0).await;
    assert_eq!(pod.try_recv().unwrap_err(), oneshot::error::TryRecvError::Empty, "it waits");
    node.tell(HardwareMsg::Devices(two_gpus()));
    let (_, reply) = node.allocate().await;
    reply.send(Ok(grant("gpu"))).expect("awaited");
    assert_eq!(answered(pod).await, given(GPU));
}

/// The devices that the Node was last said to have.
fn of_the_node(node: &mut Node) -> Option<DeviceResources> {
    let mut last = None;
    while let Ok(message) = node.told_node.try_recv() {
        if let NodeStatusMsg::News(NodeNews::Devices(devices)) = message {
            last = Some(devices);
        }
    }
    last
}

/// RES-40: a pod comes here because the Node names its resource, so the next agent has to know the resource, too.
#[tokio::test(start_paused = true)]
async fn the_node_has_devices_once_the_disk_names_them() {
    let mut node = Node::new(&HeldFiles::new(1000), Duration::ZERO).await;
    assert_eq!(of_the_node(&mut node), Some(DeviceResources::default()));
    node.files.is_full.store(true, Ordering::Relaxed);
    node.tell(HardwareMsg::Devices(two_gpus()));
    seconds(30.0).await;
    assert_eq!(of_the_node(&mut node), None, "the disk does not take them");
    node.files.is_full.store(false, Ordering::Relaxed);
    seconds(6.0).await;
    assert!(node.files.text("kubelet_internal_checkpoint").contains(GPU));
    let told = of_the_node(&mut node).expect("the disk has them");
    assert_eq!(told, DeviceResources::of(&two_gpus()));
    let address = node.played.agent.directory.allocation_manager.clone();
    address.tell(Cause::outside("test"), AllocationManagerMsg::Repeat).expect("has room");
    seconds(1.0).await;
    assert_eq!(of_the_node(&mut node), Some(told), "a new NodeStatus hears of them, too");
}

/// RES-46: the status of a pod shows the health of its devices as soon as it changes.
#[tokio::test(start_paused = true)]
async fn the_health_of_devices_shows_in_the_status() {
    let mut node = Node::new(&HeldFiles::new(1000), Duration::ZERO).await;
    let statuses = start_alone(Child::StatusManager, &node.played.agent);
    node.tell(HardwareMsg::Devices(two_gpus()));
    let placed = node.place(user("pod", GPU, 1), &["pod"]);
    let (_, reply) = node.allocate().await;
    reply.send(Ok(grant("gpu"))).expect("awaited");
    assert_eq!(answered(placed).await, given(GPU));
    let container = ContainerStatus { name: "main".to_owned(), ..ContainerStatus::default() };
    let status = PodStatus { container_statuses: Some(vec![container]), ..PodStatus::default() };
    let view = PodView {
        uid: PodUid::from("pod"),
        pod: Arc::new(user("pod", GPU, 1)),
        status: Arc::new(status),
        may_run: true,
        is_over: false,
        waiting: Arc::default(),
    };
    let to = node.played.agent.directory.status_manager.clone();
    to.tell(Cause::outside("test"), StatusManagerMsg::StatusChanged(view)).expect("has room");
    assert_eq!(shown(&to).await, "g0 Healthy");
    node.tell(HardwareMsg::Devices(inventory(vec![(GPU, devices(&["g0"], Health::Unhealthy, false))])));
    seconds(1.0).await;
    assert_eq!(shown(&to).await, "g0 Unhealthy");
    let (reply, explained) = oneshot::channel();
    node.tell(HardwareMsg::Explain(PodUid::from("pod"), RpcReplyPort::from(reply)));
    let lines = explained.await.expect("answered").expect("something is remembered").lines();
    let line = lines.last().expect("a line");
    assert!(line.starts_with("container main: vendor.com/gpu: g0 is unhealthy since 20"), "{line}");
    statuses.stop(None);
}

/// The devices of the first container, and their health.
async fn shown(to: &Address<StatusManagerMsg>) -> String {
    let asked = to.ask(Cause::outside("test"), Duration::from_secs(1), StatusManagerMsg::List);
    let status = asked.await.expect("answers")[0].status.clone();
    let containers = status.container_statuses.as_deref().expect("one");
    let resources = containers[0].allocated_resources_status.as_deref().expect("devices");
    let devices = resources[0].resources.iter().flatten();
    let words = devices.map(|one| format!("{} {}", one.resource_id, one.health.as_deref().unwrap_or_default()));
    words.collect::<Vec<_>>().join(", ")
}
