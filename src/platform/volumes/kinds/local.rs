//! Local persistent volumes (VOL-10, VOL-37): a directory of the host, or the file system on one of its block devices.
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
use crate::platform::volumes::layout::{Layout, PRIVATE, make_level, open_path, open_through, remove_empty};
use crate::platform::volumes::locks::Locks;
use crate::platform::volumes::mounts::{bind, is_mounted, make_read_only, unmount_all};
use crate::platform::volumes::programs::{self, End, MountError, run};
use crate::platform::volumes::progress::Progress;
use crate::platform::volumes::{VolumeError, ownership};

/// Where devices are mounted once for all pods, below `plugins`.
const SHARED: [&str; 3] = ["kubernetes.io", "local-volume", "mounts"];
/// The end of `blkid` for a device that holds nothing it knows.
const UNFORMATTED: End = End::Code(2);
/// The end of `fsck` when it found faults that it could not repair.
const NOT_REPAIRED: End = End::Code(4);

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
fn change_mount(path: &Path, options: &[String]) -> Result<(), VolumeError> {
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
        format_and_mount(order, &path).map_err(|NotMounted { why, has_other }| {
            let _ = remove_empty(&shared, name);
            let (source, fs_type, path) = (&order.source, &order.fs_type, path.display());
            let text = format!("local: failed to mount device {source} at {path} (fstype: {fs_type}), error {why}");
            if has_other { VolumeError::OtherFileSystem(text) } else { VolumeError::Device(text) }
        })?;
    }
    let opened = open_through(&shared, name).map_err(failed)?;
    rustix::io::fcntl_dupfd_cloexec(&opened, 0).map_err(|errno| failed(errno.into()))
}

/// Why a device was not mounted; most texts are upstream's.
#[derive(Debug, thiserror::Error)]
enum DeviceError {
    #[error("{0:?} is no name of a file system")]
    NoName(String),
    #[error("cannot mount unformatted disk {0} as we are manipulating it in read-only mode")]
    Unformatted(String),
    #[error("failed to get disk format of disk {device}: {end}: {output}")]
    Look { device: String, end: End, output: String },
    #[error("format of disk {device:?} failed: type:({kind:?}) errcode:({end}) output:({output})")]
    Format { device: String, kind: String, end: End, output: String },
    #[error("'fsck' found errors on device {device} but could not correct them: {output}.")]
    Broken { device: String, output: String },
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// A device that was not mounted.
struct NotMounted {
    why: DeviceError,
    /// Whether it was tried although the device holds something else than it is to hold.
    has_other: bool,
}

impl From<DeviceError> for NotMounted {
    fn from(why: DeviceError) -> Self {
        Self { why, has_other: false }
    }
}

/// Makes a file system on a device that holds nothing, looks over one that has something, and mounts it.
fn format_and_mount(order: &LocalOrder, target: &Path) -> Result<(), NotMounted> {
    let (device, wanted) = (order.source.as_str(), order.fs_type.as_str());
    if !wanted.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(DeviceError::NoName(wanted.to_owned()).into());
    }
    // However it is said that nothing is to be written, nothing is made or mended.
    let read_only = order.read_only || order.options.iter().any(|option| option == "ro");
    let held = held_by(device)?;
    match &held {
        None if read_only => return Err(DeviceError::Unformatted(device.to_owned()).into()),
        None => make_file_system(device, wanted)?,
        Some(_) if !read_only => check_file_system(device)?,
        Some(_) => {}
    }
    let has_other = held.is_some_and(|held| held != wanted);
    if has_other {
        tracing::warn!(
            device,
            wanted,
            "the disk holds something else than the file system that it is to be mounted as"
        );
    }
    let mut options: Vec<&str> = order.options.iter().map(String::as_str).collect();
    options.extend(order.read_only.then_some("ro"));
    options.push("defaults");
    programs::mount(wanted, &options, device, target).map_err(|why| NotMounted { why: why.into(), has_other })
}

/// The content of a device: `None` for nothing. A partition table is something, and no name of a file system.
fn held_by(device: &str) -> Result<Option<String>, DeviceError> {
    let found = run("blkid", &["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device], None);
    if found.end == UNFORMATTED {
        return Ok(None);
    }
    if !found.is_ok() {
        let (device, output) = (device.to_owned(), found.output.trim().to_owned());
        return Err(DeviceError::Look { device, end: found.end, output });
    }
    let named = |name: &str| found.output.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
    Ok(match (named("PTTYPE="), named("TYPE=")) {
        (Some(table), _) => Some(format!("partition table {table}")),
        (None, kind) => kind.filter(|kind| !kind.is_empty()),
    })
}

fn make_file_system(device: &str, kind: &str) -> Result<(), DeviceError> {
    let options: &[&str] = match kind {
        "ext3" | "ext4" => &["-F", "-m0"],
        "xfs" => &["-f"],
        _ => &[],
    };
    tracing::info!(device, kind, "making a file system on a disk that has none");
    let made = run(&format!("mkfs.{kind}"), &[options, &[device]].concat(), None);
    if made.is_ok() {
        return Ok(());
    }
    let (device, kind) = (device.to_owned(), kind.to_owned());
    Err(DeviceError::Format { device, kind, end: made.end, output: made.output })
}

/// A missing program, or a file system that it does not know, is no reason not to mount.
fn check_file_system(device: &str) -> Result<(), DeviceError> {
    let checked = run("fsck", &["-a", device], None);
    match checked.end {
        NOT_REPAIRED => Err(DeviceError::Broken { device: device.to_owned(), output: checked.output }),
        End::Code(0 | 1) => Ok(()),
        end => {
            tracing::warn!(device, %end, output = checked.output, "`fsck` failed");
            Ok(())
        }
    }
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
