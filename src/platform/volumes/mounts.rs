//! Mounting and unmounting by descriptors. The mount table is the witness of what is mounted: it never hangs, as a look
//! at a dead mount does. Keeps whether the kernel can mount memory that is never swapped.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, fstatvfs};
use rustix::mount::{FsOpenFlags, fsconfig_set_flag, fsopen};

use super::layout::{by_descriptor, handle, open_through};
use crate::platform::files::mount_table;
use crate::platform::files::safe_path::{Directory, segment};

/// More mounts on one point than this are not ours.
const STACK_MAX: usize = 32;
/// Tries to unmount what is in use, and the pause between them: long enough for a new process to become its program.
const BUSY_TRIES: usize = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The option of a memory file system that is never written to a swap device (Linux 6.4).
const NOSWAP: &str = "noswap";

/// No source, kind or data.
const NONE: Option<&str> = None;

/// Whether something is mounted on a name directly below.
pub(super) fn is_mounted(parent: &Directory, name: &str) -> io::Result<bool> {
    let point = parent.real_path()?.join(segment(name)?);
    Ok(mount_table::read()?.iter().any(|mount| mount.point == point))
}

/// Mounts a memory file system on a directory directly below (SEC-06: without swap where the kernel knows how).
pub(super) fn mount_tmpfs(parent: &Directory, name: &str, size_max: Option<u64>) -> io::Result<()> {
    let point = handle(parent, name)?;
    let size = size_max.map(|bytes| format!("size={bytes}"));
    let noswap = knows_noswap().then_some(NOSWAP);
    let data = size.as_deref().into_iter().chain(noswap).collect::<Vec<_>>().join(",");
    Ok(mount_on(&point, "tmpfs", &data)?)
}

/// Whether a memory file system can be kept from a swap device: the kernel knows how, and this process may ask for it,
/// which it may not in a user namespace. Nothing is mounted to find out.
pub fn knows_noswap() -> bool {
    static KNOWS: OnceLock<bool> = OnceLock::new();
    let ask = || fsconfig_set_flag(fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?, NOSWAP);
    *KNOWS.get_or_init(|| {
        ask().inspect_err(|error| tracing::info!(%error, "tmpfs without swap is not to be had")).is_ok()
    })
}

/// Mounts huge pages on a directory directly below.
pub(super) fn mount_huge_pages(parent: &Directory, name: &str, page_size: u64) -> io::Result<()> {
    let point = handle(parent, name)?;
    Ok(mount_on(&point, "hugetlbfs", &format!("pagesize={page_size}"))?)
}

fn mount_on(point: impl AsFd, kind: &str, data: &str) -> nix::Result<()> {
    mount(Some(kind), by_descriptor(&point).as_str(), Some(kind), MsFlags::empty(), Some(data))
}

/// Mounts what `source` is open on over what has this name directly below: the very file, whatever its path names now.
pub(super) fn bind(source: impl AsFd, parent: &Directory, name: &str) -> io::Result<()> {
    let point = handle(parent, name)?;
    let source = by_descriptor(&source);
    Ok(mount(Some(source.as_str()), by_descriptor(&point).as_str(), NONE, MsFlags::MS_BIND, NONE)?)
}

/// Makes a bind mount read-only: the second of the two steps that the kernel wants.
pub(super) fn make_read_only(parent: &Directory, name: &str) -> io::Result<()> {
    let mounted = open_through(parent, name)?;
    // A flag that the mount already has must be named again, else the kernel takes it for an attempt to allow it.
    let flags = fstatvfs(&mounted)?.flags();
    let mut remount = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    for (seen, kept) in [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ] {
        if flags.contains(seen) {
            remount |= kept;
        }
    }
    Ok(mount(NONE, by_descriptor(&mounted).as_str(), NONE, remount, NONE)?)
}

/// Unmounts all that is mounted on a name directly below; says how many there were. A link of that name is not followed.
pub(super) fn unmount_all(parent: &Directory, name: &str) -> io::Result<usize> {
    let path = format!("{}/{}", by_descriptor(parent), segment(name)?);
    let (mut count, mut busy) = (0, 0);
    while count < STACK_MAX {
        match umount2(path.as_str(), MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => count += 1,
            // The kernel says so of what is no mount point, and of nothing at all.
            Err(Errno::EINVAL | Errno::ENOENT) => return Ok(count),
            // A caller without the right to mount has mounted nothing.
            Err(Errno::EPERM) if !is_mounted(parent, name)? => return Ok(count),
            // A process that the agent just made has copies of all descriptors until its program begins.
            Err(Errno::EBUSY) if busy < BUSY_TRIES => {
                busy += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EBUSY.into())
}
