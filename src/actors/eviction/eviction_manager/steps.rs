//! The operations of `EvictionManager`: a look at the node, a reclaim, a measurement of pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::address::{Address, AskError};
use crate::actors::kit::trace::Cause;
use crate::actors::statistics::stats_collector::runtime_places;
use crate::cri::{ImageFsInfo, ImageService};
use crate::logic::eviction::layout::{Devices, Reclaim};
use crate::logic::eviction::ranking::Candidate;
use crate::logic::eviction::signal::{MemoryBasis, memory_use, observe};
use crate::logic::statistics::build::{Facts, summary};
use crate::logic::statistics::sample::Wanted;
use crate::logic::statistics::summary::PodStats;
use crate::messages::eviction_manager::NodeLook;
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::pods::pod_manager::{EvictionMsg, PodManagerMsg};
use crate::messages::runtime::container_gc::ContainerGcMsg;
use crate::messages::stats_collector::StatsCollectorMsg;
use crate::platform::statistics::{self, Statistics};

/// How long another actor may take to answer.
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// How long the figures of the node may take.
const LOOK_LIMIT: Duration = Duration::from_secs(30);
/// How long the runtime may take to say where its file systems are.
const RUNTIME_LIMIT: Duration = Duration::from_secs(10);
/// How long a look for garbage and its removal may take.
const RECLAIM_LIMIT: Duration = Duration::from_secs(60);
/// How old the figures of pods with limits may be.
const LIMITS_AGE_MAX: Duration = Duration::from_secs(5);

/// The means of a look.
pub(super) struct LookOrder {
    pub(super) statistics: Arc<dyn Statistics>,
    pub(super) images: Arc<dyn ImageService>,
    /// The figure that counts as available memory.
    pub(super) memory: MemoryBasis,
    /// Whether the runtime is asked for its disks.
    pub(super) asks_disks: bool,
    /// Its last answer, which counts on when there is no new one.
    pub(super) known_disks: Option<ImageFsInfo>,
    /// The actors that know the pods and their use, where pods are held to limits of local storage.
    pub(super) limits_of: Option<(Address<PodManagerMsg>, Address<StatsCollectorMsg>)>,
    pub(super) cause: Cause,
}

/// Looks at the node alone, and at pods only where one has a limit: a node of many pods costs no more than one of few.
pub(super) async fn look(order: LookOrder) -> Result<Box<NodeLook>, String> {
    let disks = match order.asks_disks {
        true => image_disks(&*order.images).await,
        false => None,
    };
    let told = disks.as_ref().or(order.known_disks.as_ref());
    let (images, containers) = told.map(runtime_places).unwrap_or_default();
    let look = statistics::LookOrder { wanted: Wanted::NODE, pods: vec![], images, containers };
    let sample = tokio::time::timeout(LOOK_LIMIT, order.statistics.look(look)).await;
    let sample = sample.map_err(|_| format!("no answer within {} s", LOOK_LIMIT.as_secs()))?;
    let sample = sample.map_err(|error| error.to_string())?;
    let device = |disk: Option<&crate::logic::statistics::sample::RuntimeDisk>| disk?.file_system.map(|on| on.device);
    // A layout is learned once: not from a look that a disk did not answer.
    let devices = sample.disks.as_ref().filter(|_| sample.silent.is_empty()).map(|disks| Devices {
        node: disks.node.device,
        images: device(disks.images.as_ref()),
        containers: device(disks.containers.as_ref()),
    });
    let limited = match &order.limits_of {
        Some((pods, stats)) => limited(pods, stats, &order.cause).await,
        None => vec![],
    };
    let (observations, memory) = (observe(&sample, order.memory), memory_use(&sample));
    let devices = devices.unwrap_or_default();
    Ok(Box::new(NodeLook { observations, memory, devices, disks, silent: sample.silent, limited }))
}

/// The runtime's answer about its disks; `None` when there is none in time.
async fn image_disks(images: &dyn ImageService) -> Option<ImageFsInfo> {
    match tokio::time::timeout(RUNTIME_LIMIT, images.image_fs_info()).await {
        Ok(Ok(told)) => Some(told),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the runtime does not tell its disks");
            None
        }
        Err(_) => None,
    }
}

/// Pods with limits of local storage, and their use. An actor that does not answer is asked again at the next look.
async fn limited(pods: &Address<PodManagerMsg>, stats: &Address<StatsCollectorMsg>, cause: &Cause) -> Vec<Candidate> {
    let Ok(pods) = active(pods, true, cause).await else { return vec![] };
    if pods.is_empty() {
        return vec![];
    }
    match usage(stats, LIMITS_AGE_MAX, cause).await {
        Ok(usage) => candidates(pods, usage),
        Err(_) => vec![],
    }
}

/// All pods that may be evicted, and what they use just now.
pub(super) async fn measure(
    pods: Address<PodManagerMsg>,
    stats: Address<StatsCollectorMsg>,
    cause: Cause,
) -> Result<Vec<Candidate>, String> {
    let active = active(&pods, false, &cause).await;
    let active = active.map_err(|error| format!("list pods: {error}"))?;
    Ok(candidates(active, usage(&stats, Duration::ZERO, &cause).await?))
}

/// Pods that may end, or those of them with limits of local storage.
async fn active(pods: &Address<PodManagerMsg>, limited: bool, cause: &Cause) -> Result<Vec<Arc<Pod>>, AskError> {
    let question = |reply| PodManagerMsg::Eviction(EvictionMsg::Active { limited, reply });
    pods.ask(cause.clone(), ASK_LIMIT, question).await
}

async fn usage(
    stats: &Address<StatsCollectorMsg>,
    age_max: Duration,
    cause: &Cause,
) -> Result<BTreeMap<String, PodStats>, String> {
    let question = |reply| StatsCollectorMsg::Get { wanted: Wanted::SUMMARY, age_max, reply };
    let snapshot = stats.ask(cause.clone(), RUNTIME_LIMIT, question).await;
    let snapshot = snapshot.map_err(|error| format!("measure pods: {error}"))??;
    let summary = summary(&snapshot, &Facts::default());
    Ok(summary.pods.into_iter().map(|pod| (pod.pod_ref.uid.clone(), pod)).collect())
}

fn candidates(pods: Vec<Arc<Pod>>, mut usage: BTreeMap<String, PodStats>) -> Vec<Candidate> {
    let with_stats = pods.into_iter().map(|pod| {
        let stats = usage.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        Candidate { pod, stats }
    });
    with_stats.collect()
}

/// Has the node give up what it can, then looks again. A failed removal does not end the others.
pub(super) async fn reclaim(
    reclaims: &'static [Reclaim],
    containers: Address<ContainerGcMsg>,
    images: Address<ImageGcMsg>,
    order: LookOrder,
) -> Result<Box<NodeLook>, String> {
    for reclaim in reclaims {
        let cause = order.cause.clone();
        let outcome = match reclaim {
            Reclaim::DeadContainers => containers.ask(cause, RECLAIM_LIMIT, ContainerGcMsg::RemoveAllUnused).await,
            Reclaim::UnusedImages => images.ask(cause, RECLAIM_LIMIT, ImageGcMsg::RemoveAllUnused).await,
        };
        if let Err(error) = outcome.map_err(|error| error.to_string()).and_then(|outcome| outcome) {
            tracing::info!(error, "Eviction manager: unexpected error when attempting to reduce resource pressure");
        }
    }
    look(LookOrder { limits_of: None, ..order }).await
}
