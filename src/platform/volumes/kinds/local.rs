//! Local persistent volumes (VOL-10, VOL-37, VOL-46): a directory of the host, or the file system on one of its block devices.
//!
//! A device is mounted once for the node, below `plugins`, and from there at each pod's place. Keeps nothing: who else has
//! a volume is read from the disk and the mount table, where it outlives the agent; so does the note about a set-up that has
//! not come to its end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::FileType;

use crate::logic::volumes::order::{LocalOrder, VolumePlace, plugin};
use crate::platform::files::mount_table;
use crate::platform::files::safe_path::Directory;
use crate::platform::volumes::kinds::format::{self, Formatted, NotMounted};
use crate::platform::volumes::layout::{Layout, PRIVATE, make_level, open_path, open_through, remove_empty};
use crate::platform::volumes::locks::Locks;
use crate::platform::volumes::mounts::{bind, is_mounted, make_read_only, unmount_all};
use crate::platform::volumes::programs;
use crate::platform::volumes::progress::Progress;
use crate::platform::volumes::{VolumeError, ownership};

/// Where devices are mounted once for all pods, below `plugins`.
const SHARED: [&str; 3] = ["kubernetes.io", "local-volume", "mounts"];

/// Has the volume at its place. Mounted already, it is left as it is, unless an earlier set-up was cut off between its steps:
/// then those after the mount are done again. Gives a warning about its group, if one is due.
/// A failed set-up that made something calls `undo`.
pub(in crate::platform::volumes) fn set_up(
    layout: &Layout,
    locks: &Locks,
    place: &VolumePlace,
    order: &LocalOrder,
    progress: &Progress,
    undo: impl FnOnce(),
) -> Result<Option<String>, VolumeError> {
    let source = Source::open(&order.source)?;
    let path = layout.path(place);
    let parent = layout.make_parent(place).map_err(|error| VolumeError::failed("make directory of", &path, error))?;
    let mut work = Work { layout, parent, place, order, progress, made: false };
    // By name for whoever unmounts the device; by what is behind it, because volumes may share a path. Always in this order.
    progress.waits();
    let key = source.key.clone();
    let finished = locks.with(&place.name, || locks.with(&key, || work.have(source)));
    progress.works();
    if finished.is_err() && work.made {
        undo();
    }
    finished
}

/// One set-up.
struct Work<'a> {
    layout: &'a Layout,
    parent: Directory,
    place: &'a VolumePlace,
    order: &'a LocalOrder,
    progress: &'a Progress,
    /// Whether something was made that was not there.
    made: bool,
}

impl Work<'_> {
    fn have(&mut self, source: Source) -> Result<Option<String>, VolumeError> {
        self.progress.works();
        let Self { layout, place, order, .. } = *self;
        let (name, path) = (&place.name, layout.path(place));
        let failed = |attempt| {
            let path = path.clone();
            move |error: io::Error| VolumeError::failed(attempt, &path, error)
        };
        if is_mounted(&self.parent, name).map_err(failed("look at"))? {
            if !layout.is_unfinished(place).map_err(failed("look at the note about"))? {
                return Ok(None); // Whole; or another agent's, whose pods run.
            }
        } else {
            let others = layout.other_pods(place).map_err(failed("look for others that use"))?;
            if order.exclusive && !others.is_empty() {
                return Err(VolumeError::InUse);
            }
            layout.set_unfinished(place).map_err(failed("make a note about"))?;
            // From here on other pods see that this one has the volume.
            self.made = true;
            make_level(&self.parent, name, PRIVATE).map_err(failed("make directory"))?;
            let opened = source.mounted(layout, name, order)?;
            bind(&opened, &self.parent, name).map_err(failed("bind mount on"))?;
        }
        change_mount(&path, &order.options)?;
        let warning = match order.read_only {
            true => make_read_only(&self.parent, name).map(|()| None).map_err(failed("make read-only"))?,
            false => self.give_to_group().map_err(failed("change the group of"))?,
        };
        layout.set_finished(place).map_err(failed("remove the note about"))?;
        Ok(warning)
    }

    /// Files that others use already keep their group.
    fn give_to_group(&self) -> io::Result<Option<String>> {
        let (name, ownership) = (&self.place.name, self.order.ownership);
        let volume = open_through(&self.parent, name)?;
        if !self.is_used_by_others()? {
            ownership::apply(&volume, ownership, self.progress)?;
            return Ok(None);
        }
        let group = rustix::fs::fstat(&volume)?.st_gid;
        let wanted = ownership.fs_group.filter(|wanted| *wanted != group);
        Ok(wanted.map(|wanted| {
            format!(
                "The requested fsGroup is {wanted}, but the volume {name} has GID {group}. The volume may not be shareable."
            )
        }))
    }

    /// Whether other pods have the same files, by whichever volume. Those whose own set-up was cut off have not got them yet.
    fn is_used_by_others(&self) -> io::Result<bool> {
        let point = self.parent.real_path()?.join(&self.place.name);
        let mounts = mount_table::read()?;
        let Some(own) = mounts.iter().rev().find(|mount| mount.point == point) else { return Ok(false) };
        for mount in mounts.iter().filter(|mount| mount.files == own.files) {
            let other = self.layout.place_of(&mount.point);
            let other = other.filter(|other| other.plugin == plugin::LOCAL && other.uid != self.place.uid);
            if let Some(other) = other
                && !self.layout.is_unfinished(&other)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Options of a bind mount are set in a second step.
pub(super) fn change_mount(path: &Path, options: &[String]) -> Result<(), VolumeError> {
    if options.is_empty() {
        return Ok(());
    }
    let words: Vec<&str> = ["bind", "remount"].into_iter().chain(options.iter().map(String::as_str)).collect();
    programs::mount("", &words, "", path).map_err(|error| VolumeError::Refused(error.to_string()))
}

/// The target of a local volume's path.
struct Source {
    opened: OwnedFd,
    is_device: bool,
    /// The same for every path that leads there.
    key: String,
}

impl Source {
    fn open(path: &str) -> Result<Self, VolumeError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => VolumeError::Source(format!("path {path:?} does not exist")),
            _ => VolumeError::Source(format!("stat {path}: {error}")),
        };
        let opened = open_path(Path::new(path)).map_err(failed)?;
        let found = rustix::fs::fstat(&opened).map_err(|errno| failed(errno.into()))?;
        let (is_device, key) = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => (false, format!("directory {}:{}", found.st_dev, found.st_ino)),
            FileType::BlockDevice => (true, format!("device {}", found.st_rdev)),
            _ => return Err(VolumeError::Source("only directory and block device are supported".to_owned())),
        };
        Ok(Self { opened, is_device, key })
    }

    /// The directory that is to be seen at the pod's place.
    fn mounted(self, layout: &Layout, name: &str, order: &LocalOrder) -> Result<OwnedFd, VolumeError> {
        if self.is_device { mount_device(layout, name, order) } else { Ok(self.opened) }
    }
}

/// Mounts the device for the node, unless it is mounted.
fn mount_device(layout: &Layout, name: &str, order: &LocalOrder) -> Result<OwnedFd, VolumeError> {
    let path = layout.shared_path(&SHARED).join(name);
    let failed = |error: io::Error| VolumeError::failed("mount device on", &path, error);
    let shared = layout.make_shared(&SHARED).map_err(failed)?;
    make_level(&shared, name, PRIVATE).map_err(failed)?;
    if !is_mounted(&shared, name).map_err(failed)? {
        let wanted = Formatted {
            device: &order.source,
            fs_type: &order.fs_type,
            read_only: order.read_only,
            options: &order.options,
        };
        wanted.mount(&path).map_err(|NotMounted { why, has_other }| {
            let _ = remove_empty(&shared, name);
            let (source, fs_type, path) = (&order.source, &order.fs_type, path.display());
            let text = format!("local: failed to mount device {source} at {path} (fstype: {fs_type}), error {why}");
            if has_other { VolumeError::OtherFileSystem(text) } else { VolumeError::Device(text) }
        })?;
    }
    let opened = open_through(&shared, name).map_err(failed)?;
    rustix::io::fcntl_dupfd_cloexec(&opened, 0).map_err(|errno| failed(errno.into()))
}

/// Makes the file system of the volume's device as large as the device, which its administrator made larger. A directory has
/// the room of the file system that it is in.
pub(in crate::platform::volumes) fn grow(
    layout: &Layout,
    locks: &Locks,
    place: &VolumePlace,
    source: &str,
) -> Result<(), VolumeError> {
    if !Source::open(source)?.is_device {
        return Ok(());
    }
    let target = layout.shared_path(&SHARED).join(&place.name);
    let grown = locks.with(&place.name, || format::grow(source, &target));
    grown.map_err(|why| VolumeError::Device(why.to_string()))
}

/// Unmounts the device, if there is one and no pod has the volume any more. Only under the volume's lock.
pub(in crate::platform::volumes) fn release_device(layout: &Layout, place: &VolumePlace) -> io::Result<()> {
    let Some(shared) = layout.find_shared(&SHARED)? else { return Ok(()) };
    if shared.kind(&place.name)?.is_none() || !layout.other_pods(place)?.is_empty() {
        return Ok(());
    }
    unmount_all(&shared, &place.name)?;
    remove_empty(&shared, &place.name).map(drop)
}

#[cfg(test)]
mod tests;
