//! CSI drivers' volumes as the disk knows them: their directories, the files that name them, who uses them (VOL-41).
//!
//! The trait, and its form on a Linux node. Drivers make and remove mounts; here only directories and files of the agent are
//! made and removed. Nothing that is mounted is touched but the agent's own mappings of devices (`kinds::csi_device`). Keeps
//! nothing: which volumes were staged since the agent began is in `locks`.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::FileType;

use super::kinds::csi_data::{data_below, forget_data, found_below, names_in, read_data, user_of, write_data};
use super::kinds::csi_device;
use super::layout::{DEVICES, Layout, PRIVATE, make_level, open_through, remove_empty};
use super::linux::LinuxVolumeHost;
pub use super::locks::{DeviceHold, DeviceHolds, DeviceState};
use super::mounts::is_mounted;
use super::progress::Progress;
use super::{VolumeError, ownership, sub_path};
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::csi::names::{DevicePlace, GLOBAL_MOUNT, OF_NODE, POD_MOUNT, publish_path};
use crate::logic::volumes::csi::users::VolumeUser;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::{Ownership, VolumePlace, plugin};
use crate::platform::files::safe_path::{Directory, Mounts};

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
    /// Whether a driver's mount, or its device, is there.
    async fn is_pod_mounted(&self, place: &VolumePlace) -> Result<bool, VolumeError>;
    /// The drivers' volumes of all pods. A file that cannot be read costs its own volume alone.
    async fn users(&self) -> Result<Vec<VolumeUser>, VolumeError>;
    /// Gives a volume's files to the pod's group.
    async fn own(&self, place: &VolumePlace, ownership: Ownership, progress: Arc<Progress>) -> Result<(), VolumeError>;
    /// Unmounts parts of the volume that containers mounted.
    async fn clean_parts(&self, place: &VolumePlace) -> Result<(), VolumeError>;
    /// Maps a device that its driver published for a pod (VOL-47): once for the node and the pod, held by a loop device, and
    /// linked in the pod's directory. Gives the device's path.
    async fn map_device(&self, place: &VolumePlace) -> Result<String, VolumeError> {
        Err(VolumeError::Refused(format!("{place}: devices cannot be mapped here")))
    }
    /// Takes the mapping away. The link goes with [`Self::forget_pod`], after the driver unpublished.
    async fn unmap_device(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let _ = place;
        Ok(())
    }
    /// Uses of a volume by pods that have no directory any more, so that nobody else takes them down.
    async fn strays(&self, device: &DevicePlace) -> Result<Vec<VolumePlace>, VolumeError> {
        let _ = device;
        Ok(vec![])
    }
    /// Whether somebody has the staged device open.
    async fn is_device_open(&self, device: &DevicePlace) -> Result<bool, VolumeError> {
        let _ = device;
        Ok(false)
    }
}

/// Where the driver is to publish a volume for a pod. Of a file system it is where containers find it.
pub fn target_path(root: &str, place: &VolumePlace) -> String {
    match place.is_device {
        true => publish_path(root.as_ref(), &place.name, &place.uid).display().to_string(),
        false => pod_mount_path(root, place),
    }
}

/// Where containers find a volume that is a file system.
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
            if let DevicePlace::Block { name } = &device {
                return csi_device::note(layout, name, data.as_ref());
            }
            let folder = layout.make_shared(&device.below_plugins())?;
            make_level(&folder, GLOBAL_MOUNT, PRIVATE)?;
            let there = read_data(&folder).ok().flatten();
            data.map_or(Ok(()), |data| write_data(&folder, &data.beside(there.as_ref())))
        })
        .await
    }

    async fn forget_device(&self, device: &DevicePlace) -> Result<(), VolumeError> {
        let (device, key) = (device.clone(), key_of(device));
        self.csi(key, "remove directory of a staged volume below", move |layout| {
            if let DevicePlace::Block { name } = &device {
                return csi_device::forget(layout, name);
            }
            let below = device.below_plugins();
            let Some(folder) = layout.find_shared(&below)? else { return Ok(()) };
            remove_mount_point(&folder, GLOBAL_MOUNT)?;
            forget_data(&folder)?;
            let above = layout.find_shared(&below[..3])?;
            above.map_or(Ok(false), |above| remove_empty(&above, below[3])).map(drop)
        })
        .await
    }

    async fn devices(&self) -> Result<Vec<(DevicePlace, VolumeData)>, VolumeError> {
        self.csi("staged volumes".to_owned(), "list staged volumes below", devices).await
    }

    async fn note_pod(&self, place: &VolumePlace, data: VolumeData) -> Result<(), VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "make directory of a volume below", move |layout| {
            if place.is_device {
                return csi_device::note_pod(layout, &place, &data);
            }
            let folder = layout.make_parent(&place)?.make_directory(&place.name, PRIVATE)?;
            write_data(&folder, &data)
        })
        .await
    }

    async fn pod_data(&self, place: &VolumePlace) -> Result<Option<VolumeData>, VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "read vol_data.json below", move |layout| match folder_of(layout, &place)? {
            _ if place.is_device => csi_device::data_of(layout, &place.name),
            Some(folder) => read_data(&folder),
            None => Ok(None),
        })
        .await
    }

    async fn forget_pod(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "remove directory of a volume below", move |layout| {
            if place.is_device {
                return csi_device::forget_pod(layout, &place);
            }
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
            if place.is_device {
                return Ok(csi_device::published(layout, &place)?.is_some());
            }
            folder_of(layout, &place)?.map_or(Ok(false), |folder| is_mounted(&folder, POD_MOUNT))
        })
        .await
    }

    async fn users(&self) -> Result<Vec<VolumeUser>, VolumeError> {
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

    async fn map_device(&self, place: &VolumePlace) -> Result<String, VolumeError> {
        let (layout, mapped) = (self.layout.clone(), place.clone());
        let call = move || csi_device::map(&layout, &mapped).map(|device| device.display().to_string());
        self.patient.run(place.to_string(), "map", call).await
    }

    async fn unmap_device(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let place = place.clone();
        self.csi(place.to_string(), "unmap a device below", move |layout| csi_device::unmap(layout, &place)).await
    }

    async fn strays(&self, device: &DevicePlace) -> Result<Vec<VolumePlace>, VolumeError> {
        let DevicePlace::Block { name } = device.clone() else { return Ok(vec![]) };
        self.csi(key_of(device), "look for uses of a device below", move |layout| csi_device::strays(layout, &name))
            .await
    }

    async fn is_device_open(&self, device: &DevicePlace) -> Result<bool, VolumeError> {
        let DevicePlace::Block { name } = device.clone() else { return Ok(false) };
        self.csi(key_of(device), "look at a staged device below", move |layout| csi_device::is_open(layout, &name))
            .await
    }
}

fn key_of(device: &DevicePlace) -> String {
    device.to_string()
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

fn devices(layout: &Layout) -> io::Result<Vec<(DevicePlace, VolumeData)>> {
    let mut found = csi_device::devices(layout)?;
    let Some(all) = layout.find_shared(&OF_NODE)? else { return Ok(found) };
    for (driver, kind) in names_in(&all)? {
        if kind != FileType::Directory || driver == DEVICES {
            continue;
        }
        let Some(below) = found_below(&all, &driver, Mounts::Refuse)? else { continue };
        for (digest, kind) in names_in(&below)? {
            if kind != FileType::Directory {
                continue;
            }
            match data_below(&below, &digest) {
                Ok(Some(data)) => found.push((DevicePlace::FileSystem { driver: driver.clone(), digest }, data)),
                Ok(None) => {}
                Err(error) => tracing::warn!(driver, digest, %error, "a staged volume cannot be told"),
            }
        }
    }
    Ok(found)
}

fn users(layout: &Layout) -> io::Result<Vec<VolumeUser>> {
    let mut found = csi_device::users(layout)?;
    for uid in layout.pods()? {
        let uid = PodUid::from(uid.as_str());
        let Some(volumes) = layout.find(&uid, &["volumes", plugin::CSI])? else { continue };
        for (name, kind) in names_in(&volumes)? {
            if kind != FileType::Directory {
                continue;
            }
            let (read, plugin) = (data_below(&volumes, &name), plugin::CSI.to_owned());
            found.extend(user_of(VolumePlace { uid: uid.clone(), plugin, name, is_device: false }, read));
        }
    }
    Ok(found)
}
