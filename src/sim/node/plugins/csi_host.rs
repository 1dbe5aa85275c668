//! Drivers' volumes as the simulated disk knows them: directories and the files that name them.

use std::sync::Arc;

use async_trait::async_trait;

use super::calls::PluginOutlet;
use super::{Plugins, ROOT};
use crate::actors::kit::trace::lock;
use crate::cri::Device;
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::users::VolumeUser;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::{Ownership, VolumePlace};
use crate::platform::volumes::csi::{CsiHost, DeviceHold, target_path};
use crate::platform::volumes::{Progress, VolumeError};
use crate::sim::invariants::VOLUMES_OUTLIVE;
use crate::sim::node::Node;
use crate::sim::node::disk::Disk;

/// The folder of devices that are mapped for pods.
const MAPPED: &str = "/dev/mapped/";

fn still_mounted(path: &str) -> VolumeError {
    VolumeError::Failed { attempt: "remove", path: path.to_owned(), problem: format!("{path} is still mounted") }
}

fn is_published(node: &Node, place: &VolumePlace) -> bool {
    lock(&node.plugins.volumes).published.contains_key(&target_path(ROOT, place))
}

/// Where a device that is mapped for a pod is.
pub(super) fn device_path(place: &VolumePlace) -> String {
    format!("{MAPPED}{}/{}", place.uid, place.name)
}

impl Plugins {
    /// The first of these devices of the host that is to be a driver's volume and is not mapped.
    pub fn unmapped(disk: &Disk, devices: &[Device]) -> Option<String> {
        let of_drivers = devices.iter().map(|device| &device.host_path).filter(|path| path.starts_with(MAPPED));
        let is_mapped = |path: &String| disk.csi.mapped.iter().any(|place| device_path(place) == *path);
        of_drivers.into_iter().find(|path| !is_mapped(path)).cloned()
    }
}

#[async_trait]
impl CsiHost for PluginOutlet {
    fn root(&self) -> String {
        ROOT.to_owned()
    }

    async fn hold(&self, device: &DevicePlace) -> DeviceHold {
        self.holds.hold(device).await
    }

    async fn note_device(&self, device: &DevicePlace, data: Option<VolumeData>) -> Result<(), VolumeError> {
        let (key, device) = (device.to_string(), device.clone());
        let work = move |node: &Node| {
            let mut disk = lock(&node.disk);
            let is_block = matches!(device, DevicePlace::Block { .. });
            let known = disk.csi.devices.entry(device).or_default();
            if let Some(data) = data {
                *known = Some(if is_block { data } else { data.beside(known.as_ref()) });
            }
        };
        self.outlet.volume("note staged volume", key, work).await
    }

    async fn forget_device(&self, device: &DevicePlace) -> Result<(), VolumeError> {
        let (key, device) = (device.to_string(), device.clone());
        let work = move |node: &Node| {
            let path = device.staging_path(ROOT.as_ref()).display().to_string();
            if lock(&node.plugins.volumes).staged.contains_key(&path) {
                return Err(still_mounted(&path));
            }
            lock(&node.disk).csi.devices.remove(&device);
            Ok(())
        };
        self.outlet.volume("forget staged volume", key, work).await?
    }

    async fn devices(&self) -> Result<Vec<(DevicePlace, VolumeData)>, VolumeError> {
        let work = |node: &Node| {
            let disk = lock(&node.disk);
            let all = disk.csi.devices.iter();
            all.filter_map(|(place, data)| Some((place.clone(), data.clone()?))).collect()
        };
        self.outlet.volume("list staged volumes", ROOT.to_owned(), work).await
    }

    async fn note_pod(&self, place: &VolumePlace, data: VolumeData) -> Result<(), VolumeError> {
        let place = place.clone();
        let work = move |node: &Node| {
            let mut disk = lock(&node.disk);
            disk.pods.entry(place.uid.clone()).or_default();
            disk.volumes.insert(place.clone());
            disk.csi.pods.insert(place, data);
        };
        self.outlet.volume("note volume", ROOT.to_owned(), work).await
    }

    async fn pod_data(&self, place: &VolumePlace) -> Result<Option<VolumeData>, VolumeError> {
        let work = |node: &Node| lock(&node.disk).csi.pods.get(place).cloned();
        self.outlet.volume("read volume data", place.to_string(), work).await
    }

    async fn forget_pod(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let work = |node: &Node| {
            if is_published(node, place) || lock(&node.disk).csi.mapped.contains(place) {
                return Err(still_mounted(&target_path(ROOT, place)));
            }
            let mut disk = lock(&node.disk);
            disk.csi.pods.remove(place);
            disk.volumes.remove(place);
            Ok(())
        };
        self.outlet.volume("forget volume", place.to_string(), work).await?
    }

    async fn is_pod_mounted(&self, place: &VolumePlace) -> Result<bool, VolumeError> {
        self.outlet.volume("look at volume", place.to_string(), |node| is_published(node, place)).await
    }

    async fn users(&self) -> Result<Vec<VolumeUser>, VolumeError> {
        let work = |node: &Node| {
            let disk = lock(&node.disk);
            let user = |(place, data): (&VolumePlace, &VolumeData)| VolumeUser {
                place: place.clone(),
                data: Some(data.clone()),
            };
            disk.csi.pods.iter().map(user).collect()
        };
        self.outlet.volume("list volumes of pods", ROOT.to_owned(), work).await
    }

    async fn own(&self, place: &VolumePlace, _: Ownership, _: Arc<Progress>) -> Result<(), VolumeError> {
        self.outlet.volume("give files to a group", place.to_string(), |_| ()).await
    }

    async fn map_device(&self, place: &VolumePlace) -> Result<String, VolumeError> {
        let work = |node: &Node| {
            if !is_published(node, place) {
                let (path, problem) = (target_path(ROOT, place), "no such device".to_owned());
                return Err(VolumeError::Failed { attempt: "map", path, problem });
            }
            lock(&node.disk).csi.mapped.insert(place.clone());
            Ok(device_path(place))
        };
        self.outlet.volume("map device", place.to_string(), work).await?
    }

    async fn unmap_device(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let work = |node: &Node| {
            let user = lock(&node.containers).user_of_host_device(&device_path(place));
            lock(&node.disk).csi.mapped.remove(place);
            if let Some(user) = user {
                node.invariants.broken(VOLUMES_OUTLIVE, format!("{place} is unmapped while {user} runs"));
            }
        };
        self.outlet.volume("unmap device", place.to_string(), work).await
    }

    async fn clean_parts(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        self.outlet.volume("clean parts of", place.to_string(), |_| ()).await
    }
}
