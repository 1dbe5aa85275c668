//! CSI drivers: what is staged and published, which outlives the drivers, and the calls.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;

use super::calls::{Call, PluginOutlet};
use super::csi_host::device_path;
use super::{Plugins, ROOT};
use crate::actors::kit::trace::lock;
use crate::cri::Mount;
use crate::logic::plugins::call_error::{CallError, Code};
use crate::logic::plugins::csi_registration::CsiNodeInfo;
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::requests::{
    AccessMode, Amounts, ExpandRequest, PublishRequest, StageRequest, Texts, VolumeUse,
};
use crate::platform::plugins::{CSI_LIMIT, CsiCalls, OpenCall};
use crate::platform::volumes::csi::target_path;
use crate::sim::invariants::{ONE_POD, PUBLISHED_ONCE, STAGED_FIRST, STAGED_OUTLIVES, VOLUMES_OUTLIVE};
use crate::sim::node::Node;

/// A volume that is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The driver.
    pub driver: String,
    /// Its name of the volume.
    pub volume: String,
}

/// A volume that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The driver.
    pub driver: String,
    /// Its name of the volume.
    pub volume: String,
    /// Where it is staged; empty where it is not.
    pub staging: String,
    /// Its attributes, without those of the pod.
    pub content: Texts,
}

/// Everything that drivers have staged and published, by path.
#[derive(Debug, Default)]
pub struct Volumes {
    /// For the node as a whole.
    pub staged: BTreeMap<String, Staged>,
    /// For pods.
    pub published: BTreeMap<String, Published>,
    /// Capabilities, by driver.
    pub capabilities: BTreeMap<String, NodeCapabilities>,
    /// The size in bytes that a volume was grown to, by driver and its name of the volume.
    pub sizes: BTreeMap<(String, String), i64>,
}

impl Plugins {
    /// The first of these mounts that is to be a driver's volume and is none.
    pub fn unpublished(&self, mounts: &[Mount]) -> Option<String> {
        let volumes = lock(&self.volumes);
        let of_drivers =
            mounts.iter().map(|mount| &mount.host_path).filter(|path| path.contains("/kubernetes.io~csi/"));
        of_drivers.into_iter().find(|path| !volumes.published.contains_key(*path)).cloned()
    }
}

type Outcome = Result<(), (Code, String)>;

fn missing(path: &str) -> Outcome {
    Err((Code::Internal, format!("mkdir {path}: no such file or directory")))
}

fn stage(node: &Node, driver: String, order: &StageRequest) -> Outcome {
    let path = &order.staging;
    let has_folder =
        lock(&node.disk).csi.devices.keys().any(|place| Path::new(path) == place.staging_path(ROOT.as_ref()));
    if !has_folder {
        return missing(path);
    }
    let staged = Staged { driver, volume: order.volume.clone() };
    node.story.tell("driver", format!("stages {}", staged.volume));
    let before = lock(&node.plugins.volumes).staged.insert(path.clone(), staged.clone());
    if let Some(before) = before.filter(|before| *before != staged) {
        node.invariants.broken(STAGED_FIRST, format!("{} is staged over {}", staged.volume, before.volume));
    }
    Ok(())
}

fn unstage(node: &Node, volume: &str, path: &str) -> Outcome {
    let user = {
        let mut volumes = lock(&node.plugins.volumes);
        volumes.staged.remove(path);
        let user = volumes.published.iter().find(|(_, one)| one.staging == path);
        user.map(|(target, _)| target.clone())
    };
    node.story.tell("driver", format!("unstages {volume}"));
    if let Some(user) = user {
        node.invariants.broken(STAGED_OUTLIVES, format!("{volume} is unstaged while published at {user}"));
    }
    Ok(())
}

fn publish(node: &Node, driver: String, order: &PublishRequest) -> Outcome {
    let PublishRequest { volume, target, staging, capability, .. } = order;
    let has_folder = lock(&node.disk).csi.pods.keys().any(|place| target_path(ROOT, place) == *target);
    if !has_folder {
        return missing(target);
    }
    let is_own = |(name, _): &(&String, &String)| !name.starts_with("csi.storage.k8s.io/");
    let content = order.context.iter().filter(is_own).map(|(name, value)| (name.clone(), value.clone())).collect();
    let published = Published { driver, volume: volume.clone(), staging: staging.clone(), content };
    let (is_staged, other, before) = {
        let mut volumes = lock(&node.plugins.volumes);
        let is_for_one = capability.mode == AccessMode::SingleNodeSingleWriter;
        let is_same = |(at, one): &(&String, &Published)| {
            is_for_one && *at != target && one.volume == *volume && one.driver == published.driver
        };
        let other = volumes.published.iter().find(is_same).map(|(at, _)| at.clone());
        let staged = Staged { driver: published.driver.clone(), volume: volume.clone() };
        let is_staged = staging.is_empty() || volumes.staged.get(staging) == Some(&staged);
        (is_staged, other, volumes.published.insert(target.clone(), published.clone()))
    };
    node.story.tell("driver", format!("publishes {volume} at {target}"));
    if !is_staged {
        node.invariants.broken(STAGED_FIRST, format!("{volume} is published at {target} and not staged"));
    }
    if let Some(other) = other {
        node.invariants.broken(ONE_POD, format!("{volume} is published at {target} and at {other}"));
    }
    if let Some(before) = before.filter(|before| *before != published) {
        node.invariants.broken(PUBLISHED_ONCE, format!("{published:?} is published over {before:?}"));
    }
    Ok(())
}

fn unpublish(node: &Node, volume: &str, target: &str) -> Outcome {
    let user = lock(&node.containers).user_of_path(target);
    let is_mapped = lock(&node.disk).csi.mapped.iter().any(|place| target_path(ROOT, place) == target);
    lock(&node.plugins.volumes).published.remove(target);
    node.story.tell("driver", format!("unpublishes {volume} at {target}"));
    if let Some(user) = user {
        node.invariants.broken(VOLUMES_OUTLIVE, format!("{volume} is unpublished while {user} runs"));
    }
    if is_mapped {
        node.invariants.broken(VOLUMES_OUTLIVE, format!("{volume} is unpublished at {target} while it is mapped"));
    }
    Ok(())
}

/// Grows a volume where it is staged, published or mapped. A driver knows of no other place.
fn expand(node: &Node, driver: String, order: &ExpandRequest) -> Result<i64, (Code, String)> {
    let ExpandRequest { volume, path, staging, required_bytes, .. } = order;
    let is_mapped = lock(&node.disk).csi.mapped.iter().any(|place| device_path(place) == *path);
    let mut volumes = lock(&node.plugins.volumes);
    let is_staged = |at: &String| volumes.staged.get(at).is_some_and(|one| one.volume == *volume);
    let is_there = is_mapped || is_staged(path) || volumes.published.get(path).is_some_and(|one| one.volume == *volume);
    if !is_there || !(staging.is_empty() || is_staged(staging)) {
        return Err((Code::NotFound, format!("{volume} is not at {path}, or not staged at {staging:?}")));
    }
    node.story.tell("driver", format!("grows {volume} to {required_bytes}"));
    let size = volumes.sizes.entry((driver, volume.clone())).or_default();
    *size = (*size).max(*required_bytes);
    Ok(*size)
}

impl PluginOutlet {
    /// The driver at an endpoint.
    fn driver_at(&self, at: &str) -> String {
        self.plugins().driver(at).map(|driver| driver.name).unwrap_or_default()
    }

    /// A call about a volume: a driver refuses others about it until it is done.
    fn about_volume(&self, at: &str, method: &'static str, volume: &str) -> Call {
        let thing = Some(format!("volume {volume} of {}", self.driver_at(at)));
        Call { about: volume.to_owned(), thing, ..Call::asking(at, method, CSI_LIMIT) }
    }
}

#[async_trait]
impl CsiCalls for PluginOutlet {
    async fn node_info(&self, at: &str) -> Result<CsiNodeInfo, CallError> {
        let node_id = format!("id-of-{}", crate::sim::node::NODE_NAME);
        let topology = BTreeMap::from([("topology.sim/zone".to_owned(), "a".to_owned())]);
        let info = CsiNodeInfo { node_id, volumes_max: 16, topology };
        self.call(Call::asking(at, "NodeGetInfo", CSI_LIMIT), move |_| Ok(info)).await
    }

    async fn capabilities(&self, at: &str) -> Result<NodeCapabilities, CallError> {
        let driver = self.driver_at(at);
        self.call(Call::asking(at, "NodeGetCapabilities", CSI_LIMIT), move |node| {
            Ok(lock(&node.plugins.volumes).capabilities.get(&driver).copied().unwrap_or_default())
        })
        .await
    }

    async fn stage(&self, at: &str, request: StageRequest) -> Result<(), CallError> {
        let (call, driver) = (self.about_volume(at, "NodeStageVolume", &request.volume), self.driver_at(at));
        self.call(call, move |node| stage(node, driver, &request)).await
    }

    async fn unstage(&self, at: &str, volume: &str, staging: &str) -> Result<(), CallError> {
        let (call, of) = (self.about_volume(at, "NodeUnstageVolume", volume), (volume.to_owned(), staging.to_owned()));
        self.call(call, move |node| unstage(node, &of.0, &of.1)).await
    }

    async fn publish(&self, at: &str, request: PublishRequest) -> Result<(), CallError> {
        let (call, driver) = (self.about_volume(at, "NodePublishVolume", &request.volume), self.driver_at(at));
        self.call(call, move |node| publish(node, driver, &request)).await
    }

    async fn unpublish(&self, at: &str, volume: &str, target: &str) -> Result<(), CallError> {
        let (call, of) = (self.about_volume(at, "NodeUnpublishVolume", volume), (volume.to_owned(), target.to_owned()));
        self.call(call, move |node| unpublish(node, &of.0, &of.1)).await
    }

    async fn usage(&self, at: &str, volume: &str, _: &str, _: &str) -> Result<VolumeUse, CallError> {
        let call = Call { about: volume.to_owned(), ..Call::asking(at, "NodeGetVolumeStats", CSI_LIMIT) };
        let bytes = Some(Amounts { available: 1 << 30, total: 2 << 30, used: 1 << 30 });
        self.call(call, move |_| Ok(VolumeUse { bytes, ..VolumeUse::default() })).await
    }

    async fn expand(&self, at: &str, request: ExpandRequest) -> Result<i64, CallError> {
        let (call, driver) = (self.about_volume(at, "NodeExpandVolume", &request.volume), self.driver_at(at));
        self.call(call, move |node| expand(node, driver, &request)).await
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        self.open()
    }
}
