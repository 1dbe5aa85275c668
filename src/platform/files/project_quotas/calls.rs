//! The kernel's part of project quotas: the project of a directory, and what a project uses. ext4 and XFS have it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The use of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectUse {
    /// Bytes on the disk.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

/// The calls, all about an open directory and the file system that it is on.
pub trait QuotaCalls: Send + Sync {
    /// The project of a directory; 0 is none.
    ///
    /// # Errors
    /// The kernel's.
    fn project_of(&self, directory: BorrowedFd<'_>) -> io::Result<u32>;

    /// Puts a directory, and what is made in it from now on, into a project.
    ///
    /// # Errors
    /// The kernel's.
    fn put(&self, directory: BorrowedFd<'_>, project: u32) -> io::Result<()>;

    /// The use of a project; `None` where the file system does not count projects.
    ///
    /// # Errors
    /// The kernel's.
    fn usage(&self, directory: BorrowedFd<'_>, project: u32) -> io::Result<Option<ProjectUse>>;
}

/// `struct fsxattr` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    padding: [u8; 8],
}

/// `struct if_dqblk` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Block {
    bytes_hard: u64,
    bytes_soft: u64,
    bytes: u64,
    inodes_hard: u64,
    inodes_soft: u64,
    inodes: u64,
    bytes_time: u64,
    inodes_time: u64,
    valid: u32,
}

/// `FS_IOC_FSGETXATTR`.
const GET_ATTRIBUTES: u32 = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`.
const SET_ATTRIBUTES: u32 = 0x401c_5820;
/// `FS_XFLAG_PROJINHERIT`: whatever is made in a directory is of its project.
const INHERIT: u32 = 0x200;
/// `Q_GETQUOTA` of `PRJQUOTA`.
const GET_PROJECT_QUOTA: u32 = (0x0080_0007 << 8) | 2;
/// `quotactl_fd`, since Linux 5.14; the same number on every machine that this agent is built for.
const QUOTACTL_FD: libc::c_long = 443;

const _: () = assert!(size_of::<Attributes>() == 28 && size_of::<Block>() == 72);

/// The real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelQuotas;

impl KernelQuotas {
    #[expect(unsafe_code, reason = "neither nix nor rustix has this call; it writes to a structure of its own size")]
    fn attributes(directory: BorrowedFd<'_>) -> io::Result<Attributes> {
        let mut attributes = Attributes::default();
        // SAFETY: the kernel writes one `fsxattr`, whose layout `Attributes` has, and keeps nothing of the address.
        let done = unsafe { libc::ioctl(directory.as_raw_fd(), GET_ATTRIBUTES as _, &raw mut attributes) };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(attributes) }
    }
}

impl QuotaCalls for KernelQuotas {
    fn project_of(&self, directory: BorrowedFd<'_>) -> io::Result<u32> {
        Self::attributes(directory).map(|attributes| attributes.project)
    }

    #[expect(unsafe_code, reason = "neither nix nor rustix has this call; it reads a structure of its own size")]
    fn put(&self, directory: BorrowedFd<'_>, project: u32) -> io::Result<()> {
        let before = Self::attributes(directory)?;
        let attributes = Attributes { project, flags: before.flags | INHERIT, ..before };
        // SAFETY: the kernel reads one `fsxattr`, whose layout `Attributes` has, and keeps nothing of the address.
        let done = unsafe { libc::ioctl(directory.as_raw_fd(), SET_ATTRIBUTES as _, &raw const attributes) };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    #[expect(
        unsafe_code,
        reason = "nix has no quotas of projects, and rustix none; it writes to a structure of its own size"
    )]
    fn usage(&self, directory: BorrowedFd<'_>, project: u32) -> io::Result<Option<ProjectUse>> {
        let mut block = Block::default();
        // SAFETY: the kernel writes one `if_dqblk`, whose layout `Block` has, and keeps nothing of the address.
        let done =
            unsafe { libc::syscall(QUOTACTL_FD, directory.as_raw_fd(), GET_PROJECT_QUOTA, project, &raw mut block) };
        if done != -1 {
            return Ok(Some(ProjectUse { bytes: block.bytes, inodes: block.inodes }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Nothing is of this project yet (XFS).
            Some(libc::ENOENT) => Ok(Some(ProjectUse::default())),
            // No quotas, none of projects, or a kernel without this call.
            Some(libc::ESRCH | libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY) => Ok(None),
            _ => Err(error),
        }
    }
}
