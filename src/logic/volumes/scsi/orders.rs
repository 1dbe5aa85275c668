//! Orders for iscsi and fc volumes (VOL-39), out of pods and persistent volumes.

use k8s_openapi::api::core::v1::{FCVolumeSource, ISCSIVolumeSource, PersistentVolume};

use super::fc::FcDisk;
use super::iscsi::IscsiDisk;
use super::{ChapTexts, Disk, DiskError};

/// The file system of a disk that has none and whose volume names none.
const FS_TYPE: &str = "ext4";

/// A disk to be attached, and mounted or mapped for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOrder {
    /// The disk.
    pub disk: Disk,
    /// The file system that is made on a disk without one, and that it is mounted as.
    pub fs_type: String,
    /// Whether nobody may write.
    pub read_only: bool,
    /// Of the mount, as the persistent volume says.
    pub options: Vec<String>,
    /// Whether one pod at a time may have it (VOL-10).
    pub exclusive: bool,
    /// The label that it is mounted with, where SELinux decides (VOL-31); empty for none. `None` where it does not matter.
    pub label: Option<String>,
    /// The namespace and name of the Secret for CHAP, where one is wanted.
    pub secret: Option<(String, String)>,
    /// The content of that Secret.
    pub chap: ChapTexts,
}

/// The pod of a volume, as far as it matters for its disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskUser<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Whether it may only read.
    pub read_only: bool,
}

impl DiskUser<'_> {
    fn order(self, disk: Disk, fs_type: Option<&String>, secret: Option<(String, String)>) -> DiskOrder {
        let fs_type = fs_type.filter(|text| !text.is_empty()).cloned().unwrap_or_else(|| FS_TYPE.to_owned());
        let (options, exclusive, label, chap) = (vec![], false, None, ChapTexts::default());
        DiskOrder { disk, fs_type, read_only: self.read_only, options, exclusive, label, secret, chap }
    }
}

/// The order for an iscsi volume that the pod brings along. `name` is its name in the pod.
///
/// # Errors
/// It cannot be attached.
pub fn of_iscsi(source: &ISCSIVolumeSource, name: &str, user: DiskUser<'_>) -> Result<DiskOrder, DiskError> {
    let disk = IscsiDisk::of_pod(source, name);
    let secret = source.secret_ref.as_ref().filter(|_| disk.needs_secret());
    let secret = secret.map(|secret| (user.namespace.to_owned(), secret.name.clone()));
    Disk::Iscsi(disk).checked().map(|disk| user.order(disk, source.fs_type.as_ref(), secret))
}

/// The order for an fc volume that the pod brings along.
///
/// # Errors
/// It cannot be attached.
pub fn of_fc(source: &FCVolumeSource, user: DiskUser<'_>) -> Result<DiskOrder, DiskError> {
    let disk = FcDisk::of_source(source).and_then(|disk| Disk::Fc(disk).checked());
    disk.map(|disk| user.order(disk, source.fs_type.as_ref(), None))
}

/// The order for a persistent volume, but for its options; `None` for one of another kind.
pub fn of_volume(volume: &PersistentVolume, user: DiskUser<'_>) -> Option<Result<DiskOrder, DiskError>> {
    let spec = volume.spec.as_ref()?;
    if let Some(source) = &spec.iscsi {
        let disk = IscsiDisk::of_volume(source, volume.metadata.name.as_deref().unwrap_or_default());
        let secret = source.secret_ref.as_ref().filter(|_| disk.needs_secret()).map(|secret| {
            let of_secret = secret.namespace.as_deref().filter(|text| !text.is_empty()).unwrap_or(user.namespace);
            (of_secret.to_owned(), secret.name.clone().unwrap_or_default())
        });
        return Some(Disk::Iscsi(disk).checked().map(|disk| user.order(disk, source.fs_type.as_ref(), secret)));
    }
    spec.fc.as_ref().map(|source| of_fc(source, user))
}

#[cfg(test)]
mod tests;
