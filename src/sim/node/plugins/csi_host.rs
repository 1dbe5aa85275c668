//! Drivers' volumes as the simulated disk knows them: directories and the files that name them.

use std::sync::Arc;

use async_trait::async_trait;

use super::ROOT;
use super::calls::PluginOutlet;
use crate::actors::kit::trace::lock;
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::{Ownership, VolumePlace};
use crate::platform::volumes::csi::{CsiHost, DeviceHold, target_path};
use crate::platform::volumes::{Progress, VolumeError};
use crate::sim::node::Node;

fn still_mounted(path: &str) -> VolumeError {
    VolumeError::Failed { attempt: "remove", path: path.to_owned(), problem: format!("{path} is still mounted") }
}

fn is_published(node: &Node, place: &VolumePlace) -> bool {
    lock(&node.plugins.volumes).published.contains_key(&target_path(ROOT, place))
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
            let known = disk.csi.devices.entry(device).or_default();
            if data.is_some() {
                *known = data;
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
            if is_published(node, place) {
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

    async fn users(&self) -> Result<Vec<(VolumePlace, VolumeData)>, VolumeError> {
        let work = |node: &Node| {
            let disk = lock(&node.disk);
            disk.csi.pods.iter().map(|(place, data)| (place.clone(), data.clone())).collect()
        };
        self.outlet.volume("list volumes of pods", ROOT.to_owned(), work).await
    }

    async fn own(&self, place: &VolumePlace, _: Ownership, _: Arc<Progress>) -> Result<(), VolumeError> {
        self.outlet.volume("give files to a group", place.to_string(), |_| ()).await
    }

    async fn clean_parts(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        self.outlet.volume("clean parts of", place.to_string(), |_| ()).await
    }
}
