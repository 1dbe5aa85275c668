//! Project quotas, which count what a directory uses without a walk (gate
//! `LocalStorageCapacityIsolationFSQuotaMonitoring`; upstream's `fsquota`). Nothing is limited by them.
//!
//! A directory is counted while it has a project of its own, and `/etc/projects` says so; both are looked at each time.
//! Keeps paths alone.

mod calls;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use calls::{KernelQuotas, ProjectUse, QuotaCalls};

use super::safe_path::Directory;
use super::small_file::FILE_BYTES_MAX;
use super::whole_file::write_whole;
use crate::logic::formats::projects::Projects;

/// How often a lock that somebody else has is tried, and the pause between two tries: a second in all.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The directories that had a project when this was read.
pub type Counted = BTreeMap<String, u32>;

/// See the module. Clones share one lock.
#[derive(Clone)]
pub struct ProjectQuotas {
    calls: Arc<dyn QuotaCalls>,
    /// `/etc`; another one in tests.
    folder: PathBuf,
    /// The folder of pods: below it a directory that is gone gives its project back.
    pods: PathBuf,
    /// One change at a time; other programs are kept out by locks of the files.
    changing: Arc<Mutex<()>>,
}

impl ProjectQuotas {
    /// Quotas of directories below `<root_dir>/pods`.
    pub fn new(calls: Arc<dyn QuotaCalls>, folder: &Path, root_dir: &Path) -> Self {
        Self { calls, folder: folder.to_owned(), pods: root_dir.join("pods"), changing: Arc::default() }
    }

    /// Has an empty directory counted from now on; says whether it is. One that somebody else has put into a project stays
    /// there: that project may have a limit. One with files in it is walked, because those are of no project.
    ///
    /// # Errors
    /// When a file of projects cannot be read or written, or the kernel refuses.
    pub fn count(&self, directory: &Directory, path: &Path) -> io::Result<bool> {
        if self.calls.usage(directory.as_fd(), 0)?.is_none() {
            return Ok(false);
        }
        let Some(text) = path.to_str() else { return Ok(false) };
        let project = self.calls.project_of(directory.as_fd())?;
        if project != 0 {
            return Ok(self.counted()?.get(text) == Some(&project));
        }
        if !directory.names()?.is_empty() {
            return Ok(false);
        }
        let is_used = |project| {
            let usage = self.calls.usage(directory.as_fd(), project)?;
            Ok::<bool, io::Error>(usage.is_some_and(|usage| usage != ProjectUse::default()))
        };
        let given = self.change(|projects| {
            self.forget_gone(projects);
            projects.give(text, is_used)
        })?;
        let Some(project) = given else { return Ok(false) };
        self.calls.put(directory.as_fd(), project).inspect_err(|_| drop(self.forget(path)))?;
        Ok(true)
    }

    /// The directory has gone, and gives its project back.
    ///
    /// # Errors
    /// When a file of projects cannot be read or written.
    pub fn forget(&self, path: &Path) -> io::Result<()> {
        let Some(text) = path.to_str() else { return Ok(()) };
        if !self.counted()?.contains_key(text) {
            return Ok(()); // As most: then nothing is locked.
        }
        self.change(|projects| {
            projects.take(text);
            Ok(())
        })
    }

    /// The directories that have a project.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn counted(&self) -> io::Result<Counted> {
        let text = match open(&self.folder.join("projects"), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Counted::new()),
            opened => read(opened?)?,
        };
        let projects = Projects::parse(&text, "");
        let pods = |directory: &&str| Path::new(directory).starts_with(&self.pods);
        let entry = |directory: &str| Some((directory.to_owned(), projects.of(directory)?));
        Ok(projects.directories().filter(pods).filter_map(entry).collect())
    }

    /// The use of a directory, where it is counted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn usage(&self, directory: impl AsFd, path: &Path, counted: &Counted) -> io::Result<Option<ProjectUse>> {
        let Some(project) = path.to_str().and_then(|path| counted.get(path)) else { return Ok(None) };
        if self.calls.project_of(directory.as_fd())? != *project {
            return Ok(None);
        }
        self.calls.usage(directory.as_fd(), *project)
    }

    /// Directories of pods that went while no agent looked.
    fn forget_gone(&self, projects: &mut Projects) {
        let is_gone = |path: &Path| {
            path.starts_with(&self.pods)
                && path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let gone = projects.directories().filter(|directory| is_gone(Path::new(directory)));
        for directory in gone.map(str::to_owned).collect::<Vec<_>>() {
            projects.take(&directory);
        }
    }

    /// Changes both files, while nobody else does.
    fn change<T>(&self, change: impl FnOnce(&mut Projects) -> io::Result<T>) -> io::Result<T> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let [projects, projid] = ["projects", "projid"].map(|name| self.folder.join(name));
        let (directories, names) = (locked(&projects)?, locked(&projid)?);
        let modes = [directories.metadata()?.mode() & 0o777, names.metadata()?.mode() & 0o777];
        let mut all = Projects::parse(&read(&directories)?, &read(&names)?);
        let before = all.print();
        let done = change(&mut all)?;
        let after = all.print();
        // Upstream's order. A crash in between leaves a project that one file names, and that no other directory gets.
        for at in [1, 0] {
            if after[at] != before[at] {
                write_whole([&projects, &projid][at], after[at].as_bytes(), modes[at])?;
            }
        }
        Ok(done)
    }
}

/// A regular file; a link is refused, as upstream.
fn open(path: &Path, make: bool) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(make).create(make).mode(0o644).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} exists but is not a plain file, cannot continue", path.display())));
    }
    Ok(file)
}

/// The file, made when it is missing, and locked. A change puts another file in its place: then that one is locked.
fn locked(path: &Path) -> io::Result<File> {
    for _ in 0..LOCK_TRIES {
        let file = open(path, true)?;
        match file.try_lock() {
            Ok(()) => {
                let (locked, there) = (file.metadata()?, path.symlink_metadata());
                if there.is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino())) {
                    return Ok(file);
                }
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("unable to lock {}", path.display())))
}

fn read(file: impl Read) -> io::Result<String> {
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("larger than 4 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
pub(in crate::platform) mod testing;
#[cfg(test)]
mod tests;
