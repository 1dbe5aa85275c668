//! Calls to device plugins over gRPC, and where their messages end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tonic::Streaming;
use tonic::transport::Channel;

use super::calls::{OpenCall, PluginCalls, problem_of, request};
use super::socket::DIAL_LIMIT;
use super::wire::deviceplugin_v1beta1 as wire;
use super::wire::deviceplugin_v1beta1::device_plugin_client::DevicePluginClient;
use super::{ANSWER_MAX, DeviceCalls, DeviceList};
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::resources::device_manager::devices::{
    Device, DeviceGrant, DeviceMount, DeviceNode, Health, PluginOptions,
};
use crate::platform::host::clock::Clock;

/// How long a plugin may take to say which calls it wants.
const OPTIONS_LIMIT: Duration = DIAL_LIMIT;
/// How long it may take to choose among devices.
const PREFER_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to give devices to a container.
const ALLOCATE_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take before a start of a container, as upstream's.
const PRE_START_LIMIT: Duration = Duration::from_secs(30);
/// The most devices of one plugin, and the longest name of one.
const DEVICES_MAX: (usize, usize) = (100_000, 1024);
/// The most NUMA nodes that a device may be near.
const NODES_MAX: usize = 64;
/// Rest after an answer of `ListAndWatch`, and for each device in it: a plugin that tells its devices without an end gets
/// this much of the agent's time.
const REST: (Duration, Duration) = (Duration::from_millis(1), Duration::from_micros(20));
/// The word for a healthy device.
const HEALTHY: &str = "Healthy";

/// [`DeviceCalls`] over sockets.
#[derive(Clone)]
pub struct GrpcDevices {
    /// The directory of device plugins: links in it are not followed.
    folder: PathBuf,
    within: PluginCalls,
    /// Sockets that the plugins' registry names.
    elsewhere: PluginCalls,
}

impl GrpcDevices {
    /// Plugins with sockets in this directory, and those of the plugins' registry.
    pub fn new(folder: PathBuf, clock: &Arc<dyn Clock>) -> Self {
        let within = PluginCalls::below(folder.clone(), Arc::clone(clock));
        Self { folder, within, elsewhere: PluginCalls::new(Arc::clone(clock)) }
    }

    fn calls(&self, at: &str) -> &PluginCalls {
        if Path::new(at).starts_with(&self.folder) { &self.within } else { &self.elsewhere }
    }
}

fn client(channel: Channel) -> DevicePluginClient<Channel> {
    DevicePluginClient::new(channel).max_decoding_message_size(ANSWER_MAX)
}

/// Makes one call. A macro, because the generated client borrows itself and each method is a type of its own.
macro_rules! ask {
    ($this:ident, $at:expr, $name:literal, $about:expr, $limit:expr, $method:ident, $message:expr) => {{
        let message = request($message, $limit);
        let ask = |channel| async move { client(channel).$method(message).await };
        $this.calls($at).call($at, $name, $about, $limit, ask).await
    }};
}

#[async_trait]
impl DeviceCalls for GrpcDevices {
    async fn connect(&self, at: &str) -> Result<PluginOptions, CallError> {
        self.calls(at).renew(at);
        let answer =
            ask!(self, at, "GetDevicePluginOptions", "", OPTIONS_LIMIT, get_device_plugin_options, wire::Empty {})?;
        Ok(PluginOptions { pre_start: answer.pre_start_required, preferred: answer.get_preferred_allocation_available })
    }

    fn list(&self, at: &str) -> Arc<dyn DeviceList> {
        let (channel, state) = (self.calls(at).channel(at), State { stream: None, rest: Duration::ZERO });
        Arc::new(GrpcDeviceList { channel, state: Mutex::new(state) })
    }

    async fn prefer(
        &self,
        at: &str,
        available: Vec<String>,
        required: Vec<String>,
        count: usize,
    ) -> Result<Vec<String>, CallError> {
        let one = wire::ContainerPreferredAllocationRequest {
            available_device_i_ds: available,
            must_include_device_i_ds: required,
            allocation_size: i32::try_from(count).unwrap_or(i32::MAX),
        };
        let message = wire::PreferredAllocationRequest { container_requests: vec![one] };
        let about = format!("{count} devices");
        let name = "GetPreferredAllocation";
        let answer = ask!(self, at, "GetPreferredAllocation", &about, PREFER_LIMIT, get_preferred_allocation, message)?;
        let ids = answer.container_responses.into_iter().next().unwrap_or_default().device_i_ds;
        check(name, ids.len() <= DEVICES_MAX.0, "it names too many devices")?;
        Ok(ids)
    }

    async fn allocate(&self, at: &str, ids: Vec<String>) -> Result<DeviceGrant, CallError> {
        let about = about(&ids);
        let one = wire::ContainerAllocateRequest { devices_ids: ids };
        let message = wire::AllocateRequest { container_requests: vec![one] };
        let answer = ask!(self, at, "Allocate", &about, ALLOCATE_LIMIT, allocate, message)?;
        let count = answer.container_responses.len();
        check("Allocate", count > 0, "no containers return in allocation response")?;
        // As upstream: a plugin may answer for more containers than it was asked about.
        Ok(answer.container_responses.into_iter().next().map(grant).unwrap_or_default())
    }

    async fn pre_start(&self, at: &str, ids: Vec<String>) -> Result<(), CallError> {
        let about = about(&ids);
        let message = wire::PreStartContainerRequest { devices_ids: ids };
        ask!(self, at, "PreStartContainer", &about, PRE_START_LIMIT, pre_start_container, message).map(drop)
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        let mut open = self.within.open();
        open.extend(self.elsewhere.open());
        open
    }
}

/// The devices that a call is about, for people.
fn about(ids: &[String]) -> String {
    let more = ids.len().saturating_sub(1);
    match ids.first() {
        None => String::new(),
        Some(id) if more == 0 => id.clone(),
        Some(id) => format!("{id} (+{more})"),
    }
}

fn check(method: &'static str, holds: bool, otherwise: &str) -> Result<(), CallError> {
    let wrong = || CallError { method, problem: CallProblem::Unreadable(otherwise.to_owned()) };
    if holds { Ok(()) } else { Err(wrong()) }
}

fn grant(answer: wire::ContainerAllocateResponse) -> DeviceGrant {
    let mount = |one: wire::Mount| DeviceMount {
        container_path: one.container_path,
        host_path: one.host_path,
        read_only: one.read_only,
    };
    let node = |one: wire::DeviceSpec| DeviceNode {
        container_path: one.container_path,
        host_path: one.host_path,
        permissions: one.permissions,
    };
    DeviceGrant {
        envs: answer.envs,
        mounts: answer.mounts.into_iter().map(mount).collect(),
        devices: answer.devices.into_iter().map(node).collect(),
        annotations: answer.annotations,
        cdi_devices: answer.cdi_devices.into_iter().map(|one| one.name).collect(),
    }
}

const LIST: &str = "ListAndWatch";

/// [`DeviceList`] over a socket: begun with the first question.
struct GrpcDeviceList {
    channel: Channel,
    state: Mutex<State>,
}

struct State {
    stream: Option<Streaming<wire::ListAndWatchResponse>>,
    /// Before the next answer is read.
    rest: Duration,
}

#[async_trait]
impl DeviceList for GrpcDeviceList {
    async fn next(&self) -> Result<Option<BTreeMap<String, Device>>, CallError> {
        let failed = |status: tonic::Status| CallError { method: LIST, problem: problem_of(&status, Duration::ZERO) };
        let mut state = self.state.lock().await;
        tokio::time::sleep(std::mem::take(&mut state.rest)).await;
        if state.stream.is_none() {
            let begun = client(self.channel.clone()).list_and_watch(wire::Empty {}).await;
            state.stream = Some(begun.map_err(failed)?.into_inner());
        }
        let stream = state.stream.as_mut().expect("it was begun");
        let Some(answer) = stream.message().await.map_err(failed)? else { return Ok(None) };
        let count = u32::try_from(answer.devices.len()).unwrap_or(u32::MAX);
        state.rest = REST.0 + REST.1 * count;
        devices(answer).map(Some)
    }
}

fn devices(answer: wire::ListAndWatchResponse) -> Result<BTreeMap<String, Device>, CallError> {
    let (count_max, name_max) = DEVICES_MAX;
    let (count, names_fit) = (answer.devices.len(), answer.devices.iter().all(|device| device.id.len() <= name_max));
    check(LIST, count <= count_max, "it has too many devices")?;
    check(LIST, names_fit, "the name of a device is too long")?;
    let mut found = BTreeMap::new();
    for device in answer.devices {
        let nodes = device.topology.map(|topology| topology.nodes).unwrap_or_default();
        check(LIST, nodes.len() <= NODES_MAX, "a device has too many NUMA nodes")?;
        // A node below zero stands for none.
        let nodes: BTreeSet<u32> = nodes.iter().filter_map(|node| u32::try_from(node.id).ok()).collect();
        let health = if device.health == HEALTHY { Health::Healthy } else { Health::Unhealthy };
        found.insert(device.id, Device { health, nodes });
    }
    Ok(found)
}
