//! How long things take for volumes, told under upstream's names of plugins and operations.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::logic::volumes::plan::{VolumeKind, VolumePlan};
use crate::logic::volumes::volume_states::MountedVolume;
use crate::platform::host::clock::Clock;
use crate::platform::observer::{Observation, Observer};
use crate::platform::volumes::Walk;

/// The observer, and its clock.
#[derive(Clone)]
pub(super) struct Timing {
    pub(super) observer: Arc<dyn Observer>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Timing {
    /// Does the work, and tells how long it took and whether it failed. `plugin` is as directories are named.
    pub(super) async fn of<T, E>(
        &self,
        plugin: &str,
        operation: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let began = self.clock.uptime();
        let outcome = work.await;
        let took = self.clock.uptime().saturating_sub(began);
        self.tell(plugin, operation, took, outcome.is_err());
        outcome
    }

    /// Tells how long files' ownership took to change.
    pub(super) fn walked(&self, plugin: &str, walk: Walk) {
        self.tell(plugin, "volume_apply_access_control", walk.took, walk.failed);
    }

    fn tell(&self, plugin: &str, operation: &'static str, took: Duration, failed: bool) {
        let plugin = &plugin.replace('~', "/");
        self.observer.observe(Observation::VolumeDone { plugin, operation, took, failed });
    }
}

/// The plugin of a volume in this place; what has none is a path of the host.
pub(super) fn plugin_of(place: Option<&VolumePlace>) -> &str {
    place.map_or(plugin::HOST_PATH, |place| place.plugin.as_str())
}

/// The plugin of a planned volume; what a claim comes to is known once it is there.
pub(super) fn planned_plugin<'a>(plan: &VolumePlan, mounted: Option<&'a MountedVolume>) -> &'a str {
    match &plan.kind {
        VolumeKind::EmptyDir(_) => plugin::EMPTY_DIR,
        VolumeKind::HostPath { .. } => plugin::HOST_PATH,
        VolumeKind::ConfigMap(_) => plugin::CONFIG_MAP,
        VolumeKind::Secret(_) => plugin::SECRET,
        VolumeKind::DownwardApi(_) => plugin::DOWNWARD_API,
        VolumeKind::Projected(_) => plugin::PROJECTED,
        VolumeKind::Nfs(_) => plugin::NFS,
        VolumeKind::Image(_) => plugin::IMAGE,
        VolumeKind::Csi(_) => plugin::CSI,
        VolumeKind::Claim { .. } => mounted.map_or("N/A", |mounted| plugin_of_path(&mounted.host_path)),
        VolumeKind::Refused(_) => "N/A",
    }
}

/// The plugin's directory in a volume's path; what has none is a path of the host.
fn plugin_of_path(path: &str) -> &str {
    path.split('/').find(|part| part.starts_with("kubernetes.io~")).unwrap_or(plugin::HOST_PATH)
}

/// Upstream's name for having a volume there.
pub(super) fn mounting(is_device: bool) -> &'static str {
    if is_device { "map_volume" } else { "volume_mount" }
}

/// Upstream's name for having it gone.
pub(super) fn unmounting(is_device: bool) -> &'static str {
    if is_device { "unmap_volume" } else { "volume_unmount" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_of_a_claim_is_read_from_where_it_is() {
        for (path, plugin) in [
            ("/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv-1/mount", "kubernetes.io~csi"),
            ("/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/pv-2", "kubernetes.io~nfs"),
            ("/srv/data", plugin::HOST_PATH),
        ] {
            assert_eq!(plugin_of_path(path), plugin);
        }
    }
}
