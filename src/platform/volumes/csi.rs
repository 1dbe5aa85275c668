//! CSI drivers' volumes as the disk knows them: their directories, the files that name them, who uses them (VOL-41).
//!
//! The trait, and its form on a Linux node. Drivers make and remove mounts; here only directories and files of the agent are
//! made and removed, and nothing that is mounted is touched. Keeps nothing: which volumes were staged
//! since the agent began is in `locks`.

use std::io::{self, Read, Write};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::FileType;

use super::layout::{DEVICES, Layout, PRIVATE, make_level, open_through, remove_empty};
use super::linux::LinuxVolumeHost;
pub use super::locks::{DeviceHold, DeviceHolds, DeviceState};
use super::mounts::is_mounted;
use super::progress::Progress;
use super::{VolumeError, ownership, sub_path};
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::csi::names::{DATA_FILE, DevicePlace, GLOBAL_MOUNT, OF_NODE, POD_MOUNT};
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::{Ownership, VolumePlace, plugin};
use crate::platform::files::safe_path::{Directory, Mounts};

/// More than that is in no `vol_data.json`.
const DATA_BYTES_MAX: u64 = 64 << 10;
/// The data file before it has its name.
const DATA_NEW: &str = "vol_data.json.new";

/// Drivers' volumes as the disk knows them. Each call is whole: done again it finds what is done.
#[async_trait]
pub trait CsiHost: Send + Sync {
    /// The root directory.
    fn root(&self) -> String;
    /// Waits until nobody else works on a volume of the whole node.
    async fn hold(&self, device: &DevicePlace) -> DeviceHold;
    /// Makes the directory where a volume is staged, and the file beside it, if there is to be one.
    async fn note_device(&self, device: &DevicePlace, data: Option<VolumeData>) -> Result<(), VolumeError>;
    /// Removes both. Fails when something is mounted there.
    async fn forget_device(&self, device: &DevicePlace) -> Result<(), VolumeError>;
    /// The volumes that are staged, or may be, with what their files say.
    async fn devices(&self) -> Result<Vec<(DevicePlace, VolumeData)>, VolumeError>;
    /// Makes a volume's directory in its pod, and its file; the driver makes the mount in it.
    async fn note_pod(&self, place: &VolumePlace, data: VolumeData) -> Result<(), VolumeError>;
    /// The content of the file of a pod's volume; `None` without one.
    async fn pod_data(&self, place: &VolumePlace) -> Result<Option<VolumeData>, VolumeError>;
    /// Removes the directory of a pod's volume, and its file. Fails when something is mounted there.
    async fn forget_pod(&self, place: &VolumePlace) -> Result<(), VolumeError>;
    /// Whether a driver's mount is there.
    async fn is_pod_mounted(&self, place: &VolumePlace) -> Result<bool, VolumeError>;
    /// The drivers' volumes of all pods.
    async fn users(&self) -> Result<Vec<(VolumePlace, VolumeData)>, VolumeError>;
    /// Gives a volume's files to the pod's group.
    async fn own(&self, place: &VolumePlace, ownership: Ownership, progress: Arc<Progress>) -> Result<(), VolumeError>;
    /// Unmounts parts of the volume that containers mounted.
    async fn clean_parts(&self, place: &VolumePlace) -> Result<(), VolumeError>;
}

/// Where containers find the volume.
pub fn pod_mount_path(root: &str, place: &VolumePlace) -> String {
    format!("{root}/pods/{}/volumes/{}/{}/{POD_MOUNT}", place.uid, place.plugin, place.name)
}

impl LinuxVolumeHost {
    async fn csi<T: Send + 'static>(
        &self,
        key: String,
        doing: &'static str,
        call: impl FnOnce(&Layout) -> io::Result<T> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let (layout, path) = (self.layout.clone(), self.layout.root().to_path_buf());
        let call = move || call(&layout).map_err(|error| VolumeError::failed(doing, &path, error));
        self.patient.run(key, doing, call).await
    }
}

#[async_trait]
impl CsiHost for LinuxVolumeHost {
    fn root(&self) -> String {
        self.layout.root().display().to_string()
    }

    async fn hold(&self, device: &DevicePlace) -> DeviceHold {
        self.holds.hold(device).await
    }

    async fn note_device(&self, device: &DevicePlace, data: Option<VolumeData>) -> Result<(), VolumeError> {
        let (device, key) = (device.clone(), key_of(device));
        self.csi(key, "make directory of a staged volume below", move |layout| {
            let folder = layout.make_shared(&device.below_plugins())?;
            make_level(&folder, GLOBAL_MOUNT, PRIVATE)?;
            data.map_or(Ok(()), |data| write_data(&folder, &data))
        })
        .await
    }

    async fn forget_device(&self, device: &DevicePlace) -> Result<(), VolumeError> {
        let (device, key) = (device.clone(), key_of(device));
        self.csi(key, "remove directory of a staged volume below", move |layout| {
            let Some(folder) = layout.find_shared(&device.below_plugins())? else { return Ok(()) };
            remove_mount_point(&folder, GLOBAL_MOUNT)?;
            forget_data(&folder)?;
            let above = layout.find_shared(&device.below_plugins()[..3])?;
            above.map_or(Ok(false), |above| remove_empty(&above, &device.digest)).map(drop)
        })
        .await
    }

    async fn devices(&self) -> Result<Vec<(DevicePlace, VolumeData)>, VolumeError> {
        self.csi("staged volumes".to_owned(), "list staged volumes below", devices).await
    }

    async fn note_pod(&self, place: &VolumePlace, data: VolumeData) -> Result<(), VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "make directory of a volume below", move |layout| {
            let folder = layout.make_parent(&place)?.make_directory(&place.name, PRIVATE)?;
            write_data(&folder, &data)
        })
        .await
    }

    async fn pod_data(&self, place: &VolumePlace) -> Result<Option<VolumeData>, VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "read vol_data.json below", move |layout| match folder_of(layout, &place)? {
            Some(folder) => read_data(&folder),
            None => Ok(None),
        })
        .await
    }

    async fn forget_pod(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "remove directory of a volume below", move |layout| {
            let Some(folder) = folder_of(layout, &place)? else { return Ok(()) };
            remove_mount_point(&folder, POD_MOUNT)?;
            forget_data(&folder)?;
            let Some(parent) = layout.find_parent(&place)? else { return Ok(()) };
            remove_empty(&parent, &place.name)?;
            // The folder of the plugin goes with its last volume; others keep it.
            if let Some(volumes) = layout.find(&place.uid, &["volumes"])? {
                let _ = remove_empty(&volumes, &place.plugin);
            }
            Ok(())
        })
        .await
    }

    async fn is_pod_mounted(&self, place: &VolumePlace) -> Result<bool, VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "look at the mount of a volume below", move |layout| {
            folder_of(layout, &place)?.map_or(Ok(false), |folder| is_mounted(&folder, POD_MOUNT))
        })
        .await
    }

    async fn users(&self) -> Result<Vec<(VolumePlace, VolumeData)>, VolumeError> {
        self.csi("volumes of pods".to_owned(), "list volumes of pods below", users).await
    }

    async fn own(&self, place: &VolumePlace, order: Ownership, progress: Arc<Progress>) -> Result<(), VolumeError> {
        let (layout, owned) = (self.layout.clone(), place.clone());
        let (path, seen) = (self.layout.path(place), Arc::clone(&progress));
        let walk = move || {
            let give = || {
                let folder = folder_of(&layout, &owned)?.ok_or(io::ErrorKind::NotFound)?;
                ownership::apply(&open_through(&folder, POD_MOUNT)?, order, &progress).map(drop)
            };
            give().map_err(|error| VolumeError::failed("change the group of", &path, error))
        };
        self.patient.run_watched(place.to_string(), "change the group of", seen, walk).await
    }

    async fn clean_parts(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "clean subPath mounts below", move |layout| {
            sub_path::clean(layout, &place.uid, &place.name)
        })
        .await
    }
}

fn key_of(device: &DevicePlace) -> String {
    format!("{}/{}", device.driver, device.digest)
}

/// The volume's own folder in its pod, if it is there.
fn folder_of(layout: &Layout, place: &VolumePlace) -> io::Result<Option<Directory>> {
    layout.find(&place.uid, &["volumes", &place.plugin, &place.name])
}

/// Removes an empty directory that a driver left, unless something is mounted on it.
fn remove_mount_point(folder: &Directory, name: &str) -> io::Result<()> {
    if is_mounted(folder, name)? {
        return Err(io::Error::other(format!("{} is still mounted", folder.path().join(name).display())));
    }
    match folder.kind(name)? {
        None => Ok(()),
        Some(FileType::Directory) => remove_empty(folder, name).map(drop),
        Some(_) => Err(io::Error::other(format!("{} is no directory", folder.path().join(name).display()))),
    }
}

fn forget_data(folder: &Directory) -> io::Result<()> {
    folder.remove_file(DATA_NEW)?;
    folder.remove_file(DATA_FILE).map(drop)
}

/// Writes the file, whole or not at all.
fn write_data(folder: &Directory, data: &VolumeData) -> io::Result<()> {
    if read_data(folder).is_ok_and(|found| found.as_ref() == Some(data)) {
        return Ok(());
    }
    folder.remove_file(DATA_NEW)?;
    let mut file = folder.make_file(DATA_NEW, 0o640)?;
    file.write_all(&data.to_json())?;
    file.sync_all()?;
    Ok(rustix::fs::renameat(folder, DATA_NEW, folder, DATA_FILE)?)
}

/// Reads it; `None` where there is none.
fn read_data(folder: &Directory) -> io::Result<Option<VolumeData>> {
    let file = match folder.read_regular(&[DATA_FILE], Mounts::Refuse) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?.ok_or_else(|| io::Error::other(format!("{DATA_FILE} is not a regular file")))?,
    };
    let mut bytes = vec![];
    file.take(DATA_BYTES_MAX).read_to_end(&mut bytes)?;
    let path = folder.path().join(DATA_FILE);
    VolumeData::parse(&bytes).map(Some).map_err(|why| io::Error::other(format!("{}: {why}", path.display())))
}

fn devices(layout: &Layout) -> io::Result<Vec<(DevicePlace, VolumeData)>> {
    let mut found = vec![];
    let Some(all) = layout.find_shared(&OF_NODE)? else { return Ok(found) };
    for (driver, kind) in all.names()? {
        if kind != FileType::Directory || driver == DEVICES {
            continue;
        }
        let below = all.directory(&[&driver], Mounts::Refuse)?;
        for (digest, kind) in below.names()? {
            if kind != FileType::Directory {
                continue;
            }
            match below.directory(&[&digest], Mounts::Refuse).and_then(|folder| read_data(&folder)) {
                Ok(Some(data)) => found.push((DevicePlace { driver: driver.clone(), digest }, data)),
                Ok(None) => {}
                Err(error) => tracing::warn!(driver, digest, %error, "a staged volume cannot be told"),
            }
        }
    }
    Ok(found)
}

fn users(layout: &Layout) -> io::Result<Vec<(VolumePlace, VolumeData)>> {
    let mut found = vec![];
    for uid in layout.pods()? {
        let uid = PodUid::from(uid.as_str());
        let Some(volumes) = layout.find(&uid, &["volumes", plugin::CSI])? else { continue };
        for (name, kind) in volumes.names()? {
            if kind != FileType::Directory {
                continue;
            }
            // One that cannot be read may be of any volume: nothing is unstaged on half knowledge.
            let data = volumes.directory(&[&name], Mounts::Refuse).and_then(|folder| read_data(&folder))?;
            let plugin = plugin::CSI.to_owned();
            let place = VolumePlace { uid: uid.clone(), plugin, name, is_device: false };
            found.extend(data.map(|data| (place, data)));
        }
    }
    Ok(found)
}
