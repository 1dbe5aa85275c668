//! Staged volumes that nobody uses: how they are found, and how one is unstaged.

use std::collections::BTreeSet;

use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::messages::plugins::csi_manager::Unstaging;
use crate::platform::plugins::CsiCalls;
use crate::platform::volumes::csi::{CsiHost, target_path};

/// A volume that is staged, or may be.
pub(super) type Staged = (DevicePlace, VolumeData);

/// The volumes that are being unstaged. A look at the disk takes a while, and goes on beside it.
#[derive(Default)]
pub(super) struct Unstagings {
    under_way: BTreeSet<DevicePlace>,
    /// Found unused while they were under way, which may have begun while they were used.
    found_again: BTreeSet<DevicePlace>,
    /// Unstaged since the newest look began: it may have seen them before.
    gone: BTreeSet<DevicePlace>,
}

impl Unstagings {
    /// A look begins.
    pub(super) fn look(&mut self) {
        self.gone.clear();
    }

    /// Whether a volume that the look found unused is to be unstaged.
    pub(super) fn is_due(&mut self, device: &DevicePlace) -> bool {
        if self.under_way.contains(device) {
            self.found_again.insert(device.clone());
            return false;
        }
        !self.gone.contains(device)
    }

    /// It is being unstaged.
    pub(super) fn begin(&mut self, device: &DevicePlace) {
        self.under_way.insert(device.clone());
    }

    /// That came to its end. Whether somebody has to look again.
    pub(super) fn end(&mut self, device: &DevicePlace, outcome: Option<Unstaging>) -> bool {
        self.under_way.remove(device);
        let found_again = self.found_again.remove(device);
        if outcome == Some(Unstaging::Gone) {
            self.gone.insert(device.clone());
        }
        found_again && outcome == Some(Unstaging::InUse)
    }
}

/// The key of waits after failures.
pub(super) fn key(device: &DevicePlace) -> String {
    format!("unstage {device}")
}

/// Upstream's name of the operation, for metrics.
pub(super) fn operation(device: &DevicePlace) -> &'static str {
    match device {
        DevicePlace::FileSystem { .. } => "unmount_device",
        DevicePlace::Block { .. } => "unmap_device",
    }
}

/// Those that no pod has, as the disk tells.
pub(super) async fn unused(host: &dyn CsiHost) -> Result<Vec<Staged>, String> {
    let staged = host.devices().await.map_err(|error| error.to_string())?;
    if staged.is_empty() {
        return Ok(staged);
    }
    let users = host.users().await.map_err(|error| error.to_string())?;
    let is_used = |(device, data): &Staged| users.iter().any(|user| user.may_have(device, data));
    Ok(staged.into_iter().filter(|staged| !is_used(staged)).collect())
}

/// Unstages one, unless a pod has it by now.
pub(super) async fn unstage(
    calls: &dyn CsiCalls,
    host: &dyn CsiHost,
    endpoint: Option<String>,
    device: &DevicePlace,
    data: &VolumeData,
) -> Result<Unstaging, String> {
    let mut hold = host.hold(device).await;
    let users = host.users().await.map_err(|error| error.to_string())?;
    if users.iter().any(|user| user.may_have(device, data)) {
        return Ok(Unstaging::InUse);
    }
    let (driver, texts) = (&data.driver_name, Texts::of(device));
    let missing = || format!("{}: driver name {driver} not found in the list of registered CSI drivers", texts.client);
    let at = endpoint.ok_or_else(missing)?;
    unpublish_strays(calls, host, &at, device, data).await?;
    if host.is_device_open(device).await.map_err(|error| error.to_string())? {
        return Err("the device is in use when it was no longer expected to be in use".to_owned());
    }
    let can = calls.capabilities(&at).await.map_err(|error| error.to_string())?;
    // A call may have its effect and fail all the same: whoever wants the volume next has it staged again.
    hold.staged = false;
    if can.stages {
        let staging = device.staging_path(host.root().as_ref()).display().to_string();
        let gone = calls.unstage(&at, &data.volume_handle, &staging).await;
        gone.map_err(|error| format!("{}: {error}", texts.call))?;
    }
    host.forget_device(device).await.map_err(|error| error.to_string())?;
    Ok(Unstaging::Gone)
}

/// Takes a device away from pods of which nothing else is left: an agent ended before it had done so.
async fn unpublish_strays(
    calls: &dyn CsiCalls,
    host: &dyn CsiHost,
    at: &str,
    device: &DevicePlace,
    data: &VolumeData,
) -> Result<(), String> {
    for place in host.strays(device).await.map_err(|error| error.to_string())? {
        host.unmap_device(&place).await.map_err(|error| error.to_string())?;
        let target = target_path(&host.root(), &place);
        let gone = calls.unpublish(at, &data.volume_handle, &target).await;
        gone.map_err(|error| format!("kubernetes.io/csi: blockMapper.unpublishVolumeForBlock failed: {error}"))?;
        host.forget_pod(&place).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The beginnings of upstream's texts.
struct Texts {
    client: &'static str,
    call: &'static str,
}

impl Texts {
    fn of(device: &DevicePlace) -> Self {
        match device {
            DevicePlace::FileSystem { .. } => Self {
                client: "kubernetes.io/csi: attacher.UnmountDevice failed to create newCsiDriverClient",
                call: "kubernetes.io/csi: attacher.UnmountDevice failed",
            },
            DevicePlace::Block { .. } => Self {
                client: "kubernetes.io/csi: blockMapper.TearDownDevice failed to get CSI client",
                call: "kubernetes.io/csi: blockMapper.unstageVolumeForBlock failed",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DevicePlace {
        DevicePlace::block("pv-1")
    }

    /// OBS-07: a device is unmapped, a file system unmounted.
    #[test]
    fn obs_07_operations_have_upstreams_names() {
        let files = DevicePlace::FileSystem { driver: "d".to_owned(), digest: "0a".to_owned() };
        assert_eq!((operation(&device()), operation(&files)), ("unmap_device", "unmount_device"));
    }

    /// VOL-45: a look that began while the volume was staged sees it after it is gone.
    #[test]
    fn an_old_look_does_not_have_a_volume_unstaged_twice() {
        let (mut unstagings, device) = (Unstagings::default(), device());
        unstagings.look();
        assert!(unstagings.is_due(&device));
        unstagings.begin(&device);
        unstagings.look();
        assert!(!unstagings.end(&device, Some(Unstaging::Gone)));
        assert!(!unstagings.is_due(&device), "the look began before");
        unstagings.look();
        assert!(unstagings.is_due(&device), "somebody had it staged again");
    }

    /// VOL-45: the last pod went while it was being found that a pod has the volume.
    #[test]
    fn a_volume_that_was_in_use_a_moment_ago_is_looked_at_again() {
        let (mut unstagings, device) = (Unstagings::default(), device());
        unstagings.begin(&device);
        assert!(!unstagings.end(&device, Some(Unstaging::InUse)), "its pod tells when it goes");
        unstagings.begin(&device);
        assert!(!unstagings.is_due(&device));
        assert!(unstagings.end(&device, Some(Unstaging::InUse)));
        unstagings.begin(&device);
        assert!(!unstagings.is_due(&device));
        assert!(!unstagings.end(&device, None), "it is tried again after a wait");
        assert!(unstagings.is_due(&device));
    }
}
