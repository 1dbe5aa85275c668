//! Taking a driver's volume down for one pod. The pod's volumes are read from the disk, never from memory.

use super::super::drivers::CsiVolumes;
use crate::logic::volumes::order::VolumePlace;
use crate::platform::volumes::VolumeError;
use crate::platform::volumes::csi::target_path;

impl CsiVolumes {
    /// Has the volume gone from the pod. That it may be unstaged now is for `CsiManager` to see.
    ///
    /// # Errors
    /// Why it stays, in upstream's words.
    pub(in crate::actors::volumes::volume_manager) async fn unpublish(
        &self,
        place: &VolumePlace,
    ) -> Result<(), String> {
        let (host, text) = (&self.host, |error: VolumeError| error.to_string());
        let [client, call, clean] = words(place.is_device);
        match place.is_device {
            true => host.unmap_device(place).await.map_err(text)?,
            false => host.clean_parts(place).await.map_err(text)?,
        }
        let read = host.pod_data(place).await;
        let Some(data) = read.map_err(|error| format!("failed to load volume data file: {error}"))? else {
            // Nothing was ever asked of a driver for it.
            return host.forget_pod(place).await.map_err(text);
        };
        let at = self.endpoint(&data.driver_name).await;
        let at = at.map_err(|why| format!("kubernetes.io/csi: {client} failed to get CSI client: {why}"))?;
        let target = target_path(&host.root(), place);
        let gone = self.calls.unpublish(&at, &data.volume_handle, &target).await;
        gone.map_err(|error| format!("kubernetes.io/csi: {call} failed: {error}"))?;
        let forgotten = host.forget_pod(place).await;
        forgotten.map_err(|error| format!("kubernetes.io/csi: {clean} [{target}]: {error}"))
    }
}

/// Upstream's words for what can fail.
fn words(is_device: bool) -> [&'static str; 3] {
    if is_device {
        let clean = "blockMapper.UnmapPodDevice failed to clean publish path";
        return ["blockMapper.UnmapPodDevice", "blockMapper.unpublishVolumeForBlock", clean];
    }
    ["Unmounter.TearDownAt", "Unmounter.TearDownAt", "Unmounter.TearDownAt failed to clean mount dir"]
}
