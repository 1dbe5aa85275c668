//! Space: of file systems, and of the few files whose folders are read at each look.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::files::folder;
use crate::logic::statistics::figures::{FileSystem, Usage};
use crate::platform::files::safe_path::segment;
use crate::platform::host::clock::Clock;

/// The file system that a path is on.
pub(super) fn file_system(path: &Path, clock: &dyn Clock) -> Option<FileSystem> {
    let told = nix::sys::statvfs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(told.fragment_size());
    let device = rustix::fs::stat(path).map_or(0, |stat| stat.st_dev);
    Some(FileSystem {
        device,
        at: clock.now(),
        capacity: bytes(told.blocks()),
        available: bytes(told.blocks_available()),
        free: bytes(told.blocks_free()),
        inodes: told.files(),
        inodes_free: told.files_free(),
    })
}

/// A folder by its path; its last part is no link.
pub(super) fn open(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// A folder right below another one, by a name that is one part of a path.
pub(super) fn below(at: impl AsFd, name: &str) -> Option<OwnedFd> {
    folder(at, segment(name).ok()?)
}

/// All that is right in a folder and is no folder itself: upstream's way to count logs.
pub(super) fn files_in(here: &OwnedFd, clock: &dyn Clock) -> Option<Usage> {
    let mut usage = Usage { at: clock.now(), ..Usage::default() };
    for entry in rustix::fs::Dir::read_from(here).ok()? {
        let entry = entry.ok()?;
        if entry.file_type() == FileType::Directory {
            continue;
        }
        match rustix::fs::statat(here, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {}
            Ok(stat) => {
                usage.bytes = usage.bytes.saturating_add(blocks(stat.st_blocks));
                usage.inodes += 1;
            }
            // It was rotated away.
            Err(rustix::io::Errno::NOENT) => {}
            Err(_) => return None,
        }
    }
    Some(usage)
}

/// One file right in a folder; `None` when there is none.
pub(super) fn file_in(here: &OwnedFd, name: &str, clock: &dyn Clock) -> Option<Usage> {
    let stat = rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(Usage { at: clock.now(), bytes: blocks(stat.st_blocks), inodes: 1 })
}

/// Bytes of a number of blocks.
pub(super) fn blocks(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0).saturating_mul(BLOCK_BYTES)
}

/// The size of a block, in which the kernel counts files, whatever the file system.
pub(super) const BLOCK_BYTES: u64 = 512;
