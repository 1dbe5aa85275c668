//! Takes volumes down (VOL-04, VOL-15, PAIN-15): unmount first, remove after, and never what is behind a mount.

use std::io;

use rustix::fs::FileType;

use super::VolumeError;
use super::layout::{DEVICES, Layout, remove_empty};
use super::locks::Locks;
use super::mounts::unmount_all;
use super::sub_path;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::volumes::kinds::{csi_device, device, local, nfs, scsi};

/// Takes one volume down. Of a volume whose data is not the agent's or the pod's own, only an empty directory is removed.
pub(super) fn volume(layout: &Layout, locks: &Locks, place: &VolumePlace) -> Result<(), VolumeError> {
    let path = layout.path(place);
    let failed = |attempt| {
        let path = path.clone();
        move |error: io::Error| VolumeError::failed(attempt, &path, error)
    };
    if place.is_device && place.is_on_network_disk() {
        return scsi::unmap(layout, locks, place).map_err(failed("unmap"));
    }
    if place.is_device {
        return device::unmap(layout, place).map_err(failed("unmap"));
    }
    sub_path::clean(layout, &place.uid, &place.name).map_err(failed("clean subPath mounts of"))?;
    let Some(parent) = layout.find_parent(place).map_err(failed("look at"))? else { return Ok(()) };
    layout.clear_ready(place).map_err(failed("remove marker of"))?;
    match place.plugin.as_str() {
        _ if place.is_on_network_disk() => scsi::unmount(layout, locks, &parent, place).map_err(failed("unmount"))?,
        plugin::NFS => nfs::unmount(layout, &parent, place).map_err(failed("unmount"))?,
        _ => drop(unmount_all(&parent, &place.name).map_err(failed("unmount"))?),
    }
    if place.holds_own_data() {
        parent.remove_tree(&place.name).map_err(failed("remove directory"))?;
    } else {
        remove_empty(&parent, &place.name).map_err(failed("remove directory"))?;
        layout.set_finished(place).map_err(failed("remove the note about"))?;
    }
    if place.plugin == plugin::LOCAL {
        locks.with(&place.name, || local::release_device(layout, place)).map_err(failed("unmount device of"))?;
    }
    // The folder of the plugin goes with its last volume; others keep it.
    if let Some(volumes) = layout.find(&place.uid, &["volumes"]).map_err(failed("look at"))? {
        let _ = remove_empty(&volumes, &place.plugin);
    }
    Ok(())
}

/// The volumes and devices of a pod on the disk.
pub(super) fn volumes_of(layout: &Layout, uid: &PodUid) -> io::Result<Vec<VolumePlace>> {
    let mut found = places_in(layout, uid, false)?;
    found.extend(places_in(layout, uid, true)?);
    let left = csi_device::left_of(layout, uid)?;
    found.extend(left.into_iter().filter(|place| !found.contains(place)).collect::<Vec<_>>());
    Ok(found)
}

fn places_in(layout: &Layout, uid: &PodUid, is_device: bool) -> io::Result<Vec<VolumePlace>> {
    let folder = if is_device { DEVICES } else { "volumes" };
    let Some(volumes) = layout.find(uid, &[folder])? else { return Ok(vec![]) };
    let mut found = Vec::new();
    for (plugin, kind) in volumes.names()? {
        if kind != FileType::Directory {
            continue;
        }
        for (name, _) in volumes.directory(&[&plugin], Mounts::Refuse)?.names()? {
            found.push(VolumePlace { uid: uid.clone(), plugin: plugin.clone(), name, is_device });
        }
    }
    Ok(found)
}

/// Removes what is left when all volumes are gone: parts of volumes without a directory of their own, then empty folders.
pub(super) fn release(layout: &Layout, uid: &PodUid) -> io::Result<()> {
    sub_path::clean_all(layout, uid)?;
    let left = volumes_of(layout, uid)?;
    if let Some(place) = left.first() {
        return Err(io::Error::other(format!("volume {place} is still there")));
    }
    let Some(pod) = layout.find(uid, &[])? else { return Ok(()) };
    for folder in ["volumes", DEVICES] {
        let Some(volumes) = layout.find(uid, &[folder])? else { continue };
        for (plugin, kind) in volumes.names()? {
            if kind == FileType::Directory {
                remove_plugin(&volumes, &plugin)?;
            }
        }
    }
    remove_empty(&pod, DEVICES)?;
    if let Some(notes) = layout.find(uid, &["plugins"])? {
        for (plugin, _) in notes.names()? {
            let _ = remove_empty(&notes, &plugin); // A thing in the way is removed, or told of, with all.
        }
    }
    pod.remove_tree("plugins")
}

fn remove_plugin(volumes: &Directory, plugin: &str) -> io::Result<()> {
    remove_empty(volumes, plugin).map(drop)
}
