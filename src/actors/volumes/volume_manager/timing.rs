//! How long things take for volumes, told under upstream's names of plugins and operations.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::logic::volumes::csi::migration::driver_of;
use crate::logic::volumes::csi::source::CsiSource;
use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::logic::volumes::plan::{VolumeKind, VolumePlan};
use crate::logic::volumes::volume_states::MountedVolume;
use crate::platform::host::clock::Clock;
use crate::platform::observer::{Observation, Observer};
use crate::platform::plugins::as_migrated;
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
        self.tell(plugin, operation, false, (took, outcome.is_err()));
        outcome
    }

    /// The same work for a driver's volume. Its calls count as its own do: `migrated` or not.
    pub(super) async fn of_source<T, E>(
        &self,
        source: &CsiSource,
        operation: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let began = self.clock.uptime();
        let outcome = as_migrated(source.migrated, work).await;
        self.told_of_source(source, operation, began, outcome.is_err());
        outcome
    }

    /// Tells of something that was done for a driver's volume since then, by uptime.
    pub(super) fn told_of_source(&self, source: &CsiSource, operation: &'static str, began: Duration, failed: bool) {
        let took = self.clock.uptime().saturating_sub(began);
        self.tell(&driven_plugin(&source.driver), operation, source.migrated, (took, failed));
    }

    /// Tells of a wait for the cluster to list a volume, by its name there, that began then, by uptime.
    pub(super) fn verified(&self, unique_name: &str, began: Duration, failed: bool) {
        let took = self.clock.uptime().saturating_sub(began);
        let plugin: Vec<&str> = unique_name.splitn(3, '/').take(2).collect();
        self.tell(&plugin.join("/"), "verify_controller_attached_volume", false, (took, failed));
    }

    /// Tells how long files' ownership took to change.
    pub(super) fn walked(&self, plugin: &str, migrated: bool, walk: Walk) {
        self.tell(plugin, "volume_apply_access_control", migrated, (walk.took, walk.failed));
    }

    fn tell(&self, plugin: &str, operation: &'static str, migrated: bool, (took, failed): (Duration, bool)) {
        let plugin = &plugin.replace('~', "/");
        self.observer.observe(Observation::VolumeDone { plugin, operation, migrated, took, failed });
    }
}

/// Upstream's name of the plugin for volumes of a driver.
pub(super) fn driven_plugin(driver: &str) -> String {
    format!("{}:{driver}", plugin::CSI)
}

/// The plugin of a volume in this place; what has none is a path of the host.
pub(super) fn plugin_of(place: Option<&VolumePlace>) -> &str {
    place.map_or(plugin::HOST_PATH, |place| place.plugin.as_str())
}

/// The plugin of a planned volume; what a claim comes to is known once it is there.
pub(super) fn planned_plugin(plan: &VolumePlan, mounted: Option<&MountedVolume>) -> String {
    if let Some(driven) = mounted.and_then(|mounted| mounted.driven.as_ref()) {
        return driven_plugin(&driven.driver);
    }
    let plain = match &plan.kind {
        VolumeKind::EmptyDir(_) => plugin::EMPTY_DIR,
        VolumeKind::HostPath { .. } => plugin::HOST_PATH,
        VolumeKind::ConfigMap(_) => plugin::CONFIG_MAP,
        VolumeKind::Secret(_) => plugin::SECRET,
        VolumeKind::DownwardApi(_) => plugin::DOWNWARD_API,
        VolumeKind::Projected(_) => plugin::PROJECTED,
        VolumeKind::Nfs(_) => plugin::NFS,
        VolumeKind::Iscsi(_) => plugin::ISCSI,
        VolumeKind::Fc(_) => plugin::FC,
        VolumeKind::Image(_) => plugin::IMAGE,
        VolumeKind::Csi(source) => return driven_plugin(&source.driver),
        VolumeKind::Migrated(volume) => return driver_of(volume).map_or_else(|| plugin::CSI.to_owned(), driven_plugin),
        VolumeKind::Claim { .. } => mounted.map_or("N/A", |mounted| plugin_of_path(&mounted.host_path)),
        VolumeKind::Refused(_) => "N/A",
    };
    plain.to_owned()
}

/// The plugin's directory in a volume's path; what has none is a path of the host.
fn plugin_of_path(path: &str) -> &str {
    path.split('/').find(|part| part.starts_with("kubernetes.io~")).unwrap_or(plugin::HOST_PATH)
}

/// Upstream's name for having a volume there.
pub(super) fn mounting(is_device: bool) -> &'static str {
    if is_device { "map_volume" } else { "volume_mount" }
}

/// Upstream's name for growing it while it is in use.
pub(super) fn expanding() -> &'static str {
    "volume_fs_resize"
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
