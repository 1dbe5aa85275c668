//! Looks for mounts inside of a tree that is to be removed. A small tree is asked entry by entry, which costs the same on
//! every node: the mount table grows with all pods of the node. No mount is entered, so that a dead one holds up nobody.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Directory;
use crate::platform::files::mount_table;

/// A tree of more entries is looked up in the mount table.
pub(super) const ENTRIES_MAX: usize = 64;
/// A tree of more levels, too: each is an open descriptor.
const DEPTH_MAX: usize = 8;

/// The outcome of a look at entries.
#[derive(PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    Mount(PathBuf),
    /// There are too many, or the kernel does not say of an entry whether it is a mount (Linux before 5.6).
    Unknown,
}

/// The first mount found below `top`, which is none itself.
///
/// # Errors
/// When neither the entries nor the mount table can be read.
pub(super) fn first_mount(top: &Directory) -> io::Result<Option<PathBuf>> {
    match look(top, &top.path, 0, &mut ENTRIES_MAX.clone()) {
        Found::Nothing => Ok(None),
        Found::Mount(path) => Ok(Some(path)),
        Found::Unknown => mount_table::first_within(&top.real_path()?),
    }
}

fn look(directory: impl AsFd, path: &Path, depth: usize, left: &mut usize) -> Found {
    let Ok(entries) = Dir::read_from(&directory) else { return Found::Unknown };
    for entry in entries {
        let Ok(entry) = entry else { return Found::Unknown };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Some(fewer) = left.checked_sub(1) else { return Found::Unknown };
        *left = fewer;
        let path = path.join(OsStr::from_bytes(name.to_bytes()));
        let is_directory = match entry.file_type() {
            FileType::Unknown => return Found::Unknown,
            kind => kind == FileType::Directory,
        };
        let access = if is_directory { OFlags::RDONLY | OFlags::DIRECTORY } else { OFlags::PATH };
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let below = match rustix::fs::openat2(&directory, name, flags, Mode::empty(), resolve) {
            Ok(below) => below,
            Err(Errno::XDEV) => return Found::Mount(path),
            Err(Errno::NOENT) => continue, // It has gone meanwhile.
            Err(_) => return Found::Unknown,
        };
        if !is_directory {
            continue;
        }
        let found = if depth + 1 < DEPTH_MAX { look(below, &path, depth + 1, left) } else { Found::Unknown };
        if found != Found::Nothing {
            return found;
        }
    }
    Found::Nothing
}
