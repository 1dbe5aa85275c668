//! Block volumes of CSI drivers on the disk (VOL-47): where a driver stages and publishes a device, where it is mapped for
//! pods, and the file that names it.
//!
//! As upstream, below `plugins/kubernetes.io/csi/volumeDevices`: `<volume>/data/vol_data.json`, the driver's own
//! `staging/<volume>` and `publish/<volume>/<uid>`, and the bind mount `<volume>/dev/<uid>` with a loop device on it. The pod has
//! the link `pods/<uid>/volumeDevices/kubernetes.io~csi/<volume>`, which is made before the driver publishes and removed last.
//! An agent that ended in between may have left any part of it; each is found. Keeps nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::csi_data::{self, forget_data, read_data, user_of, write_data};
use super::device::Mapped;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::csi::names::{
    BLOCK_DATA, BLOCK_MAP, DEVICES, DevicePlace, OF_NODE, PUBLISH, STAGING, block_map_path, publish_path,
};
use crate::logic::volumes::csi::users::VolumeUser;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::volumes::VolumeError;
use crate::platform::volumes::layout::{Layout, remove_empty};
use crate::platform::volumes::mounts::is_mounted;

/// The folder of all devices.
const ALL: [&str; 3] = [OF_NODE[0], OF_NODE[1], DEVICES];

fn below<'a>(names: &[&'a str]) -> Vec<&'a str> {
    ALL.iter().copied().chain(names.iter().copied()).collect()
}

fn place_of(uid: &str, name: &str) -> VolumePlace {
    VolumePlace { uid: PodUid::from(uid), plugin: plugin::CSI.to_owned(), name: name.to_owned(), is_device: true }
}

/// Writes the file that names a volume.
fn note_data(layout: &Layout, name: &str, data: &VolumeData) -> io::Result<()> {
    write_data(&layout.make_shared(&below(&[name, BLOCK_DATA]))?, data)
}

/// Makes the directory where the driver stages, and the file, if there is to be one.
pub(in crate::platform::volumes) fn note(layout: &Layout, name: &str, data: Option<&VolumeData>) -> io::Result<()> {
    data.map_or(Ok(()), |data| note_data(layout, name, data))?;
    layout.make_shared(&below(&[STAGING, name])).map(drop)
}

/// Notes that a pod is given the device: from here on the disk shows it, whatever becomes of the agent.
pub(in crate::platform::volumes) fn note_pod(
    layout: &Layout,
    place: &VolumePlace,
    data: &VolumeData,
) -> io::Result<()> {
    note_data(layout, &place.name, data)?;
    layout.make_shared(&below(&[PUBLISH, &place.name]))?;
    layout.make_parent(place)?.link(&place.name, &publish_path(layout.root(), &place.name, &place.uid))
}

/// The file's content; `None` without one.
pub(in crate::platform::volumes) fn data_of(layout: &Layout, name: &str) -> io::Result<Option<VolumeData>> {
    layout.find_shared(&below(&[name, BLOCK_DATA]))?.map_or(Ok(None), |folder| read_data(&folder))
}

/// The names of folders directly below one of those of devices.
fn names_in(layout: &Layout, folder: &[&str]) -> io::Result<Vec<String>> {
    let Some(found) = layout.find_shared(&below(folder))? else { return Ok(vec![]) };
    let names = csi_data::names_in(&found)?.into_iter().filter(|(_, kind)| *kind == FileType::Directory);
    Ok(names.map(|(name, _)| name).collect())
}

/// The UIDs of pods that a folder of a volume has something for.
fn uids_in(layout: &Layout, folder: &[&str]) -> io::Result<Vec<String>> {
    let found = layout.find_shared(&below(folder))?;
    let names = found.map_or(Ok(vec![]), |folder| csi_data::names_in(&folder))?;
    Ok(names.into_iter().map(|(uid, _)| uid).collect())
}

/// Volumes that are staged, or may be.
pub(in crate::platform::volumes) fn devices(layout: &Layout) -> io::Result<Vec<(DevicePlace, VolumeData)>> {
    let mut found = vec![];
    for name in names_in(layout, &[])? {
        match data_of(layout, &name) {
            Ok(Some(data)) => found.push((DevicePlace::Block { name }, data)),
            Ok(None) => {} // One of the drivers' own folders, or nothing was asked of a driver yet.
            Err(error) => tracing::warn!(volume = name, %error, "a staged device cannot be told"),
        }
    }
    Ok(found)
}

/// The pods that the disk shows something of a volume for, by name; those of which nothing else is left are among them.
fn pods_of(layout: &Layout, name: &str) -> io::Result<BTreeSet<String>> {
    let published = uids_in(layout, &[PUBLISH, name])?;
    Ok(published.into_iter().chain(uids_in(layout, &[name, BLOCK_MAP])?).collect())
}

/// The pods that have a device of a driver.
pub(in crate::platform::volumes) fn users(layout: &Layout) -> io::Result<Vec<VolumeUser>> {
    let mut places = BTreeSet::new();
    let pods: BTreeSet<String> = layout.pods()?.into_iter().collect();
    for uid in &pods {
        let links = layout.find(&PodUid::from(uid.as_str()), &[DEVICES, plugin::CSI])?;
        for (name, _) in links.map_or(Ok(vec![]), |links| csi_data::names_in(&links))? {
            places.insert(place_of(uid, &name));
        }
    }
    for name in names_in(layout, &[PUBLISH])? {
        let uids = pods_of(layout, &name)?.into_iter().filter(|uid| pods.contains(uid));
        places.extend(uids.map(|uid| place_of(&uid, &name)));
    }
    let mut found = vec![];
    for place in places {
        let read = data_of(layout, &place.name);
        found.extend(user_of(place, read));
    }
    Ok(found)
}

/// The devices that a pod has beside its own links: an agent may have ended after the links went.
pub(in crate::platform::volumes) fn left_of(layout: &Layout, uid: &PodUid) -> io::Result<Vec<VolumePlace>> {
    let mut found = vec![];
    for name in names_in(layout, &[PUBLISH])? {
        if pods_of(layout, &name)?.contains(uid.as_str()) {
            found.push(place_of(uid.as_str(), &name));
        }
    }
    Ok(found)
}

/// The uses of a volume by pods that have no directory any more: nobody else takes them down.
pub(in crate::platform::volumes) fn strays(layout: &Layout, name: &str) -> io::Result<Vec<VolumePlace>> {
    let pods: BTreeSet<String> = layout.pods()?.into_iter().collect();
    let gone = pods_of(layout, name)?.into_iter().filter(|uid| !pods.contains(uid));
    Ok(gone.map(|uid| place_of(&uid, name)).collect())
}

/// Removes what is there of a volume for the node. Fails, and removes nothing, while a pod has it or something is mounted.
pub(in crate::platform::volumes) fn forget(layout: &Layout, name: &str) -> io::Result<()> {
    let Some(all) = layout.find_shared(&ALL)? else { return Ok(()) };
    if let Some(uid) = pods_of(layout, name)?.first() {
        let path = publish_path(layout.root(), name, &PodUid::from(uid.as_str()));
        return Err(io::Error::other(format!("{} is still there", path.display())));
    }
    if let Some(staging) = layout.find_shared(&below(&[STAGING]))? {
        staging.remove_tree(name)?;
    }
    if let Some(published) = layout.find_shared(&below(&[PUBLISH]))? {
        remove_empty(&published, name)?;
    }
    let Some(folder) = layout.find_shared(&below(&[name]))? else { return Ok(()) };
    remove_empty(&folder, BLOCK_MAP)?;
    if let Some(data) = layout.find_shared(&below(&[name, BLOCK_DATA]))? {
        forget_data(&data)?;
    }
    remove_empty(&folder, BLOCK_DATA)?;
    let _ = remove_empty(&all, name); // A driver's own folder of this name keeps it.
    Ok(())
}

/// Removes what is there of a volume for a pod, the link last. Fails while something is mounted.
pub(in crate::platform::volumes) fn forget_pod(layout: &Layout, place: &VolumePlace) -> io::Result<()> {
    let uid = place.uid.as_str();
    if let Some(published) = layout.find_shared(&below(&[PUBLISH, &place.name]))? {
        if is_mounted(&published, uid)? {
            return Err(io::Error::other(format!("{} is still mounted", published.path().join(uid).display())));
        }
        // Drivers are to remove it, and some do not.
        match published.kind(uid)? {
            None => {}
            Some(FileType::Directory) => drop(remove_empty(&published, uid)?),
            Some(_) => drop(published.remove_file(uid)?),
        }
    }
    let Some(parent) = layout.find_parent(place)? else { return Ok(()) };
    match parent.kind(&place.name)? {
        None => {}
        Some(FileType::Symlink) => drop(parent.remove_file(&place.name)?),
        Some(_) => return Err(io::Error::other("there is something else than a link to a device")),
    }
    if let Some(devices) = layout.find(&place.uid, &[DEVICES])? {
        let _ = remove_empty(&devices, &place.plugin); // Other devices keep it.
    }
    Ok(())
}

/// The device that a driver published for a pod; `None` where there is none.
pub(in crate::platform::volumes) fn published(layout: &Layout, place: &VolumePlace) -> io::Result<Option<PathBuf>> {
    let device = match fs::canonicalize(publish_path(layout.root(), &place.name, &place.uid)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let found = rustix::fs::stat(&device)?;
    Ok((FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice).then_some(device))
}

/// Maps the published device for the pod. Mapped already, it is left as it is. Gives the device's path.
pub(in crate::platform::volumes) fn map(layout: &Layout, place: &VolumePlace) -> Result<PathBuf, VolumeError> {
    let target = publish_path(layout.root(), &place.name, &place.uid);
    let failed = |error: io::Error| VolumeError::failed("map", &target, error);
    let none = || VolumeError::Refused(format!("{} is not a block device", target.display()));
    let device = published(layout, place).map_err(failed)?.ok_or_else(none)?;
    let opened = rustix::fs::open(&device, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map_err(|errno| failed(errno.into()))?;
    layout.make_parent(place).and_then(|parent| parent.link(&place.name, &device)).map_err(failed)?;
    let shared = layout.make_shared(&below(&[&place.name, BLOCK_MAP])).map_err(failed)?;
    let path = block_map_path(layout.root(), &place.name);
    Mapped { folder: &shared, path: &path, uid: &place.uid }.attach(&opened, &device)?;
    Ok(device)
}

/// Takes the mapping away; what is not there any more is passed over. The link stays until the driver unpublished.
pub(in crate::platform::volumes) fn unmap(layout: &Layout, place: &VolumePlace) -> io::Result<()> {
    let Some(shared) = layout.find_shared(&below(&[&place.name, BLOCK_MAP]))? else { return Ok(()) };
    let path = block_map_path(layout.root(), &place.name);
    Mapped { folder: &shared, path: &path, uid: &place.uid }.detach()
}

/// Whether somebody has the device open to the exclusion of others, as far as it is seen where the driver staged it.
pub(in crate::platform::volumes) fn is_open(layout: &Layout, name: &str) -> io::Result<bool> {
    let Some(staging) = layout.find_shared(&below(&[STAGING]))? else { return Ok(false) };
    let staged: Directory = match staging.directory(&[name], Mounts::Cross) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let devices = staged.names()?.into_iter().filter(|(_, kind)| *kind == FileType::BlockDevice);
    for (device, _) in devices {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&staged, &*device, flags, Mode::empty()) {
            Err(Errno::BUSY) => return Ok(true),
            // Without a medium or a driver behind it nobody can have it open.
            Ok(_) | Err(Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM | Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
