//! Disks of storage networks (VOL-39): attached, mounted once for the node below `plugins`, and bound from there at each
//! pod's place; or mapped for containers as devices. Keeps nothing: who has a disk is read from the disk of the node.
//!
//! Everything is noted before it is done, and a note goes after all that it is about. One lock per disk covers set-up and
//! removal; within it, one per target covers logins and logouts.

mod errors;
mod fc;
mod iscsi;
mod notes;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::device::{Mapped, link_and_map};
use super::format::{Formatted, NotMounted};
use super::local::change_mount;
use crate::logic::volumes::csi::names::DEVICES;
use crate::logic::volumes::mounting::mount_label::{is_same_label, mount_option};
use crate::logic::volumes::order::{Ownership, VolumePlace, plugin};
use crate::logic::volumes::scsi::Disk;
use crate::logic::volumes::scsi::iscsi::RECORD;
use crate::logic::volumes::scsi::orders::DiskOrder;
use crate::platform::files::mount_table;
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::volumes::layout::{Layout, PRIVATE, make_level, open_through, remove_empty};
use crate::platform::volumes::locks::Locks;
use crate::platform::volumes::mounts::{bind, is_mounted, make_read_only, unmount_all};
use crate::platform::volumes::progress::Progress;
use crate::platform::volumes::{VolumeError, ownership};

/// Where a disk is, once for the node.
struct Shared<'a> {
    layout: &'a Layout,
    /// Folders below `plugins`; the last one is the disk's own.
    folders: Vec<String>,
}

impl<'a> Shared<'a> {
    fn of(layout: &'a Layout, disk: &Disk, is_device: bool) -> Self {
        Self { layout, folders: disk.folders(is_device) }
    }

    fn names(&self) -> Vec<&str> {
        self.folders.iter().map(String::as_str).collect()
    }

    /// The name of the disk's own folder.
    fn name(&self) -> &str {
        self.folders.last().map(String::as_str).expect("invariant: a disk has a folder")
    }

    fn path(&self) -> PathBuf {
        self.layout.shared_path(&self.names())
    }

    fn key(&self) -> String {
        self.folders.join("/")
    }

    fn make_parent(&self) -> io::Result<Directory> {
        let names = self.names();
        self.layout.make_shared(&names[..names.len() - 1])
    }

    fn find_parent(&self) -> io::Result<Option<Directory>> {
        let names = self.names();
        self.layout.find_shared(&names[..names.len() - 1])
    }
}

/// Has the volume at its place. Mounted already, it is left as it is, unless an earlier set-up was cut off. A failed set-up
/// that made something calls `undo`, which comes after the locks.
pub(in crate::platform::volumes) fn set_up(
    layout: &Layout,
    locks: &Locks,
    place: &VolumePlace,
    order: &DiskOrder,
    ownership: Ownership,
    progress: &Progress,
    undo: impl FnOnce(),
) -> Result<Option<String>, VolumeError> {
    let shared = Shared::of(layout, &order.disk, place.is_device);
    let key = shared.key();
    let mut work = Work { layout, locks, place, order, ownership, progress, shared, made: false };
    progress.waits();
    let finished = locks.with(&key, || work.have());
    progress.works();
    if finished.is_err() && work.made {
        undo();
    }
    finished.map(|()| None)
}

/// One set-up.
struct Work<'a> {
    layout: &'a Layout,
    locks: &'a Locks,
    place: &'a VolumePlace,
    order: &'a DiskOrder,
    ownership: Ownership,
    progress: &'a Progress,
    shared: Shared<'a>,
    /// Whether something was made that was not there.
    made: bool,
}

impl Work<'_> {
    fn have(&mut self) -> Result<(), VolumeError> {
        self.progress.works();
        let Self { layout, place, order, .. } = *self;
        let path = layout.path(place);
        let failed = |attempt| {
            let path = path.clone();
            move |error: io::Error| VolumeError::failed(attempt, &path, error)
        };
        let parent = layout.make_parent(place).map_err(failed("make directory of"))?;
        let is_noted = notes::noted(layout, place).map_err(failed("read the note about"))?.is_some();
        let is_there = !place.is_device && is_mounted(&parent, &place.name).map_err(failed("look at"))?;
        if is_there && !layout.is_unfinished(place).map_err(failed("look at the note about"))? {
            // Whole; or another agent's, whose pods run, and then it is noted from here on.
            let note = || notes::note(layout, place, &order.disk);
            return if is_noted { Ok(()) } else { note().map_err(failed("make a note about")) };
        }
        if !is_there {
            let users = users(layout, place, &order.disk).map_err(failed("look for others that use"))?;
            if order.exclusive && !users.is_empty() {
                return Err(VolumeError::InUse);
            }
            // A pod with a note may have the disk already: what fails now is not undone then.
            self.made = !is_noted;
            layout.set_unfinished(place).map_err(failed("make a note about"))?;
            notes::note(layout, place, &order.disk).map_err(failed("make a note about"))?;
        }
        if place.is_device {
            self.map()?
        } else {
            self.mount(&parent, is_there)?
        }
        notes_finished(layout, place).map_err(failed("remove the note about"))
    }

    /// Mounts the disk for the node, and from there for the pod.
    fn mount(&self, parent: &Directory, is_there: bool) -> Result<(), VolumeError> {
        let Self { place, order, .. } = *self;
        let (name, path) = (&place.name, self.layout.path(place));
        let failed = |attempt| {
            let path = path.clone();
            move |error: io::Error| VolumeError::failed(attempt, &path, error)
        };
        if !is_there {
            make_level(parent, name, PRIVATE).map_err(failed("make directory"))?;
            let mounted = self.mount_shared()?;
            bind(&mounted, parent, name).map_err(failed("bind mount on"))?;
        }
        change_mount(&path, &order.options)?;
        if order.read_only {
            return make_read_only(parent, name).map_err(failed("make read-only"));
        }
        let given = open_through(parent, name)
            .and_then(|volume| ownership::apply(&volume, self.ownership, self.progress).map(drop));
        given.map_err(failed("change the group of"))
    }

    /// Attaches the disk and mounts it for the node, unless it is mounted.
    fn mount_shared(&self) -> Result<Directory, VolumeError> {
        let Self { shared, order, .. } = self;
        let path = shared.path();
        let failed = |error: io::Error| VolumeError::failed("mount device on", &path, error);
        let parent = shared.make_parent().map_err(failed)?;
        if is_mounted(&parent, shared.name()).map_err(failed)? {
            self.check_label(&path)?;
        } else {
            let device = self.attach(&parent)?;
            let device = device.to_str().ok_or_else(|| failed(io::Error::other("a device's path is no text")))?;
            let label = order.label.as_ref().filter(|label| !label.is_empty()).map(|label| mount_option(label));
            let options: Vec<String> = order.options.iter().cloned().chain(label).collect();
            let (fs_type, read_only, options) = (order.fs_type.as_str(), order.read_only, options.as_slice());
            let wanted = Formatted { device, fs_type, read_only, options };
            wanted.mount(&path).map_err(|NotMounted { why, has_other }| match has_other {
                true => VolumeError::OtherFileSystem(why.to_string()),
                false => VolumeError::Device(why.to_string()),
            })?;
        }
        open_through(&parent, shared.name()).map_err(failed)
    }

    /// Checks that the disk, which is mounted, has the label that the volume is to have, where that matters.
    fn check_label(&self, path: &Path) -> Result<(), VolumeError> {
        let Some(wanted) = &self.order.label else { return Ok(()) };
        let mounts = mount_table::read().map_err(|error| VolumeError::failed("look for the label of", path, error))?;
        let label = mounts.into_iter().rev().find(|mount| mount.point == path).and_then(|mount| mount.label);
        match is_same_label(&label.unwrap_or_default(), wanted) {
            true => Ok(()),
            false => Err(VolumeError::OtherLabel(self.place.name.clone())),
        }
    }

    /// Attaches the disk and maps it for the pod.
    fn map(&self) -> Result<(), VolumeError> {
        let Self { shared, .. } = self;
        let path = shared.path();
        let failed = |error: io::Error| VolumeError::failed("map", &path, error);
        let parent = shared.make_parent().map_err(failed)?;
        // The link is there first, so that the device is found by it; it leads to the device later.
        let pods = self.layout.make_parent(self.place).map_err(failed)?;
        if pods.kind(&self.place.name).map_err(failed)?.is_none() {
            pods.link(&self.place.name, &path).map_err(failed)?;
        }
        let device = self.attach(&parent)?;
        let folder = parent.directory(&[shared.name()], Mounts::Refuse).map_err(failed)?;
        link_and_map(self.layout, self.place, &device, &Mapped { folder: &folder, path: &path, uid: &self.place.uid })
    }

    /// Attaches the disk; gives the device. How that is undone is in the disk's folder before it is done.
    fn attach(&self, parent: &Directory) -> Result<PathBuf, VolumeError> {
        let Self { shared, order, .. } = self;
        let path = shared.path();
        let failed = |error: io::Error| VolumeError::failed("make directory", &path, error);
        make_level(parent, shared.name(), PRIVATE).map_err(failed)?;
        let folder = parent.directory(&[shared.name()], Mounts::Refuse).map_err(failed)?;
        let machine = self.layout.machine();
        self.progress.attaches();
        let attached = match &order.disk {
            Disk::Iscsi(disk) => {
                let record = serde_json::to_vec(disk).map_err(|error| failed(error.into()))?;
                notes::write_whole(&folder, RECORD, &record).map_err(failed)?;
                iscsi::Attaching { machine, disk, chap: &order.chap, progress: self.progress }.run(self.locks)
            }
            Disk::Fc(disk) => fc::find(machine, disk),
        };
        self.progress.works();
        attached.map_err(|error| VolumeError::Attach(error.to_string()))
    }
}

/// The set-up came to its end; the note about the disk stays.
fn notes_finished(layout: &Layout, place: &VolumePlace) -> io::Result<()> {
    let Some(folder) = layout.find(&place.uid, &["plugins", &place.plugin, &place.name])? else { return Ok(()) };
    folder.remove_file(crate::platform::volumes::layout::UNFINISHED).map(drop)
}

/// All else that has the disk: other pods with a note, mounts of the same files for other pods, other pods' devices.
fn users(layout: &Layout, place: &VolumePlace, disk: &Disk) -> io::Result<BTreeSet<String>> {
    let shared = Shared::of(layout, disk, place.is_device);
    let mut found = BTreeSet::new();
    for (uid, other) in notes::all(layout, &place.plugin)? {
        if uid != place.uid && other.folders(place.is_device) == shared.folders {
            found.insert(uid.as_str().to_owned());
        }
    }
    if place.is_device {
        if let Some(folder) = layout.find_shared(&shared.names())? {
            let others = folder.names()?.into_iter().map(|(name, _)| name);
            found.extend(others.filter(|name| name != place.uid.as_str() && !name.starts_with(RECORD)));
        }
        return Ok(found);
    }
    let mounts = mount_table::read()?;
    let Some(own) = mounts.iter().rev().find(|mount| mount.point == shared.path()) else { return Ok(found) };
    let same = mounts.iter().filter(|mount| mount.files == own.files);
    let places = same.filter_map(|mount| layout.place_of(&mount.point)).filter(|other| other.uid != place.uid);
    found.extend(places.map(|other| other.uid.as_str().to_owned()));
    Ok(found)
}

/// Takes a file system from a pod, and detaches its disk when no other pod has it. The pod's own directory stays for the
/// caller.
pub(in crate::platform::volumes) fn unmount(
    layout: &Layout,
    locks: &Locks,
    parent: &Directory,
    place: &VolumePlace,
) -> io::Result<()> {
    let disk = match notes::noted(layout, place)? {
        Some(disk) => Some(disk),
        None => found_mounted(layout, place)?,
    };
    // From here on a failure is known, whoever mounted it.
    if let Some(disk) = &disk {
        notes::note(layout, place, disk)?;
    }
    unmount_all(parent, &place.name)?;
    disk.map_or(Ok(()), |disk| release(layout, locks, place, &disk))
}

/// The disk that another agent mounted for a pod, by where else it is mounted.
fn found_mounted(layout: &Layout, place: &VolumePlace) -> io::Result<Option<Disk>> {
    let (mounts, point) = (mount_table::read()?, layout.path(place));
    let Some(own) = mounts.iter().rev().find(|mount| mount.point == point) else { return Ok(None) };
    let same = mounts.iter().filter(|mount| mount.files == own.files);
    Ok(same.filter_map(|mount| disk_at(layout, &mount.point)).find(|disk| disk.plugin() == place.plugin))
}

/// The disk of a path below `plugins`, by its name.
fn disk_at(layout: &Layout, path: &Path) -> Option<Disk> {
    let below = path.strip_prefix(layout.shared_path(&[])).ok()?;
    let folders: Vec<&str> = below.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
    Disk::of_folders(&folders)
}

/// Takes a device from a pod, and detaches its disk when no other pod has it. The link goes last.
pub(in crate::platform::volumes) fn unmap(layout: &Layout, locks: &Locks, place: &VolumePlace) -> io::Result<()> {
    let Some(parent) = layout.find_parent(place)? else { return Ok(()) };
    match parent.kind(&place.name)? {
        None | Some(FileType::Symlink) => {}
        Some(_) => return Err(io::Error::other("there is something else than a link to a device")),
    }
    let disk = match notes::noted(layout, place)? {
        Some(disk) => Some(disk),
        None => found_mapped(layout, place, parent.link_target(&place.name)?)?,
    };
    if let Some(disk) = disk {
        notes::note(layout, place, &disk)?;
        let shared = Shared::of(layout, &disk, true);
        if let Some(folder) = layout.find_shared(&shared.names())? {
            Mapped { folder: &folder, path: &shared.path(), uid: &place.uid }.detach()?;
        }
        release(layout, locks, place, &disk)?;
    }
    parent.remove_file(&place.name)?;
    layout.set_finished(place)?;
    if let Some(devices) = layout.find(&place.uid, &[DEVICES])? {
        let _ = remove_empty(&devices, &place.plugin); // Other devices keep it.
    }
    Ok(())
}

/// The disk that another agent mapped for a pod: that of the folder where the pod has the device of its link.
fn found_mapped(layout: &Layout, place: &VolumePlace, link: Option<PathBuf>) -> io::Result<Option<Disk>> {
    let device = link.and_then(|link| rustix::fs::stat(&link).ok()).map(|found| found.st_rdev);
    for mount in mount_table::read()? {
        let is_of_pod = mount.point.file_name().is_some_and(|name| name == place.uid.as_str());
        let Some(disk) = mount.point.parent().filter(|_| is_of_pod).and_then(|path| disk_at(layout, path)) else {
            continue;
        };
        let mapped = rustix::fs::stat(&mount.point).map(|found| found.st_rdev);
        if disk.plugin() == place.plugin && device.is_some() && mapped.ok() == device {
            return Ok(Some(disk));
        }
    }
    Ok(None)
}

/// Detaches the disk unless another pod has it.
fn release(layout: &Layout, locks: &Locks, place: &VolumePlace, disk: &Disk) -> io::Result<()> {
    let shared = Shared::of(layout, disk, place.is_device);
    locks.with(&shared.key(), || {
        if !users(layout, place, disk)?.is_empty() {
            return Ok(());
        }
        let Some(parent) = shared.find_parent()? else { return Ok(()) };
        if parent.kind(shared.name())?.is_none() {
            return Ok(());
        }
        let device = device_of(layout, place, &shared)?;
        if !place.is_device {
            unmount_all(&parent, shared.name())?;
        }
        let folder = parent.directory(&[shared.name()], Mounts::Refuse)?;
        let disk = notes::read_whole(&folder, RECORD)?
            .map_or_else(|| disk.clone(), |bytes| iscsi::of_record(&bytes, disk.clone()));
        match device.filter(|device| is_still_mounted(device)) {
            // Its disk would be taken from whoever mounted it.
            Some(device) => tracing::warn!(volume = %place, device, "a disk is mounted elsewhere and stays attached"),
            None => match &disk {
                Disk::Iscsi(disk) => iscsi::detach(layout, locks, disk, &shared.folders)?,
                Disk::Fc(disk) => fc::detach(layout.machine(), disk)?,
            },
        }
        folder.remove_file(RECORD)?;
        drop(folder);
        remove_empty(&parent, shared.name())?;
        remove_interface(&shared)
    })
}

/// The folder of an interface goes with its last disk.
fn remove_interface(shared: &Shared<'_>) -> io::Result<()> {
    let names = shared.names();
    let Some((interface, above)) = names[..names.len() - 1].split_last() else { return Ok(()) };
    let is_interface = interface.starts_with("iface-");
    if let Some(above) = shared.layout.find_shared(above)?.filter(|_| is_interface) {
        let _ = remove_empty(&above, interface); // Other disks keep it.
    }
    Ok(())
}

/// The device that is mounted for the node, or that the pod's link leads to, as the mount table names it.
fn device_of(layout: &Layout, place: &VolumePlace, shared: &Shared<'_>) -> io::Result<Option<String>> {
    if place.is_device {
        let link = layout.find_parent(place)?.map(|parent| parent.link_target(&place.name)).transpose()?.flatten();
        let found = link.and_then(|link| rustix::fs::stat(&link).ok());
        let device = found.filter(|found| FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice);
        let number = |device: rustix::fs::Stat| (rustix::fs::major(device.st_rdev), rustix::fs::minor(device.st_rdev));
        return Ok(device.map(number).map(|(major, minor)| format!("{major}:{minor}")));
    }
    let (mounts, point) = (mount_table::read()?, shared.path());
    Ok(mounts.into_iter().rev().find(|mount| mount.point == point).map(|mount| mount.files.0))
}

/// Whether a device is mounted anywhere. Not knowing it counts as mounted.
fn is_still_mounted(device: &str) -> bool {
    mount_table::read().map_or(true, |mounts| mounts.iter().any(|mount| mount.files.0 == device))
}

/// The folder that a pod's device is mapped in, as noted.
pub(in crate::platform::volumes) fn map_path(layout: &Layout, place: &VolumePlace) -> Option<PathBuf> {
    let disk = notes::noted(layout, place).ok().flatten()?;
    Some(Shared::of(layout, &disk, place.is_device).path())
}

/// The Node's names of the disks that pods have, and of those that are mounted here by whomever.
pub(in crate::platform::volumes) fn attached(layout: &Layout) -> io::Result<BTreeSet<String>> {
    let (mut names, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for plugin in [plugin::ISCSI, plugin::FC] {
        let noted = notes::all(layout, plugin).unwrap_or_else(|error| {
            tracing::warn!(plugin, %error, "not every disk that pods have is known");
            vec![]
        });
        for (_, disk) in noted {
            names.insert(disk.unique_name());
            folders.extend([disk.folders(false), disk.folders(true)]);
        }
    }
    for mount in mount_table::read()? {
        // Of a device the folder holds the mounts.
        let above = mount.point.parent();
        let found = [Some(mount.point.as_path()), above].into_iter().flatten().find_map(|path| disk_at(layout, path));
        let Some(disk) = found else { continue };
        if !folders.contains(&disk.folders(false)) {
            names.insert(disk.unique_name());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
