//! Calls to CSI drivers over gRPC, and where their messages end. Each call is counted under its driver's name (VOL-52).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tonic::transport::Channel;

use super::calls::{OpenCall, PluginCalls, request};
use super::wire::csi_v1 as wire;
use super::wire::csi_v1::node_client::NodeClient;
use super::{ANSWER_MAX, CSI_LIMIT, CsiCalls};
use crate::logic::plugins::call_error::Code;
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::csi_registration::CsiNodeInfo;
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::requests::{
    Access, AccessMode, Amounts, Capability, ExpandRequest, PublishRequest, StageRequest, VolumeUse,
};
use crate::platform::observer::{Observation, Observer};

/// The longest name of this node that a driver may give.
const NODE_ID_MAX: usize = 256;
/// The most topology segments that are taken of a driver, and the longest of them.
const TOPOLOGY_MAX: (usize, usize) = (64, 317);

/// Endpoints whose driver is known by name; more are never there at a time.
const NAMES_MAX: usize = 256;

tokio::task_local! {
    /// Whether the work is for a volume of an in-tree kind. Upstream hands that along in the context of calls, too.
    static MIGRATED: bool;
}

/// The same work, whose calls count as `migrated` or not.
pub fn as_migrated<F: Future>(migrated: bool, work: F) -> impl Future<Output = F::Output> {
    MIGRATED.scope(migrated, work)
}

/// [`CsiCalls`] over sockets.
#[derive(Clone)]
pub struct GrpcCsi {
    calls: PluginCalls,
    observer: Arc<dyn Observer>,
    /// Drivers' names by endpoint.
    names: Arc<Mutex<BTreeMap<String, String>>>,
}

impl GrpcCsi {
    /// Drivers by these calls; the observer counts them.
    pub fn new(calls: PluginCalls, observer: Arc<dyn Observer>) -> Self {
        Self { calls, observer, names: Arc::default() }
    }

    /// Counts a call that ended. A driver without a name has not registered: nobody asks for its figures.
    fn count(&self, at: &str, method: &'static str, code: Code, took: Duration) {
        let name = self.names.lock().unwrap_or_else(PoisonError::into_inner).get(at).cloned();
        if let Some(driver) = &name {
            let method = &format!("/csi.v1.Node/{method}");
            let migrated = MIGRATED.try_with(|migrated| *migrated).unwrap_or(false);
            self.observer.observe(Observation::DriverCalled { driver, method, code: code.into(), took, migrated });
        }
    }
}

fn client(channel: Channel) -> NodeClient<Channel> {
    NodeClient::new(channel).max_decoding_message_size(ANSWER_MAX)
}

/// Makes one call. A macro, because the generated client borrows itself and each method is a type of its own.
macro_rules! ask {
    ($this:ident, $at:expr, $name:literal, $about:expr, $method:ident, $message:expr) => {{
        let message = request($message, CSI_LIMIT);
        let ask = |channel| async move { client(channel).$method(message).await };
        let began = $this.calls.clock().uptime();
        let outcome = $this.calls.call($at, $name, $about, CSI_LIMIT, ask).await;
        let took = $this.calls.clock().uptime().saturating_sub(began);
        $this.count($at, $name, outcome.as_ref().map_or_else(CallError::code, |_| Code::Ok), took);
        outcome
    }};
}

#[async_trait]
impl CsiCalls for GrpcCsi {
    fn name(&self, at: &str, driver: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX && !names.contains_key(at) {
            names.pop_first();
        }
        names.insert(at.to_owned(), driver.to_owned());
    }

    async fn node_info(&self, at: &str) -> Result<CsiNodeInfo, CallError> {
        let answer = ask!(self, at, "NodeGetInfo", "", node_get_info, wire::NodeGetInfoRequest {})?;
        let topology = answer.accessible_topology.map(|topology| topology.segments).unwrap_or_default();
        let (count, length) = TOPOLOGY_MAX;
        let too_long = topology.iter().any(|(key, value)| key.len() > length || value.len() > length);
        if answer.node_id.len() > NODE_ID_MAX || topology.len() > count || too_long {
            let problem = CallProblem::Unreadable("its node ID or its topology is too long".to_owned());
            return Err(CallError { method: "NodeGetInfo", problem });
        }
        Ok(CsiNodeInfo { node_id: answer.node_id, volumes_max: answer.max_volumes_per_node, topology })
    }

    async fn capabilities(&self, at: &str) -> Result<NodeCapabilities, CallError> {
        let message = wire::NodeGetCapabilitiesRequest {};
        let answer = ask!(self, at, "NodeGetCapabilities", "", node_get_capabilities, message)?;
        Ok(capabilities(&answer.capabilities))
    }

    async fn stage(&self, at: &str, order: StageRequest) -> Result<(), CallError> {
        let about = order.volume.clone();
        let message = wire::NodeStageVolumeRequest {
            volume_id: order.volume,
            publish_context: order.publish_context,
            staging_target_path: order.staging,
            volume_capability: Some(capability(order.capability)),
            secrets: order.secrets,
            volume_context: order.context,
        };
        ask!(self, at, "NodeStageVolume", &about, node_stage_volume, message).map(drop)
    }

    async fn unstage(&self, at: &str, volume: &str, staging: &str) -> Result<(), CallError> {
        let (volume_id, staging_target_path) = (volume.to_owned(), staging.to_owned());
        let message = wire::NodeUnstageVolumeRequest { volume_id, staging_target_path };
        ask!(self, at, "NodeUnstageVolume", volume, node_unstage_volume, message).map(drop)
    }

    async fn publish(&self, at: &str, order: PublishRequest) -> Result<(), CallError> {
        let about = order.volume.clone();
        let message = wire::NodePublishVolumeRequest {
            volume_id: order.volume,
            publish_context: order.publish_context,
            staging_target_path: order.staging,
            target_path: order.target,
            volume_capability: Some(capability(order.capability)),
            readonly: order.read_only,
            secrets: order.secrets,
            volume_context: order.context,
        };
        ask!(self, at, "NodePublishVolume", &about, node_publish_volume, message).map(drop)
    }

    async fn unpublish(&self, at: &str, volume: &str, target: &str) -> Result<(), CallError> {
        let (volume_id, target_path) = (volume.to_owned(), target.to_owned());
        let message = wire::NodeUnpublishVolumeRequest { volume_id, target_path };
        ask!(self, at, "NodeUnpublishVolume", volume, node_unpublish_volume, message).map(drop)
    }

    async fn usage(&self, at: &str, volume: &str, path: &str, staging: &str) -> Result<VolumeUse, CallError> {
        let (volume_path, staging_target_path) = (path.to_owned(), staging.to_owned());
        let message =
            wire::NodeGetVolumeStatsRequest { volume_id: volume.to_owned(), volume_path, staging_target_path };
        let answer = ask!(self, at, "NodeGetVolumeStats", volume, node_get_volume_stats, message)?;
        Ok(usage(answer))
    }

    async fn expand(&self, at: &str, order: ExpandRequest) -> Result<i64, CallError> {
        let about = order.volume.clone();
        let message = wire::NodeExpandVolumeRequest {
            volume_id: order.volume,
            volume_path: order.path,
            capacity_range: Some(wire::CapacityRange { required_bytes: order.required_bytes, limit_bytes: 0 }),
            staging_target_path: order.staging,
            volume_capability: Some(capability(order.capability)),
            secrets: order.secrets,
        };
        let answer = ask!(self, at, "NodeExpandVolume", &about, node_expand_volume, message)?;
        Ok(answer.capacity_bytes)
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        self.calls.open()
    }
}

fn capabilities(told: &[wire::NodeServiceCapability]) -> NodeCapabilities {
    use wire::node_service_capability::{Type, rpc};
    let mut found = NodeCapabilities::default();
    for one in told {
        let Some(Type::Rpc(call)) = &one.r#type else { continue };
        match call.r#type() {
            rpc::Type::StageUnstageVolume => found.stages = true,
            rpc::Type::GetVolumeStats => found.measures = true,
            rpc::Type::ExpandVolume => found.expands = true,
            rpc::Type::VolumeCondition => found.tells_condition = true,
            rpc::Type::SingleNodeMultiWriter => found.knows_single_node_modes = true,
            rpc::Type::VolumeMountGroup => found.gives_group = true,
            rpc::Type::Unknown => {}
        }
    }
    found
}

fn capability(wanted: Capability) -> wire::VolumeCapability {
    use wire::volume_capability::access_mode::Mode;
    use wire::volume_capability::{AccessMode as WireMode, AccessType, BlockVolume, MountVolume};
    let access_type = match wanted.access {
        Access::Block => AccessType::Block(BlockVolume {}),
        Access::Mount { fs_type, flags, group } => {
            let volume_mount_group = group.map(|group| group.to_string()).unwrap_or_default();
            AccessType::Mount(MountVolume { fs_type, mount_flags: flags, volume_mount_group })
        }
    };
    let mode = match wanted.mode {
        AccessMode::SingleNodeWriter => Mode::SingleNodeWriter,
        AccessMode::SingleNodeSingleWriter => Mode::SingleNodeSingleWriter,
        AccessMode::SingleNodeMultiWriter => Mode::SingleNodeMultiWriter,
        AccessMode::MultiNodeReaderOnly => Mode::MultiNodeReaderOnly,
        AccessMode::MultiNodeMultiWriter => Mode::MultiNodeMultiWriter,
    };
    let access_mode = Some(WireMode { mode: mode.into() });
    wire::VolumeCapability { access_type: Some(access_type), access_mode }
}

fn usage(answer: wire::NodeGetVolumeStatsResponse) -> VolumeUse {
    use wire::volume_usage::Unit;
    let mut found = VolumeUse::default();
    for one in &answer.usage {
        let amounts = Some(Amounts { available: one.available, total: one.total, used: one.used });
        match one.unit() {
            Unit::Bytes => found.bytes = amounts,
            Unit::Inodes => found.inodes = amounts,
            Unit::Unknown => {}
        }
    }
    found.condition = answer.volume_condition.map(|condition| (condition.abnormal, condition.message));
    found
}
