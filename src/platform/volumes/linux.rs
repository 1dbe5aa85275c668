//! Volumes on a Linux node.
//!
//! Keeps the root directory's path and the calls under way.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::layout::{DEVICES, Layout};
use super::locks::{DeviceHolds, Locks};
use super::patient::Patient;
use super::progress::Progress;
use super::{VolumeError, VolumeHost, atomic_writer, in_use, sub_path, tear_down};
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::volumes::order::{FilesOrder, SetUp, SubPathOrder, VolumePlace, plugin};
use crate::platform::files::project_quotas::ProjectQuotas;
use crate::platform::files::safe_path::{Directory, Mounts, segment};
use crate::platform::host::clock::Clock;
use crate::platform::volumes::kinds::{device, empty_dir, host_path, local, nfs, scsi};

/// [`VolumeHost`] on real file systems.
#[derive(Clone)]
pub struct LinuxVolumeHost {
    pub(super) layout: Layout,
    pub(super) patient: Patient,
    locks: Locks,
    pub(super) holds: DeviceHolds,
    /// Counts what empty directories use, where that is wanted.
    quotas: Option<ProjectQuotas>,
}

impl LinuxVolumeHost {
    /// Volumes below `<root_dir>/pods`. `root_dir` is absolute and free of links.
    pub fn new(root_dir: &Path, clock: Arc<dyn Clock>) -> Self {
        Self {
            layout: Layout::new(root_dir),
            patient: Patient::new(clock),
            locks: Locks::default(),
            holds: DeviceHolds::default(),
            quotas: None,
        }
    }

    /// Has the file system count what empty directories use, where it can.
    #[must_use]
    pub fn with_quotas(self, quotas: Option<ProjectQuotas>) -> Self {
        Self { quotas, ..self }
    }
}

#[async_trait]
impl VolumeHost for LinuxVolumeHost {
    fn path_of(&self, place: &VolumePlace) -> String {
        self.layout.path(place).display().to_string()
    }

    fn map_paths(&self, place: &VolumePlace) -> [String; 2] {
        let of_pod = self.layout.pod_path(&place.uid).join(DEVICES).join(&place.plugin);
        let of_disk = if place.is_on_network_disk() { scsi::map_path(&self.layout, place) } else { None };
        [of_disk.unwrap_or_else(|| device::shared_path(&self.layout, place)), of_pod]
            .map(|path| path.display().to_string())
    }

    async fn set_up_watched(
        &self,
        uid: &PodUid,
        place: Option<&VolumePlace>,
        order: SetUp,
        progress: Arc<Progress>,
    ) -> Result<Option<String>, VolumeError> {
        if let Some(place) = place {
            checked(place)?;
        }
        let key = match (place, &order) {
            (Some(place), _) => place.to_string(),
            (None, SetUp::HostPath { path, .. }) => format!("{uid}{path}"),
            (None, _) => return Ok(None),
        };
        let (layout, locks, place) = (self.layout.clone(), self.locks.clone(), place.cloned());
        let (seen, quotas) = (Arc::clone(&progress), self.quotas.clone());
        let call = move || set_up(&layout, &locks, quotas.as_ref(), place.as_ref(), order, &progress);
        self.patient.run_watched(key, "set up", seen, call).await
    }

    async fn grow(&self, place: &VolumePlace, source: &str) -> Result<(), VolumeError> {
        checked(place)?;
        let (layout, locks, owned, source) =
            (self.layout.clone(), self.locks.clone(), place.clone(), source.to_owned());
        self.patient.run(place.to_string(), "grow", move || local::grow(&layout, &locks, &owned, &source)).await
    }

    async fn tear_down(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        checked(place)?;
        let (layout, locks, owned) = (self.layout.clone(), self.locks.clone(), place.clone());
        let quotas = self.quotas.clone().filter(|_| place.plugin == plugin::EMPTY_DIR);
        let tear_down = move || {
            tear_down::volume(&layout, &locks, &owned)?;
            if let Some(Err(error)) = quotas.map(|quotas| quotas.forget(&layout.path(&owned))) {
                tracing::warn!(volume = %owned, %error, "the quota of a volume that has gone could not be cleared");
            }
            Ok(())
        };
        self.patient.run(place.to_string(), "tear down", tear_down).await
    }

    async fn prepare_sub_path(&self, order: SubPathOrder) -> Result<String, VolumeError> {
        let layout = self.layout.clone();
        let key = format!("{}/{}/{}/{}", order.uid, order.volume, order.container, order.index);
        let prepare = move || sub_path::prepare(&layout, &order).map_err(|failed| failed.into_error(&order));
        self.patient.run(key, "prepare subPath", prepare).await
    }

    async fn read_file(&self, volume: &str, path: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, VolumeError> {
        let (root, below) = (Path::new(volume).to_path_buf(), path.to_owned());
        let read = move || {
            read_file(&root, &below, bytes_max).map_err(|error| VolumeError::failed("read a file of", &root, error))
        };
        self.patient.run(format!("{volume}/{path}"), "read a file", read).await
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<VolumePlace>, VolumeError> {
        let (layout, uid) = (self.layout.clone(), uid.clone());
        let path = layout.pod_path(&uid);
        self.patient
            .run(format!("{uid} list"), "list", move || {
                tear_down::volumes_of(&layout, &uid)
                    .map_err(|error| VolumeError::failed("list volumes of", &path, error))
            })
            .await
    }

    async fn release(&self, uid: &PodUid) -> Result<(), VolumeError> {
        let (layout, uid) = (self.layout.clone(), uid.clone());
        let path = layout.pod_path(&uid);
        self.patient
            .run(format!("{uid} release"), "release", move || {
                tear_down::release(&layout, &uid).map_err(|error| VolumeError::failed("release", &path, error))
            })
            .await
    }

    async fn attached(&self) -> Result<BTreeSet<String>, VolumeError> {
        let layout = self.layout.clone();
        let look = move || {
            let failed = |error| VolumeError::failed("look for attached volumes below", layout.root(), error);
            let mut names = in_use::attached(layout.root()).map_err(failed)?;
            names.extend(scsi::attached(&layout).map_err(failed)?);
            Ok(names)
        };
        self.patient.run("attached volumes".to_owned(), "look for", look).await
    }

    fn hanging(&self) -> Vec<(String, Moment)> {
        self.patient.hanging()
    }
}

/// Containers made the files below the root: no link is followed, no mount crossed, and nothing but a file opened.
fn read_file(root: &Path, path: &str, bytes_max: usize) -> std::io::Result<Option<Vec<u8>>> {
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let file = match Directory::open(root)?.read_regular(&segments, Mounts::Refuse) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(file) = file else { return Err(std::io::Error::other(format!("{path:?} is no regular file"))) };
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        return Err(std::io::Error::other(format!("{path:?} has more than {bytes_max} bytes")));
    }
    Ok(Some(bytes))
}

/// Names become parts of paths.
fn checked(place: &VolumePlace) -> Result<(), VolumeError> {
    for name in [place.uid.as_str(), &place.plugin, &place.name] {
        segment(name).map_err(|error| VolumeError::Refused(format!("volume {place}: {error}")))?;
    }
    Ok(())
}

fn set_up(
    layout: &Layout,
    locks: &Locks,
    quotas: Option<&ProjectQuotas>,
    place: Option<&VolumePlace>,
    order: SetUp,
    progress: &Progress,
) -> Result<Option<String>, VolumeError> {
    let done = match (order, place) {
        (SetUp::HostPath { path, kind }, _) => host_path::check(&path, kind),
        (SetUp::Nothing, _) | (_, None) => Ok(()),
        (SetUp::EmptyDir { medium, ownership, counted }, Some(place)) => {
            let directory = empty_dir::set_up(layout, place, medium, ownership, progress)?;
            if let Some(quotas) = quotas.filter(|_| counted) {
                count(quotas, &directory, layout, place);
            }
            Ok(())
        }
        (SetUp::Files(order), Some(place)) => write_files(layout, locks, place, &order, progress),
        (SetUp::Local(order), Some(place)) => {
            // The caller has the failure already; what stays is taken down with the pod.
            let undo = || drop(tear_down::volume(layout, locks, place));
            return local::set_up(layout, locks, place, &order, progress, undo);
        }
        (SetUp::Disk(order, ownership), Some(place)) => {
            let undo = || drop(tear_down::volume(layout, locks, place));
            return scsi::set_up(layout, locks, place, &order, ownership, progress, undo);
        }
        (SetUp::Device { source, exclusive }, Some(place)) => device::map(layout, locks, place, &source, exclusive),
        (SetUp::Nfs { source, options }, Some(place)) => nfs::set_up(layout, place, &source, &options),
    };
    done.map(|()| None)
}

/// A directory that is not counted is walked.
fn count(quotas: &ProjectQuotas, directory: &Directory, layout: &Layout, place: &VolumePlace) {
    match quotas.count(directory, &layout.path(place)) {
        Ok(counted) => tracing::debug!(volume = %place, counted, "looked for a quota of a volume"),
        Err(error) => tracing::warn!(volume = %place, %error, "a volume got no quota, and is walked through instead"),
    }
}

fn write_files(
    layout: &Layout,
    locks: &Locks,
    place: &VolumePlace,
    order: &FilesOrder,
    progress: &Progress,
) -> Result<(), VolumeError> {
    let path = layout.path(place);
    let volume = empty_dir::set_up(layout, place, order.medium, order.ownership, progress)?;
    let had_files = atomic_writer::has_files(&volume);
    let written = atomic_writer::make_mount_points(&volume, &order.mount_points)
        .and_then(|()| atomic_writer::write(&volume, &order.payload, order.ownership, order.now, progress));
    drop(volume); // A descriptor in it would keep it from being unmounted.
    written.map(drop).map_err(|error| {
        if !had_files {
            // Nothing half made stays behind.
            let _ = tear_down::volume(layout, locks, place);
        }
        VolumeError::failed("write files of", &path, error)
    })
}

#[cfg(test)]
mod tests;
