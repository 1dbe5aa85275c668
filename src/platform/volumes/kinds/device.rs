//! Block devices for containers (VOL-47): a device of the host, mapped once for the node and pod, and linked in the pod's
//! directory, where the runtime finds it.
//!
//! As upstream: a bind mount of the device at `plugins/<plugin>/volumeDevices/<name>/<uid>`, and a loop device on it. That
//! keeps the device from going away and another from taking its name. The link is `pods/<uid>/volumeDevices/<plugin>/<name>`. The
//! link is made first and removed last, so that whatever was made is found by it after a crash. Keeps nothing.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::platform::files::safe_path::Directory;
use crate::platform::volumes::VolumeError;
use crate::platform::volumes::layout::{DEVICES, Layout, remove_empty};
use crate::platform::volumes::locks::Locks;
use crate::platform::volumes::mounts::{bind, is_mounted, unmount_all};
use crate::platform::volumes::programs::run;

/// Where loop devices say what is behind them.
const SYS_BLOCK: &str = "/sys/block";

/// The folder below `plugins` that the device is mapped in.
pub(in crate::platform::volumes) fn shared_path(layout: &Layout, place: &VolumePlace) -> PathBuf {
    layout.shared_path(&[&place.plugin, DEVICES, &place.name])
}

/// Maps the device. Mapped already, it is left as it is.
pub(in crate::platform::volumes) fn map(
    layout: &Layout,
    locks: &Locks,
    place: &VolumePlace,
    source: &str,
    exclusive: bool,
) -> Result<(), VolumeError> {
    let (device, opened) = open_device(Path::new(source))?;
    let failed = |error: io::Error| VolumeError::failed("map", &device, error);
    let parent = layout.make_parent(place).map_err(failed)?;
    locks.with(&place.name, || {
        let others = layout.other_pods(place).map_err(failed)?;
        if exclusive && !others.is_empty() {
            return Err(VolumeError::InUse);
        }
        parent.link(&place.name, &device).map_err(failed)
    })?;
    let shared = layout.make_shared(&[&place.plugin, DEVICES, &place.name]).map_err(failed)?;
    let mapped = Mapped { folder: &shared, path: &shared_path(layout, place), uid: &place.uid };
    mapped.attach(&opened, &device)
}

/// Links a device in the pod's directory, and maps it. `source` may be a link to it.
pub(super) fn link_and_map(
    layout: &Layout,
    place: &VolumePlace,
    source: &Path,
    mapped: &Mapped<'_>,
) -> Result<(), VolumeError> {
    let (device, opened) = open_device(source)?;
    let linked = layout.make_parent(place).and_then(|parent| parent.link(&place.name, &device));
    linked.map_err(|error| VolumeError::failed("map", &device, error))?;
    mapped.attach(&opened, &device)
}

/// The real path of a block device, and a handle on it.
fn open_device(source: &Path) -> Result<(PathBuf, OwnedFd), VolumeError> {
    let device = fs::canonicalize(source).map_err(|error| VolumeError::failed("find", source, error))?;
    let failed = |error: io::Error| VolumeError::failed("map", &device, error);
    let opened = rustix::fs::open(&device, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map_err(|errno| failed(errno.into()))?;
    let found = rustix::fs::fstat(&opened).map_err(|errno| failed(errno.into()))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::BlockDevice => Ok((device, opened)),
        _ => Err(VolumeError::Refused(format!("{} is not a block device", source.display()))),
    }
}

/// Takes the mapping away; what is not there any more is passed over.
pub(in crate::platform::volumes) fn unmap(layout: &Layout, place: &VolumePlace) -> io::Result<()> {
    if place.plugin != plugin::LOCAL {
        return Err(io::Error::other("only the plugin that mapped the device can take it away"));
    }
    let Some(parent) = layout.find_parent(place)? else { return Ok(()) };
    match parent.kind(&place.name)? {
        None => return Ok(()),
        Some(FileType::Symlink) => {}
        Some(_) => return Err(io::Error::other("there is something else than a link to a device")),
    }
    if let Some(shared) = layout.find_shared(&[&place.plugin, DEVICES, &place.name])? {
        Mapped { folder: &shared, path: &shared_path(layout, place), uid: &place.uid }.detach()?;
        drop(shared);
        if let Some(above) = layout.find_shared(&[&place.plugin, DEVICES])? {
            let _ = remove_empty(&above, &place.name); // Other pods may have it.
        }
    }
    parent.remove_file(&place.name)?;
    if let Some(devices) = layout.find(&place.uid, &[DEVICES])? {
        let _ = remove_empty(&devices, &place.plugin); // Other devices keep it.
    }
    Ok(())
}

/// Where a device is mapped for a pod: a file of the pod's name in a folder of the volume.
pub(in crate::platform::volumes) struct Mapped<'a> {
    /// The folder.
    pub(in crate::platform::volumes) folder: &'a Directory,
    /// Its path, as upstream names it.
    pub(in crate::platform::volumes) path: &'a Path,
    /// The pod.
    pub(in crate::platform::volumes) uid: &'a PodUid,
}

impl Mapped<'_> {
    /// Mounts the device there, and keeps it with a loop device. `device` is its path, for errors.
    pub(in crate::platform::volumes) fn attach(&self, opened: &OwnedFd, device: &Path) -> Result<(), VolumeError> {
        let failed = |error: io::Error| VolumeError::failed("map", device, error);
        let name = self.uid.as_str();
        if !is_mounted(self.folder, name).map_err(failed)? {
            match self.folder.make_file(name, 0o640) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => {}
            }
            bind(opened, self.folder, name).map_err(failed)?;
        }
        let path = self.path.join(name);
        if loop_device(&path).is_none() {
            let locked = run("losetup", &["-f", &path.display().to_string()], None);
            if !locked.is_ok() {
                let (path, end) = (path.display(), locked.end);
                return Err(VolumeError::Refused(format!(
                    "blkUtil.AttachFileDevice failed. globalMapPath:{}, podUID: {name}: makeLoopDevice failed for path \
                     {path}: losetup -f {path} failed: {end}",
                    self.path.display()
                )));
            }
        }
        Ok(())
    }

    /// Takes both away; what is not there any more is passed over.
    pub(in crate::platform::volumes) fn detach(&self) -> io::Result<()> {
        let name = self.uid.as_str();
        let path = self.path.join(name);
        if let Some(device) = loop_device(&path) {
            let released = run("losetup", &["-d", &device], None);
            if !released.is_ok() && loop_device(&path).is_some() {
                return Err(io::Error::other(format!("losetup -d {device} failed: {}", released.end)));
            }
        }
        unmount_all(self.folder, name)?;
        if self.folder.kind(name)? == Some(FileType::RegularFile) {
            self.folder.remove_file(name)?;
        }
        Ok(())
    }
}

/// The loop device on a path, if there is one.
fn loop_device(path: &Path) -> Option<String> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    for entry in fs::read_dir(SYS_BLOCK).ok()?.flatten() {
        let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with("loop")).map(str::to_owned) else {
            continue;
        };
        // Most have nothing behind them.
        let Ok(behind) = fs::read_to_string(entry.path().join("loop/backing_file")) else { continue };
        let behind = behind.trim();
        let behind = Path::new(behind.strip_suffix("(deleted)").unwrap_or(behind).trim());
        if behind == path || behind == real {
            return Some(format!("/dev/{name}"));
        }
    }
    None
}
