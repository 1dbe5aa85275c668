//! Parts of volumes (VOL-32, SEC-01, SEC-03): opened without ever leaving the volume, and mounted by the open descriptor,
//! so that no name is resolved a second time. A container may rename and link in the volume all the while.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use super::VolumeError;
use super::layout::{Layout, PRIVATE, handle, open_path, remove_empty, resolve_beneath};
use super::level::make_level;
use super::mounts::{bind, is_mounted, unmount_all};
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::SubPathOrder;
use crate::platform::files::safe_path::{Directory, Mounts, segment};

/// The folder below `pods/<uid>`.
const FOLDER: &str = "volume-subpaths";

/// Which of the two steps failed: the pod's author learns no more (SEC-04).
pub(super) enum Step {
    /// The part did not exist and could not be made.
    Make(io::Error),
    /// It could not be opened or mounted.
    Prepare(io::Error),
}

impl Step {
    /// Upstream's text; the detail goes to the log.
    pub(super) fn into_error(self, order: &SubPathOrder) -> VolumeError {
        let mount = &order.mount;
        let (attempt, error) = match self {
            Self::Make(error) => ("create subPath directory", error),
            Self::Prepare(error) => ("prepare subPath", error),
        };
        tracing::warn!(pod = %order.uid, volume = mount, container = order.container, sub_path = order.sub_path, %error, "failed to {attempt}");
        VolumeError::Refused(format!(
            "failed to {attempt} for volumeMount {mount:?} of container {:?}",
            order.container
        ))
    }
}

/// Mounts the part; gives the path for the container.
pub(super) fn prepare(layout: &Layout, order: &SubPathOrder) -> Result<String, Step> {
    let volume = open_path(Path::new(&order.volume_path)).map_err(Step::Prepare)?;
    let part = match resolve_beneath(&volume, &order.sub_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(&volume, &order.sub_path).map_err(Step::Make)?;
            resolve_beneath(&volume, &order.sub_path)
        }
        other => other,
    };
    part.and_then(|part| mount(layout, order, &part)).map_err(Step::Prepare)
}

/// Makes what is missing of a path below the volume, each directory with the mode of the volume's root.
fn make(volume: &OwnedFd, path: &str) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(volume)?.st_mode & 0o7777);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let exists = |count: usize| match resolve_beneath(volume, &parts[..count].join("/")) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let mut here: OwnedFd = rustix::io::fcntl_dupfd_cloexec(volume, 0)?;
    let mut begin = 0;
    for count in 1..=parts.len() {
        match exists(count)? {
            Some(found) => (here, begin) = (found, count),
            None => break,
        }
    }
    for part in &parts[begin..] {
        here = make_level(&here, OsStr::new(segment(part)?), mode)?;
    }
    Ok(())
}

fn mount(layout: &Layout, order: &SubPathOrder, part: &OwnedFd) -> io::Result<String> {
    let name = order.index.to_string();
    let parent = layout.make(&order.uid, &[FOLDER, &order.volume, &order.container])?;
    let source = rustix::fs::fstat(part)?;
    if is_mounted(&parent, &name)? {
        if is_same(&parent, &name, &source)? {
            return path_of(layout, order);
        }
        unmount_all(&parent, &name)?;
    }
    make_target(&parent, &name, FileType::from_raw_mode(source.st_mode) == FileType::Directory)?;
    bind(part, &parent, &name)?;
    if !is_same(&parent, &name, &source)? {
        return Err(io::Error::other("something else is mounted there"));
    }
    path_of(layout, order)
}

fn path_of(layout: &Layout, order: &SubPathOrder) -> io::Result<String> {
    let path = layout.pod_path(&order.uid).join(FOLDER).join(&order.volume).join(&order.container);
    let path = path.join(order.index.to_string());
    path.into_os_string().into_string().map_err(|_| io::Error::from(Errno::INVAL))
}

fn is_same(parent: &Directory, name: &str, source: &Stat) -> io::Result<bool> {
    let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((there.st_dev, there.st_ino) == (source.st_dev, source.st_ino))
}

/// A directory to mount a directory on, an empty file for anything else.
fn make_target(parent: &Directory, name: &str, is_directory: bool) -> io::Result<()> {
    let there = parent.kind(name)?;
    let fits = there.map(|kind| (kind == FileType::Directory) == is_directory);
    match fits {
        Some(true) => return Ok(()),
        Some(false) => remove_target(parent, name)?,
        None => {}
    }
    if is_directory { parent.make_directory(name, PRIVATE).map(drop) } else { parent.make_file(name, 0o640).map(drop) }
}

/// Removes what a part was mounted on: an empty directory or an empty file.
fn remove_target(parent: &Directory, name: &str) -> io::Result<()> {
    match parent.kind(name)? {
        Some(FileType::Directory) => remove_empty(parent, name).map(drop),
        Some(FileType::RegularFile) => {
            let found = rustix::fs::fstat(handle(parent, name)?)?;
            if found.st_size > 0 {
                return Err(io::Error::other(format!("{name} is a file with something in it")));
            }
            parent.remove_file(name).map(drop)
        }
        Some(_) => Err(io::Error::other(format!("{name} is neither a directory nor a file"))),
        None => Ok(()),
    }
}

/// Unmounts and removes all parts of one volume.
pub(super) fn clean(layout: &Layout, uid: &PodUid, volume: &str) -> io::Result<()> {
    let Some(folder) = layout.find(uid, &[FOLDER])? else { return Ok(()) };
    let Some(of_volume) = layout.find(uid, &[FOLDER, volume])? else { return Ok(()) };
    for (container, _) in of_volume.names()? {
        let parts = of_volume.directory(&[&container], Mounts::Refuse)?;
        for (part, _) in parts.names()? {
            unmount_all(&parts, &part)?;
            remove_target(&parts, &part)?;
        }
        remove_empty(&of_volume, &container)?;
    }
    remove_empty(&folder, volume).map(drop)
}

/// Unmounts and removes the parts of all volumes of a pod.
pub(super) fn clean_all(layout: &Layout, uid: &PodUid) -> io::Result<()> {
    let Some(folder) = layout.find(uid, &[FOLDER])? else { return Ok(()) };
    for (volume, _) in folder.names()? {
        clean(layout, uid, &volume)?;
    }
    match layout.find(uid, &[])? {
        Some(pod) => remove_empty(&pod, FOLDER).map(drop),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
