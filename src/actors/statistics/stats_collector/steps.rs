//! The operations of `StatsCollector`: a look, walks, a list of volumes.

use std::time::Duration;

use futures_util::future::join;

use super::{Args, RUNTIME_LIMIT, told};
use crate::actors::kit::trace::Cause;
use crate::cri::{ContainerStats, FilesystemUsage, ImageFsInfo, StatsFilter};
use crate::logic::model::ids::FullName;
use crate::logic::statistics::chosen::chosen;
use crate::logic::statistics::figures::{FileSystem, Usage};
use crate::logic::statistics::sample::{RuntimeDisk, Wanted};
use crate::logic::statistics::volumes::{
    Figures, Space, VolumeFigures, answered, claim_of, is_ephemeral, measure, volume_of,
};
use crate::logic::statistics::walks::WalkKey;
use crate::logic::volumes::volume_states::DrivenVolume;
use crate::messages::runtime::pleg::PlegMsg;
use crate::messages::stats_collector::{DrivenThere, DriverAnswer, Looked, VolumeThere, VolumesThere};
use crate::messages::volume_manager::VolumeManagerMsg;
use crate::platform::observer::Observation;
use crate::platform::statistics::{Haste, LookOrder, RuntimeDiskAt, WalkOutcome, WalkPlace, Walked};

/// How long another actor may take to answer.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// The facts that a look has to find out.
pub(super) struct Needs {
    pub(super) wanted: Wanted,
    /// Ask the runtime for its disks.
    pub(super) disks: bool,
    /// The runtime's earlier answer about them.
    pub(super) known_disks: Option<ImageFsInfo>,
    /// Find out what sandboxes are made of.
    pub(super) sandbox_image: bool,
    /// Ask which volumes there are.
    pub(super) volumes: bool,
}

/// One look at everything that is wanted.
pub(super) async fn look(args: &Args, needs: Needs) -> Result<Looked, String> {
    let cause = Cause::outside("statistics");
    let pods = args.pleg.ask(cause, ASK_LIMIT, PlegMsg::Pods).await;
    let pods = pods.map_err(|error| format!("list pods: {error}"))?;
    let pods = chosen(pods.iter().map(|pod| &**pod));
    let disks = async { if needs.disks { image_disks(args).await } else { None } };
    let (disks, figures) = join(disks, told::figures(args, needs.wanted, &pods)).await;
    let sandbox_image = if needs.sandbox_image { sandbox_image(args).await } else { None };
    let volumes = if needs.volumes { volumes(args).await } else { None };
    let (images, containers) = match (needs.wanted.disks, disks.as_ref().or(needs.known_disks.as_ref())) {
        (true, Some(told)) => runtime_places(told),
        _ => (None, None),
    };
    let order = LookOrder { wanted: needs.wanted, pods, images, containers };
    let sample = args.statistics.look(order).await.map_err(|error| error.to_string())?;
    Ok(Looked { sample, disks, pods: figures, sandbox_image, volumes })
}

/// The runtime's answer about its disks; nothing when it does not answer in time: its last answer counts on.
async fn image_disks(args: &Args) -> Option<ImageFsInfo> {
    match tokio::time::timeout(RUNTIME_LIMIT, args.images.image_fs_info()).await {
        Ok(Ok(told)) => Some(told),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the runtime does not tell its disks");
            None
        }
        Err(_) => None,
    }
}

/// The first disk of each kind, as upstream takes them. The one of writable layers has its own figures only if it is
/// another.
pub(in crate::actors) fn runtime_places(told: &ImageFsInfo) -> (Option<RuntimeDiskAt>, Option<RuntimeDiskAt>) {
    let at = |usage: &FilesystemUsage| RuntimeDiskAt {
        path: usage.mountpoint.clone(),
        told: RuntimeDisk {
            file_system: None,
            at: usage.timestamp,
            used: usage.used_bytes,
            inodes_used: usage.inodes_used,
        },
    };
    let images = told.image_filesystems.first();
    let elsewhere = |usage: &&FilesystemUsage| images.is_none_or(|images| images.mountpoint != usage.mountpoint);
    (images.map(at), told.container_filesystems.first().filter(elsewhere).map(at))
}

/// The image of sandboxes: the one that the runtime has pinned, or one that is named as the usual one.
async fn sandbox_image(args: &Args) -> Option<String> {
    let images = tokio::time::timeout(RUNTIME_LIMIT, args.images.list_images(None)).await.ok()?.ok()?;
    let is_pause = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        last.split([':', '@']).next() == Some("pause")
    };
    let named = |image: &crate::cri::Image| image.repo_tags.iter().find(|tag| is_pause(tag)).cloned();
    let pinned = images
        .iter()
        .filter(|image| image.pinned)
        .find_map(|image| named(image).or_else(|| image.repo_tags.first().cloned()));
    images.iter().filter(|image| image.pinned).find_map(named).or_else(|| images.iter().find_map(named)).or(pinned)
}

/// The volumes that pods have and that there are figures of; `None` when nobody answers.
pub(super) async fn volumes(args: &Args) -> Option<VolumesThere> {
    let cause = Cause::outside("statistics");
    let pods = args.volume_manager.ask(cause, ASK_LIMIT, VolumeManagerMsg::All).await.ok()?;
    let mut there = VolumesThere::default();
    for (uid, pod, mounted) in pods {
        for (name, volume) in &mounted.volumes {
            let Some(spec) = volume_of(&pod, name) else { continue };
            let key = WalkKey::Volume(uid.clone(), name.clone());
            let unmeasured = Figures::Seen(Space { file_system: FileSystem::default(), usage: None });
            let figures = VolumeFigures {
                name: name.clone(),
                claim: claim_of(&pod, spec),
                is_ephemeral: is_ephemeral(spec),
                figures: unmeasured,
            };
            if let Some(driven) = &volume.driven {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let pod = FullName::new(&text(&pod.metadata.name), &text(&pod.metadata.namespace));
                there.driven.push(DrivenThere { key, pod, at: driven.clone(), volume: figures });
            } else if let Some(measure) = measure(&volume.host_path).filter(|_| !volume.is_device) {
                let has_own_writers = spec.empty_dir.is_some();
                let place = WalkPlace::Volume(volume.host_path.clone(), measure);
                there.walked.push(VolumeThere { key, has_own_writers, place, volume: figures });
            }
        }
    }
    Some(there)
}

/// Asks a volume's driver for its figures. Whether the driver has any is asked each time: it may be another one by now.
pub(super) async fn ask_driver(args: &Args, volume: &DrivenVolume) -> Result<DriverAnswer, String> {
    let DrivenVolume { driver, handle, target, .. } = volume;
    let (began, at) = (args.clock.uptime(), args.clock.now());
    let asked = async {
        let endpoint = args.csi.endpoint(driver).await?;
        let calls = &args.csi.calls;
        let can = calls.capabilities(&endpoint).await.map_err(|error| error.to_string())?;
        if !can.measures {
            return Ok(None);
        }
        // As upstream, the question leaves the staging path out.
        let found = calls.usage(&endpoint, handle, target, "").await.map_err(|error| error.to_string())?;
        answered(&found, can, args.volume_health, at).map(Some).map_err(|error| error.to_string())
    };
    let outcome = asked.await;
    let took = args.clock.uptime().saturating_sub(began);
    args.observer.observe(Observation::DriverMeasured { driver, took });
    outcome
}

/// Walks; what the runtime keeps in a way of its own it is asked for. Gives what was walked and what was not.
pub(super) async fn walk(
    args: &Args,
    places: Vec<(WalkKey, WalkPlace)>,
    haste: Haste,
) -> (Vec<Walked>, Vec<(WalkKey, WalkPlace)>) {
    let mut walked = args.statistics.walk(places.clone(), haste).await;
    let is_unknown = |one: &Walked| matches!((&one.key, &one.outcome), (WalkKey::Layer(_), WalkOutcome::NotHere));
    if walked.iter().any(is_unknown) {
        ask_runtime(args, &mut walked).await;
    }
    let is_unfinished = |one: &Walked| one.outcome == WalkOutcome::Unfinished;
    let done = |key: &WalkKey| walked.iter().any(|one| one.key == *key && !is_unfinished(one));
    let left = places.into_iter().filter(|(key, _)| !done(key)).collect();
    (walked, left)
}

/// One call for all of them: the runtime asks every container's shim all the same. It counts as the time that each took,
/// so that it is made seldom if it takes long.
async fn ask_runtime(args: &Args, walked: &mut [Walked]) {
    let began = args.clock.uptime();
    let all = StatsFilter::default();
    let call = args.runtime.list_container_stats(&all);
    let told: Vec<ContainerStats> = match tokio::time::timeout(RUNTIME_LIMIT, call).await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the runtime does not tell writable layers");
            vec![]
        }
        Err(_) => vec![],
    };
    let took = args.clock.uptime().saturating_sub(began);
    for one in walked {
        let (WalkKey::Layer(id), WalkOutcome::NotHere) = (&one.key, &one.outcome) else { continue };
        one.took = took;
        one.cpu = took;
        let layer = told.iter().find(|stats| stats.id == id.as_str()).and_then(|stats| stats.writable_layer.as_ref());
        if let Some(FilesystemUsage { timestamp, used_bytes: Some(bytes), inodes_used, .. }) = layer {
            let inodes = inodes_used.unwrap_or(0);
            one.outcome = WalkOutcome::Layer(Usage { at: *timestamp, bytes: *bytes, inodes });
        }
    }
}
