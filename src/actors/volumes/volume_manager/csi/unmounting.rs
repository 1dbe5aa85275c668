//! Taking a driver's volume down for one pod. The pod's volumes are read from its directory, never from memory.

use super::super::drivers::CsiVolumes;
use crate::logic::volumes::order::VolumePlace;

impl CsiVolumes {
    /// Has the volume gone from the pod. That it may be unstaged now is for `CsiManager` to see.
    ///
    /// # Errors
    /// Why it stays, in upstream's words.
    pub(in crate::actors::volumes::volume_manager) async fn unpublish(
        &self,
        place: &VolumePlace,
    ) -> Result<(), String> {
        let host = &self.host;
        host.clean_parts(place).await.map_err(|error| error.to_string())?;
        let read = host.pod_data(place).await;
        let Some(data) = read.map_err(|error| format!("failed to load volume data file: {error}"))? else {
            // Nothing was ever asked of a driver for it.
            return host.forget_pod(place).await.map_err(|error| error.to_string());
        };
        let at = self.endpoint(&data.driver_name).await;
        let at =
            at.map_err(|why| format!("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: {why}"))?;
        let target = crate::platform::volumes::csi::pod_mount_path(&host.root(), place);
        let gone = self.calls.unpublish(&at, &data.volume_handle, &target).await;
        gone.map_err(|error| format!("kubernetes.io/csi: Unmounter.TearDownAt failed: {error}"))?;
        let forgotten = host.forget_pod(place).await;
        forgotten.map_err(|error| {
            format!("kubernetes.io/csi: Unmounter.TearDownAt failed to clean mount dir [{target}]: {error}")
        })
    }
}
