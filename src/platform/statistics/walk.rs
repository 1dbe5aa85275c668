//! Walks through a directory and counts what it uses, as `du -x` does.
//!
//! The tree may be a container's work, and may change while it is walked: links are not followed, other file systems are not
//! entered, and one directory is open at a time however deep they nest. The way up is taken only to the directory that the
//! way down was taken from. Bounded by time, by entries, and by the names that are kept of directories still to be walked.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::disks::blocks;
use crate::logic::statistics::figures::Usage;
use crate::platform::host::clock::Clock;

/// The most entries of one walk.
const ENTRIES_MAX: u64 = 5_000_000;
/// The most names of directories that are kept at once. Each directory adds one at least; the others of it are read again
/// when there is room.
const NAMES_MAX: usize = 65_536;
/// The most directories one in another.
const DEPTH_MAX: usize = 65_536;
/// The most files with several names: the walk counts each of them once.
const LINKED_MAX: usize = 1_000_000;
/// How often the time is looked at, in entries; they take half a millisecond.
const ENTRIES_PER_LOOK: u64 = 256;
/// The pause between two parts of a walk that nobody waits for: it takes a third of a processor at most.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a walk gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It took too long, or met too much.
    Unfinished,
    /// Something could not be read, or was moved away under the walk.
    Failed(String),
}

/// A directory on the way down: which it is, and which of those in it are still to be walked.
struct Level {
    inode: u64,
    left: Part,
}

/// Names of directories in one, and the place from which on it was not read yet.
#[derive(Debug, Default)]
struct Part {
    names: Vec<CString>,
    rest: Option<i64>,
}

impl Part {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.rest.is_none()
    }
}

struct Walk<'a> {
    clock: &'a dyn Clock,
    until: Duration,
    has_pauses: bool,
    device: u64,
    usage: Usage,
    entries: u64,
    names_max: usize,
    /// Names of directories that are kept.
    names: usize,
    /// Files with several names that were counted.
    seen: BTreeSet<u64>,
}

/// Walks until the agent's uptime is `until`, with pauses or without.
pub(super) fn walk(root: OwnedFd, clock: &dyn Clock, until: Duration, has_pauses: bool) -> Result<Usage, Stopped> {
    let device = rustix::fs::fstat(&root).map_err(failed)?.st_dev;
    let (usage, seen) = (Usage::default(), BTreeSet::new());
    let walk = Walk { clock, until, has_pauses, device, usage, entries: 0, names_max: NAMES_MAX, names: 0, seen };
    walk.whole(root)
}

impl Walk<'_> {
    fn whole(mut self, root: OwnedFd) -> Result<Usage, Stopped> {
        let stat = rustix::fs::fstat(&root).map_err(failed)?;
        self.count(&stat)?;
        let mut here = root;
        let mut way = vec![Level { inode: stat.st_ino, left: self.read(&here, None)? }];
        while let Some(level) = way.last_mut() {
            if let Some(name) = level.left.names.pop() {
                self.names -= 1;
                let Some((below, inode)) = self.enter(&here, &name)? else { continue };
                let left = self.read(&below, None)?;
                // Most directories have none below them: those cost no way up.
                if !left.is_empty() {
                    if way.len() >= DEPTH_MAX {
                        return Err(Stopped::Unfinished);
                    }
                    way.push(Level { inode, left });
                    here = below;
                }
                continue;
            }
            if let Some(rest) = level.left.rest {
                level.left = self.read(&here, Some(rest))?;
                continue;
            }
            way.pop();
            if let Some(above) = way.last() {
                here = self.leave(&here, above.inode)?;
            }
        }
        self.usage.at = self.clock.now();
        Ok(self.usage)
    }

    /// Counts what is in a directory, from a place in it on; gives the directories among it, as far as there is room for
    /// their names.
    fn read(&mut self, here: &OwnedFd, from: Option<i64>) -> Result<Part, Stopped> {
        let mut part = Part::default();
        let mut entries = rustix::fs::Dir::read_from(here).map_err(failed)?;
        if let Some(from) = from {
            entries.seek(from).map_err(failed)?;
        }
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(here, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(failed(error)),
            };
            if stat.st_dev != self.device {
                continue;
            }
            self.count(&stat)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                part.names.push(entry.file_name().to_owned());
                self.names += 1;
                if self.names >= self.names_max {
                    part.rest = Some(entry.offset());
                    return Ok(part);
                }
            }
        }
        Ok(part)
    }

    fn count(&mut self, stat: &rustix::fs::Stat) -> Result<(), Stopped> {
        self.entries += 1;
        let is_due = self.entries.is_multiple_of(ENTRIES_PER_LOOK);
        if is_due && self.has_pauses {
            std::thread::sleep(PAUSE); // The thread is one of the pool for work that blocks.
        }
        if (is_due && self.clock.uptime() >= self.until) || self.entries > ENTRIES_MAX {
            return Err(Stopped::Unfinished);
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !is_directory && stat.st_nlink > 1 && !self.seen.insert(stat.st_ino) {
            return Ok(());
        }
        if self.seen.len() > LINKED_MAX {
            return Err(Stopped::Unfinished);
        }
        self.usage.bytes = self.usage.bytes.saturating_add(blocks(stat.st_blocks));
        self.usage.inodes += 1;
        Ok(())
    }

    /// Opens a directory below; `None` when it has gone, or is something else by now.
    fn enter(&self, here: &OwnedFd, name: &CString) -> Result<Option<(OwnedFd, u64)>, Stopped> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let below = match rustix::fs::openat(here, name, flags, Mode::empty()) {
            Ok(below) => below,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let stat = rustix::fs::fstat(&below).map_err(failed)?;
        Ok((stat.st_dev == self.device).then_some((below, stat.st_ino)))
    }

    /// Opens the directory above, which has to be the one that the way came from.
    fn leave(&self, here: &OwnedFd, inode: u64) -> Result<OwnedFd, Stopped> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = rustix::fs::openat(here, "..", flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&above).map_err(failed)?;
        if (stat.st_dev, stat.st_ino) != (self.device, inode) {
            return Err(Stopped::Failed("a directory was moved while it was walked through".to_owned()));
        }
        Ok(above)
    }
}

fn failed(error: Errno) -> Stopped {
    Stopped::Failed(std::io::Error::from(error).to_string())
}

#[cfg(test)]
mod tests;
