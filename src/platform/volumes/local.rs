//! Local persistent volumes (VOL-10, VOL-37): a directory of the host, or the file system on one of its block devices.
//!
//! A device is mounted once for the node, below `plugins`, and from there at each pod's place. Keeps nothing: who else has
//! a volume is read from the disk, where it outlives the agent.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use super::layout::{Layout, PRIVATE, make_level, open_through, remove_empty};
use super::locks::Locks;
use super::mounts::{bind, is_mounted, make_read_only, unmount_all};
use super::programs::{self, End, run};
use super::{VolumeError, ownership, tear_down};
use crate::logic::volumes::order::{LocalOrder, VolumePlace};

/// Where devices are mounted once for all pods, below `plugins`.
const SHARED: [&str; 3] = ["kubernetes.io", "local-volume", "mounts"];
/// What `blkid` says of a device that holds nothing it knows.
const UNFORMATTED: End = End::Code(2);
/// What `fsck` says when it found what it could not repair.
const NOT_REPAIRED: End = End::Code(4);
/// Upstream's text for a second pod.
pub(super) const IN_USE: &str = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";

/// Has the volume at its place. Mounted already, it is left as it is. Gives a warning about its group, if one is due.
pub(super) fn set_up(
    layout: &Layout,
    locks: &Locks,
    place: &VolumePlace,
    order: &LocalOrder,
) -> Result<Option<String>, VolumeError> {
    let path = layout.path(place);
    let failed = |attempt| {
        let path = path.clone();
        move |error: io::Error| VolumeError::failed(attempt, &path, error)
    };
    let source = Source::open(&order.source)?;
    let parent = layout.make_parent(place).map_err(failed("make directory of"))?;
    if is_mounted(&parent, &place.name).map_err(failed("look at"))? {
        return Ok(None);
    }
    let mut made = false;
    let mounted = locks.with(&place.name, || {
        let others = layout.other_pods(place).map_err(failed("look for others that use"))?;
        if order.exclusive && !others.is_empty() {
            return Err(VolumeError::Refused(IN_USE.to_owned()));
        }
        // From here on other pods see that this one has the volume.
        make_level(&parent, &place.name, PRIVATE).map_err(failed("make directory"))?;
        made = true;
        let opened = source.mounted(layout, &place.name, order)?;
        bind(&opened, &parent, &place.name).map_err(failed("bind mount on"))?;
        Ok(others)
    });
    let finished = mounted.and_then(|others| {
        change_mount(&path, &order.options)?;
        if order.read_only {
            make_read_only(&parent, &place.name).map_err(failed("make read-only"))?;
            return Ok(None);
        }
        let volume = open_through(&parent, &place.name).map_err(failed("open"))?;
        // Files that others use already keep their group.
        if others.is_empty() {
            ownership::apply(&volume, order.ownership).map_err(failed("change the group of"))?;
            return Ok(None);
        }
        let group = rustix::fs::fstat(&volume).map_err(|errno| failed("look at")(errno.into()))?.st_gid;
        let wanted = order.ownership.fs_group.filter(|wanted| *wanted != group);
        Ok(wanted.map(|wanted| {
            format!(
                "The requested fsGroup is {wanted}, but the volume {} has GID {group}. The volume may not be shareable.",
                place.name
            )
        }))
    });
    if finished.is_err() && made {
        let _ = tear_down::volume(layout, locks, place); // Told already; what stays is taken down with the pod.
    }
    finished
}

/// Options of a bind mount are set in a second step.
fn change_mount(path: &Path, options: &[String]) -> Result<(), VolumeError> {
    if options.is_empty() {
        return Ok(());
    }
    let words: Vec<&str> = ["bind", "remount"].into_iter().chain(options.iter().map(String::as_str)).collect();
    programs::mount("", &words, "", path).map_err(VolumeError::Refused)
}

/// What a local volume's path leads to.
enum Source {
    Directory(OwnedFd),
    Device,
}

impl Source {
    fn open(path: &str) -> Result<Self, VolumeError> {
        let opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let opened = opened.map_err(|errno| VolumeError::failed("open", Path::new(path), io::Error::from(errno)))?;
        match rustix::fs::fstat(&opened).map(|found| FileType::from_raw_mode(found.st_mode)) {
            Ok(FileType::Directory) => Ok(Self::Directory(opened)),
            Ok(FileType::BlockDevice) => Ok(Self::Device),
            _ => Err(VolumeError::Refused("only directory and block device are supported".to_owned())),
        }
    }

    /// The directory that is to be seen at the pod's place.
    fn mounted(self, layout: &Layout, name: &str, order: &LocalOrder) -> Result<OwnedFd, VolumeError> {
        match self {
            Self::Directory(opened) => Ok(opened),
            Self::Device => mount_device(layout, name, order),
        }
    }
}

/// Mounts the device for the node, unless it is mounted.
fn mount_device(layout: &Layout, name: &str, order: &LocalOrder) -> Result<OwnedFd, VolumeError> {
    let path = layout.shared_path(&SHARED).join(name);
    let failed = |error: io::Error| VolumeError::failed("mount device on", &path, error);
    let shared = layout.make_shared(&SHARED).map_err(failed)?;
    make_level(&shared, name, PRIVATE).map_err(failed)?;
    if !is_mounted(&shared, name).map_err(failed)? {
        format_and_mount(order, &path).map_err(|error| {
            let _ = remove_empty(&shared, name);
            let (source, fs_type) = (&order.source, &order.fs_type);
            VolumeError::Device(format!(
                "local: failed to mount device {source} at {} (fstype: {fs_type}), error {error}",
                path.display()
            ))
        })?;
    }
    let opened = open_through(&shared, name).map_err(failed)?;
    rustix::io::fcntl_dupfd_cloexec(&opened, 0).map_err(|errno| failed(errno.into()))
}

/// Makes a file system on a device that has none, looks over one that has, and mounts it.
fn format_and_mount(order: &LocalOrder, target: &Path) -> Result<(), String> {
    let (device, wanted) = (order.source.as_str(), order.fs_type.as_str());
    if !wanted.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(format!("{wanted:?} is no name of a file system"));
    }
    let found = run("blkid", &["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device], None);
    let unformatted = found.end == UNFORMATTED;
    if !unformatted && !found.is_ok() {
        return Err(format!("failed to get disk format of {device}: {}: {}", found.end, found.output.trim()));
    }
    if found.output.lines().any(|line| line.starts_with("PTTYPE=")) {
        return Err(format!("{device} holds a partition table, which is not formatted"));
    }
    match unformatted {
        true if order.read_only => {
            return Err(format!("cannot mount unformatted disk {device} as we are manipulating it in read-only mode"));
        }
        true => make_file_system(device, wanted)?,
        false if !order.read_only => check_file_system(device)?,
        false => {}
    }
    let mut options: Vec<&str> = order.options.iter().map(String::as_str).collect();
    options.extend(order.read_only.then_some("ro"));
    options.push("defaults");
    programs::mount(wanted, &options, device, target)
}

fn make_file_system(device: &str, kind: &str) -> Result<(), String> {
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
    let (end, output) = (made.end, made.output);
    Err(format!("format of disk {device:?} failed: type:({kind:?}) errcode:({end}) output:({output})"))
}

/// A missing program, or a file system that it does not know, is no reason not to mount.
fn check_file_system(device: &str) -> Result<(), String> {
    let checked = run("fsck", &["-a", device], None);
    match checked.end {
        NOT_REPAIRED => {
            Err(format!("'fsck' found errors on device {device} but could not correct them: {}.", checked.output))
        }
        End::Code(0 | 1) => Ok(()),
        end => {
            tracing::warn!(device, %end, output = checked.output, "`fsck` failed");
            Ok(())
        }
    }
}

/// Unmounts the device, if there is one and no pod has the volume any more. Only under the volume's lock.
pub(super) fn release_device(layout: &Layout, place: &VolumePlace) -> io::Result<()> {
    let Some(shared) = layout.find_shared(&SHARED)? else { return Ok(()) };
    if shared.kind(&place.name)?.is_none() || !layout.other_pods(place)?.is_empty() {
        return Ok(());
    }
    unmount_all(&shared, &place.name)?;
    remove_empty(&shared, &place.name).map(drop)
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
