//! Staged volumes that nobody uses: how they are found, and how one is unstaged.

use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::platform::plugins::CsiCalls;
use crate::platform::volumes::csi::CsiHost;

/// A volume that is staged, or may be.
pub(super) type Staged = (DevicePlace, VolumeData);

/// The key of waits after failures.
pub(super) fn key(device: &DevicePlace) -> String {
    format!("unstage {}/{}", device.driver, device.digest)
}

fn is_used(data: &VolumeData, users: &[(crate::logic::volumes::order::VolumePlace, VolumeData)]) -> bool {
    users.iter().any(|(_, user)| user.driver_name == data.driver_name && user.volume_handle == data.volume_handle)
}

/// Those that no pod has, as the disk tells.
pub(super) async fn unused(host: &dyn CsiHost) -> Result<Vec<Staged>, String> {
    let staged = host.devices().await.map_err(|error| error.to_string())?;
    if staged.is_empty() {
        return Ok(staged);
    }
    let users = host.users().await.map_err(|error| error.to_string())?;
    Ok(staged.into_iter().filter(|(_, data)| !is_used(data, &users)).collect())
}

/// Unstages one, unless a pod has it by now.
pub(super) async fn unstage(
    calls: &dyn CsiCalls,
    host: &dyn CsiHost,
    endpoint: Option<String>,
    device: &DevicePlace,
    data: &VolumeData,
) -> Result<(), String> {
    let mut hold = host.hold(device).await;
    let users = host.users().await.map_err(|error| error.to_string())?;
    if is_used(data, &users) {
        return Ok(());
    }
    let (driver, text) =
        (&data.driver_name, "kubernetes.io/csi: attacher.UnmountDevice failed to create newCsiDriverClient");
    let at = endpoint
        .ok_or_else(|| format!("{text}: driver name {driver} not found in the list of registered CSI drivers"))?;
    let can = calls.capabilities(&at).await.map_err(|error| error.to_string())?;
    if can.stages {
        let staging = device.staging_path(host.root().as_ref()).display().to_string();
        let gone = calls.unstage(&at, &data.volume_handle, &staging).await;
        gone.map_err(|error| format!("kubernetes.io/csi: attacher.UnmountDevice failed: {error}"))?;
    }
    host.forget_device(device).await.map_err(|error| error.to_string())?;
    hold.staged = false;
    Ok(())
}
