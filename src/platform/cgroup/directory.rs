//! One open folder of a cgroup file system: everything below it is reached from its descriptor.
//!
//! Owned by a manager. No path is resolved twice and no link is followed, so that nobody can exchange a folder between
//! a check and its use. Every read is bounded.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::CgroupError;

/// Longest file read: half a million process ids.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Deepest tree walked. The kernel allows more; a runtime makes a handful.
const DEPTH_MAX: usize = 64;
/// The mode of a folder.
const OPEN: Mode = Mode::from_raw_mode(0o755);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open folder, and its path for messages.
pub(super) struct Directory {
    descriptor: OwnedFd,
    path: String,
}

impl Directory {
    /// Opens the root of a hierarchy; its path comes from the host's mounts.
    pub fn open(path: &str) -> Result<Self, CgroupError> {
        match rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(descriptor) => Ok(Self { descriptor, path: path.to_owned() }),
            Err(error) => Err(CgroupError::Read { file: path.to_owned(), source: error.into() }),
        }
    }

    /// The path, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The folder that the given ones lead to; `None` when it is not there.
    pub fn below(&self, folders: &[String]) -> Result<Option<Self>, CgroupError> {
        if folders.is_empty() {
            return self.try_clone().map(Some);
        }
        let (joined, resolve) = (folders.join("/"), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS);
        let path = self.file_path(&joined);
        match rustix::fs::openat2(&self.descriptor, &joined, FOLDER, Mode::empty(), resolve) {
            Ok(descriptor) => Ok(Some(Self { descriptor, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOSYS | Errno::PERM) => self.walk(folders), // An older kernel, or a filter that knows only those.
            Err(error) => Err(CgroupError::Read { file: path, source: error.into() }),
        }
    }

    fn walk(&self, folders: &[String]) -> Result<Option<Self>, CgroupError> {
        let mut found = self.try_clone()?;
        for folder in folders {
            let Some(next) = found.child(folder)? else { return Ok(None) };
            found = next;
        }
        Ok(Some(found))
    }

    /// The folder of this name; `None` when it is not there.
    pub fn child(&self, name: &str) -> Result<Option<Self>, CgroupError> {
        let path = self.file_path(name);
        match rustix::fs::openat(&self.descriptor, name, FOLDER, Mode::empty()) {
            Ok(descriptor) => Ok(Some(Self { descriptor, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(CgroupError::Read { file: path, source: error.into() }),
        }
    }

    /// The folder of this name, made if it is not there; says whether it was made. Everybody may pass through, whatever the
    /// umask: a pod's root looks for its cgroup, and in a user namespace of its own it is nobody on the host.
    pub fn make_child(&self, name: &str) -> Result<(Self, bool), CgroupError> {
        let made = match rustix::fs::mkdirat(&self.descriptor, name, OPEN) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(CgroupError::Create { folder: self.file_path(name), source: error.into() }),
        };
        let removed = || CgroupError::Create { folder: self.file_path(name), source: io::ErrorKind::NotFound.into() };
        let child = self.child(name)?.ok_or_else(removed)?;
        let open = || -> rustix::io::Result<()> {
            let mode = Mode::from_raw_mode(rustix::fs::fstat(&child.descriptor)?.st_mode & 0o7777);
            if mode.contains(OPEN) { Ok(()) } else { rustix::fs::fchmod(&child.descriptor, mode | OPEN) }
        };
        open().map_err(|error| CgroupError::Create { folder: self.file_path(name), source: error.into() })?;
        Ok((child, made))
    }

    /// A file's text, without surrounding white space.
    pub fn read(&self, name: &str) -> Result<String, CgroupError> {
        self.read_text(name).map_err(|source| CgroupError::Read { file: self.file_path(name), source })
    }

    fn read_text(&self, name: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?);
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text.trim().to_owned())
    }

    /// A file's text, `None` when there is no such file.
    pub fn read_if_there(&self, name: &str) -> Result<Option<String>, CgroupError> {
        if self.has(name) { self.read(name).map(Some) } else { Ok(None) }
    }

    /// A limit: a number, or −1 for `max`, for a negative one and for one beyond 63 bits less a page.
    pub fn read_limit(&self, name: &str) -> Result<Option<i64>, CgroupError> {
        match self.read_if_there(name)? {
            Some(text) => self.parse_limit(name, &text).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a text of this file as a limit, as [`Self::read_limit`] does.
    pub fn parse_limit(&self, name: &str, text: &str) -> Result<i64, CgroupError> {
        if text == "max" {
            return Ok(-1);
        }
        // The kernel's own infinity on v1 is the largest number of whole pages.
        let number: i128 = text.parse().map_err(|_| self.malformed(name))?;
        Ok(i64::try_from(number).ok().filter(|number| (0..=i64::MAX - (1 << 16)).contains(number)).unwrap_or(-1))
    }

    /// A file's text as a number.
    pub fn read_number(&self, name: &str) -> Result<u64, CgroupError> {
        self.read(name)?.parse().map_err(|_| self.malformed(name))
    }

    fn malformed(&self, name: &str) -> CgroupError {
        CgroupError::Read { file: self.file_path(name), source: io::ErrorKind::InvalidData.into() }
    }

    /// Writes a value in one call, as the kernel wants it. The file must be there: none is created.
    pub fn write(&self, name: &str, value: &str) -> Result<(), CgroupError> {
        self.write_text(name, value).map_err(|source| CgroupError::Write {
            file: self.file_path(name),
            value: value.to_owned(),
            source,
        })
    }

    fn write_text(&self, name: &str, value: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?);
        file.write_all(value.as_bytes())
    }

    /// Whether a file of this name is there.
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The names of the folders in it, sorted.
    pub fn folders(&self) -> Result<BTreeSet<String>, CgroupError> {
        self.names(|kind| kind == rustix::fs::FileType::Directory)
    }

    /// The names of the files in it, sorted.
    pub fn files(&self) -> Result<BTreeSet<String>, CgroupError> {
        self.names(|kind| kind == rustix::fs::FileType::RegularFile)
    }

    fn names(&self, wanted: fn(rustix::fs::FileType) -> bool) -> Result<BTreeSet<String>, CgroupError> {
        let failed = |error: rustix::io::Errno| CgroupError::Read { file: self.path.clone(), source: error.into() };
        let mut names = BTreeSet::new();
        for entry in rustix::fs::Dir::read_from(&self.descriptor).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Names in a cgroup file system are text; others cannot be ours.
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) if wanted(entry.file_type()) => {
                    names.insert(name.to_owned());
                }
                Ok(_) => {}
            }
        }
        Ok(names)
    }

    /// The processes in it and below. A group that vanishes meanwhile has none.
    pub fn pids(&self) -> Result<BTreeSet<i32>, CgroupError> {
        let mut pids = BTreeSet::new();
        self.collect_pids(&mut pids, DEPTH_MAX)?;
        Ok(pids)
    }

    /// The processes in it, not below.
    pub fn own_pids(&self) -> Result<BTreeSet<i32>, CgroupError> {
        Ok(self.read("cgroup.procs")?.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Puts a process into it; one that has ended is no error.
    pub fn take_in(&self, pid: i32) -> Result<(), CgroupError> {
        match self.write("cgroup.procs", &pid.to_string()) {
            Err(CgroupError::Write { source, .. }) if source.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            outcome => outcome,
        }
    }

    fn collect_pids(&self, pids: &mut BTreeSet<i32>, depth: usize) -> Result<(), CgroupError> {
        match self.read_text("cgroup.procs") {
            // A zero stands for a process outside our view of process ids.
            Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
            // The folder has gone (ENODEV once removed), or is threaded and lists them further up (EOPNOTSUPP).
            Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::Unsupported => {}
            Err(source) => return Err(CgroupError::Read { file: self.file_path("cgroup.procs"), source }),
        }
        let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
        for name in self.folders()? {
            if let Some(child) = self.child(&name)? {
                child.collect_pids(pids, depth)?;
            }
        }
        Ok(())
    }

    /// Removes the folder of this name if nothing is below it and no process is in it: the kernel refuses any other. Says
    /// whether it is gone.
    pub fn remove_if_idle(&self, name: &str) -> bool {
        matches!(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOENT))
    }

    /// Removes the folder of this name and all below it, the deepest first. One that is not there is well removed.
    pub fn remove_tree(&self, name: &str) -> Result<(), CgroupError> {
        self.remove_to_depth(name, DEPTH_MAX)
    }

    fn remove_to_depth(&self, name: &str, depth: usize) -> Result<(), CgroupError> {
        let Some(child) = self.child(name)? else { return Ok(()) };
        if let Some(depth) = depth.checked_sub(1) {
            for folder in child.folders()? {
                child.remove_to_depth(&folder, depth)?;
            }
        }
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(CgroupError::Remove { folder: self.file_path(name), source: error.into() }),
        }
    }

    /// The path of something in it, for messages.
    pub fn file_path(&self, name: &str) -> String {
        format!("{}/{name}", self.path.trim_end_matches('/'))
    }

    fn try_clone(&self) -> Result<Self, CgroupError> {
        match self.descriptor.try_clone() {
            Ok(descriptor) => Ok(Self { descriptor, path: self.path.clone() }),
            Err(source) => Err(CgroupError::Read { file: self.path.clone(), source }),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}
