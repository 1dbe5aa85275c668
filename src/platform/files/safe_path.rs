//! Directories as descriptors: everything below one is reached from it, segment by segment, and links are refused.
//!
//! Containers can write below the directories that the agent keeps for them. So no path of theirs ever goes to the kernel as
//! a whole. Used by the adapters that keep files of pods; keeps nothing but the descriptor.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

mod survey;

/// The longest name of a file, in bytes: the kernel's `NAME_MAX`.
pub const SEGMENT_BYTES_MAX: usize = 255;
/// The most names of one directory that are kept.
pub const NAMES_MAX: usize = 100_000;

/// Whether following into another file system is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mounts {
    /// A mount on the way is followed.
    Cross,
    /// A mount on the way is an error (`EXDEV`).
    Refuse,
}

/// Checks that a text is one segment of a path: not empty, `.` or `..`, without `/` and NUL, at most
/// [`SEGMENT_BYTES_MAX`] bytes.
///
/// # Errors
/// `EINVAL`, with a text that says so.
pub fn segment(text: &str) -> io::Result<&str> {
    let wrong = text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']);
    if wrong || text.len() > SEGMENT_BYTES_MAX {
        let shown: String = text.chars().take(64).collect();
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{shown:?} is not a name of a file")));
    }
    Ok(text)
}

/// An open directory. Names below it are segments, each checked by [`segment`].
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Directory {
    /// Opens a directory by a path that the administrator gave: links in it are followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { descriptor, path: path.to_path_buf() })
    }

    /// The path it was opened by, for texts.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path as the kernel has it now, without links; how `/proc/self/mountinfo` names it.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
    }

    /// Opens a directory below; refuses links on the way and at the end.
    ///
    /// # Errors
    /// `ELOOP` for a link, `ENOTDIR` for anything else that is no directory, `EXDEV` for a refused mount.
    pub fn directory(&self, segments: &[&str], mounts: Mounts) -> io::Result<Self> {
        let descriptor = self.open_below(segments, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), mounts)?;
        Ok(Self { descriptor, path: self.joined(segments) })
    }

    /// Opens a directory directly below, making it with `mode`, whatever the umask, when it is not there.
    ///
    /// # Errors
    /// As [`Self::directory`]; what the kernel said to making it.
    pub fn make_directory(&self, name: &str, mode: u32) -> io::Result<Self> {
        let made = match rustix::fs::mkdirat(&self.descriptor, segment(name)?, Mode::from_raw_mode(mode)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let directory = self.directory(&[name], Mounts::Refuse)?;
        if made {
            rustix::fs::fchmod(&directory.descriptor, Mode::from_raw_mode(mode))?;
        }
        Ok(directory)
    }

    /// Gives it this mode, if it has another.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn give_mode(&self, mode: u32) -> io::Result<()> {
        let wanted = Mode::from_raw_mode(mode);
        if Mode::from_raw_mode(rustix::fs::fstat(&self.descriptor)?.st_mode & 0o7777) != wanted {
            rustix::fs::fchmod(&self.descriptor, wanted)?;
        }
        Ok(())
    }

    /// Makes a file directly below, with `mode` whatever the umask. Fails when there is something of that name.
    ///
    /// # Errors
    /// `EEXIST`; what else the kernel said.
    pub fn make_file(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let descriptor = rustix::fs::openat(&self.descriptor, segment(name)?, flags, mode)?;
        rustix::fs::fchmod(&descriptor, mode)?;
        Ok(File::from(descriptor))
    }

    /// Opens a regular file below for reading; `None` when there is something else. A device or a FIFO is looked at, not
    /// opened, for opening one can have effects or wait.
    ///
    /// # Errors
    /// `ENOENT`; `ELOOP` for a link; what else the kernel said.
    pub fn read_regular(&self, segments: &[&str], mounts: Mounts) -> io::Result<Option<File>> {
        let handle = self.open_below(segments, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), mounts)?;
        let found = rustix::fs::fstat(&handle)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(format!("/proc/self/fd/{}", handle.as_raw_fd()), flags, Mode::empty())?;
        Ok(Some(File::from(opened)))
    }

    /// Opens whatever is below without opening what it is, as for sockets.
    ///
    /// # Errors
    /// As [`Self::directory`].
    pub fn handle(&self, segments: &[&str], mounts: Mounts) -> io::Result<OwnedFd> {
        self.open_below(segments, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), mounts)
    }

    /// Opens a regular file directly below for writing, as it is.
    ///
    /// # Errors
    /// `ELOOP` for a link, `ENXIO` for a FIFO, `EINVAL` for anything else that is no regular file.
    pub fn write_regular(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let descriptor = self.open_below(&[name], flags, Mode::empty(), Mounts::Refuse)?;
        let found = rustix::fs::fstat(&descriptor)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(File::from(descriptor))
    }

    /// The kind of the thing with this name, links not followed; `None` when there is nothing.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn kind(&self, name: &str) -> io::Result<Option<FileType>> {
        match rustix::fs::statat(&self.descriptor, segment(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Names directly below that are UTF-8, sorted, with their kinds; links are not followed.
    ///
    /// # Errors
    /// The kernel's error; `EFBIG` where there are more than [`NAMES_MAX`], of which no more are kept.
    pub fn names(&self) -> io::Result<Vec<(String, FileType)>> {
        let names = self.first_names(NAMES_MAX + 1)?;
        if names.len() > NAMES_MAX { Err(Errno::FBIG.into()) } else { Ok(names) }
    }

    /// Names as above, but no more than `max`: those that the kernel lists first.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn first_names(&self, max: usize) -> io::Result<Vec<(String, FileType)>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.kind(name)?.unwrap_or(FileType::Unknown),
                known => known,
            };
            names.push((name.to_owned(), kind));
            if names.len() >= max {
                break;
            }
        }
        names.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(names)
    }

    /// Removes a file, link, FIFO, socket or device directly below; says whether there was one.
    ///
    /// # Errors
    /// `EISDIR` for a directory; what else the kernel said.
    pub fn remove_file(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.descriptor, segment(name)?, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes `name`, directly below, a link to `target`; replaces a link to something else, and nothing but a link.
    ///
    /// # Errors
    /// `EEXIST` when something other than a link has the name; what else the kernel said.
    pub fn link(&self, name: &str, target: &Path) -> io::Result<()> {
        let name = segment(name)?;
        match rustix::fs::symlinkat(target, &self.descriptor, name) {
            Err(Errno::EXIST) => {}
            other => return Ok(other?),
        }
        let there = match rustix::fs::readlinkat(&self.descriptor, name, Vec::new()) {
            Ok(there) => there,
            Err(Errno::INVAL) => return Err(Errno::EXIST.into()),
            Err(errno) => return Err(errno.into()),
        };
        if there.as_bytes() == target.as_os_str().as_bytes() {
            return Ok(());
        }
        self.remove_file(name)?;
        Ok(rustix::fs::symlinkat(target, &self.descriptor, name)?)
    }

    /// The target of a link directly below; `None` when there is no link of this name.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn link_target(&self, name: &str) -> io::Result<Option<PathBuf>> {
        match rustix::fs::readlinkat(&self.descriptor, segment(name)?, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn joined(&self, segments: &[&str]) -> PathBuf {
        segments.iter().fold(self.path.clone(), |path, name| path.join(name))
    }

    fn open_below(&self, segments: &[&str], flags: OFlags, mode: Mode, mounts: Mounts) -> io::Result<OwnedFd> {
        let checked = segments.iter().map(|name| segment(name)).collect::<io::Result<Vec<_>>>()?;
        if checked.is_empty() {
            return Err(Errno::INVAL.into());
        }
        let flags = flags | OFlags::CLOEXEC;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if mounts == Mounts::Refuse {
            resolve |= ResolveFlags::NO_XDEV;
        }
        match rustix::fs::openat2(&self.descriptor, checked.join("/"), flags, mode, resolve) {
            // Before Linux 5.6, or behind a filter of system calls that does not know it.
            Err(Errno::NOSYS | Errno::PERM) => self.walk(&checked, flags, mode, mounts),
            other => Ok(other?),
        }
    }

    /// The work of `openat2`, for kernels without it: one segment at a time, none of them a link. A bind mount of the same
    /// file system is not noticed this way; whoever must not cross one looks into the mount table too.
    fn walk(&self, segments: &[&str], flags: OFlags, mode: Mode, mounts: Mounts) -> io::Result<OwnedFd> {
        let device = rustix::fs::fstat(&self.descriptor)?.st_dev;
        let mut here: Option<OwnedFd> = None;
        for (index, name) in segments.iter().enumerate() {
            let last = index + 1 == segments.len();
            let flags = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
            let from = here.as_ref().map_or(self.descriptor.as_fd(), AsFd::as_fd);
            let next = rustix::fs::openat(from, *name, flags | OFlags::NOFOLLOW, mode)?;
            let found = rustix::fs::fstat(&next)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
                return Err(Errno::LOOP.into());
            }
            if mounts == Mounts::Refuse && found.st_dev != device {
                return Err(Errno::XDEV.into());
            }
            here = Some(next);
        }
        here.ok_or_else(|| Errno::INVAL.into())
    }
}

/// Directories deeper than this are brought up before they are emptied. So the number of open descriptors and the stack stay
/// bounded however deep a container built.
const DEPTH_MAX: usize = 48;
/// Directories deeper than this are not emptied where they are, whatever keeps them from being brought up.
const DEPTH_HARD_MAX: usize = 192;
/// Names that are tried for a directory that is brought up.
const BRING_UP_TRIES: usize = 4;
/// Entries read before they are removed, so that a directory of millions of files costs no memory.
const BATCH: usize = 1024;
/// How often the top is read again before the removal gives up: something goes on making files below it.
const PASSES_MAX: usize = 16_384;

impl Directory {
    /// Removes a directory directly below with all that it holds. Links are removed, never followed. A mount inside, or
    /// at the directory itself, is an error that names it, and then nothing is removed: a plain recursive removal has
    /// destroyed what users had mounted (upstream issue 60987).
    ///
    /// # Errors
    /// `EXDEV` or `EBUSY` with the mount's path; what else the kernel said, with the path. Nothing there is no error.
    pub fn remove_tree(&self, name: &str) -> io::Result<()> {
        // Most hold nothing any more, and need no look for mounts.
        match rustix::fs::unlinkat(&self.descriptor, segment(name)?, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) => return Err(mounted(&self.path.join(name))),
            Err(_) => {} // It holds something, or is no directory.
        }
        let top = match self.directory(&[name], Mounts::Refuse) {
            Ok(top) => top,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if is(&error, Errno::XDEV) => return Err(mounted(&self.path.join(name))),
            Err(error) => return Err(error),
        };
        if let Some(mount) = survey::first_mount(&top)? {
            return Err(mounted(&mount));
        }
        // The maker of the tree cannot have taken the names beforehand.
        let mut moved = RandomState::new().build_hasher().finish();
        for _ in 0..PASSES_MAX {
            if top.remove_batch(&top, 0, &mut moved)? == 0 {
                return match rustix::fs::unlinkat(&self.descriptor, segment(name)?, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => Ok(()),
                    Err(Errno::NOTEMPTY) => continue,
                    Err(errno) => Err(at(errno, &top.path)),
                };
            }
        }
        Err(at(Errno::NOTEMPTY, &top.path))
    }

    /// Removes up to [`BATCH`] entries and says how many there were.
    fn remove_batch(&self, top: &Self, depth: usize, moved: &mut u64) -> io::Result<usize> {
        let mut batch: Vec<CString> = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.descriptor).map_err(|errno| at(errno, &self.path))? {
            let entry = entry.map_err(|errno| at(errno, &self.path))?;
            if entry.file_name() != c"." && entry.file_name() != c".." {
                batch.push(entry.file_name().to_owned());
            }
            if batch.len() == BATCH {
                break;
            }
        }
        for name in &batch {
            self.remove_entry(name, top, depth, moved)?;
        }
        Ok(batch.len())
    }

    fn remove_entry(&self, name: &CStr, top: &Self, depth: usize, moved: &mut u64) -> io::Result<()> {
        let path = self.path.join(OsStr::from_bytes(name.to_bytes()));
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(Errno::BUSY) => return Err(mounted(&path)),
            Err(errno) => return Err(at(errno, &path)),
        }
        if depth >= DEPTH_MAX && self.bring_up(name, top, moved) {
            return Ok(());
        }
        if depth >= DEPTH_HARD_MAX {
            return Err(at(Errno::NAMETOOLONG, &path));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let opened = match rustix::fs::openat2(&self.descriptor, name, flags, Mode::empty(), resolve) {
            Err(Errno::NOSYS | Errno::PERM) => self.open_on_same_device(name, flags),
            other => other,
        };
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            Err(Errno::XDEV) => return Err(mounted(&path)),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(at(errno, &path)),
        };
        let below = Self { descriptor, path };
        while below.remove_batch(top, depth + 1, moved)? > 0 {}
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR) {
            // Not empty: something was added meanwhile. The next pass over the top sees it.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
            Err(Errno::BUSY) => Err(mounted(&below.path)),
            Err(errno) => Err(at(errno, &below.path)),
        }
    }

    /// Moves a deep directory to the top under a name of its own; says whether the file system allowed it.
    fn bring_up(&self, name: &CStr, top: &Self, moved: &mut u64) -> bool {
        (0..BRING_UP_TRIES).any(|_| {
            *moved = moved.wrapping_add(1);
            // Not every file system knows `RENAME_NOREPLACE`. All that can be replaced is an empty directory, of the same tree.
            rustix::fs::renameat(&self.descriptor, name, &top.descriptor, format!(".removing-{moved:x}")).is_ok()
        })
    }

    fn open_on_same_device(&self, name: &CStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let opened = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        let same = rustix::fs::fstat(&opened)?.st_dev == rustix::fs::fstat(&self.descriptor)?.st_dev;
        if same { Ok(opened) } else { Err(Errno::XDEV) }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn at(errno: Errno, path: &Path) -> io::Error {
    let error = io::Error::from(errno);
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn mounted(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::CrossesDevices, format!("{} is a mount point", path.display()))
}

#[cfg(test)]
mod tests;
