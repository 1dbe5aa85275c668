//! Open files of processes, and how many of them are sockets.
//!
//! Owned by the statistics. Keeps a few numbers of each process that the last look saw. The kernel tells in one call how
//! many files a process has open, but what they are only file by file. Where all of a machine's daemons are in its root
//! group, that was a third of what a page of metrics costs. So a process is counted anew when that number is another one,
//! and now and then.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::AtFlags;

use super::files::folder;

/// The most open files that one look counts, of all groups together; beyond it nobody reads what they are.
const FILES_MAX: u64 = 20_000;
/// How long a count holds while the number of files stays the same.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Counts end one after the other within this many seconds, so that looks cost about the same.
const SPREAD: u32 = 15;

/// Of one process.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Which process it was: numbers of processes are used again, and then the folder is another one.
    inode: u64,
    /// The kernel's figure, told at once.
    told: i64,
    all: u64,
    sockets: u64,
    until: Duration,
    seen: bool,
}

/// The counts, by the number of the process.
#[derive(Default)]
pub(super) struct Counts(BTreeMap<u32, Counted>);

/// Counts for one look.
pub(super) struct OpenFiles<'a> {
    proc: &'a OwnedFd,
    counts: Counts,
    now: Duration,
    left: u64,
}

impl<'a> OpenFiles<'a> {
    /// Goes on from what was counted `before`. `now` is a time that never goes back.
    pub(super) fn new(proc: &'a OwnedFd, before: Counts, now: Duration) -> Self {
        Self { proc, counts: before, now, left: FILES_MAX }
    }

    /// The counts to go on from next time: without the processes that were not met.
    pub(super) fn into_counts(mut self) -> Counts {
        self.counts.0.retain(|_, counted| std::mem::take(&mut counted.seen));
        self.counts
    }

    /// Open files and sockets of a process, none of one that has gone; `None` once too many were counted.
    pub(super) fn of(&mut self, pid: u32) -> Option<(u64, u64)> {
        let path = format!("{pid}/fd");
        let Ok(stat) = rustix::fs::statat(self.proc, path.as_str(), AtFlags::SYMLINK_NOFOLLOW) else {
            return Some((0, 0));
        };
        let (inode, told) = (stat.st_ino, stat.st_size);
        // Kernels before 6.2 tell no number.
        let known = self.counts.0.get_mut(&pid).filter(|known| told > 0 && (known.inode, known.told) == (inode, told));
        if let Some(known) = known.filter(|known| self.now < known.until) {
            known.seen = true;
            return Some((known.all, known.sockets));
        }
        let (all, sockets) = self.counted(&path)?;
        let until = self.now + AGE_MAX + Duration::from_secs((pid % SPREAD).into());
        self.counts.0.insert(pid, Counted { inode, told, all, sockets, until, seen: true });
        Some((all, sockets))
    }

    fn counted(&mut self, path: &str) -> Option<(u64, u64)> {
        let Some(entries) = folder(self.proc, path) else { return Some((0, 0)) };
        let (mut all, mut sockets) = (0, 0);
        let mut target = Vec::new();
        let mut listed = rustix::fs::Dir::new(entries).ok()?;
        while let Some(entry) = listed.next() {
            let Ok(entry) = entry else { continue };
            if entry.file_name().to_bytes().first() == Some(&b'.') {
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            all += 1;
            if let Ok(link) = rustix::fs::readlinkat(listed.fd().ok()?, entry.file_name(), target) {
                sockets += u64::from(link.as_bytes().starts_with(b"socket:"));
                target = link.into_bytes();
            } else {
                target = Vec::new();
            }
        }
        Some((all, sockets))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::platform::statistics::tools::open_root;

    fn open(proc: &Path, pid: u32, number: u32, target: &str) {
        let folder = proc.join(format!("{pid}/fd"));
        fs::create_dir_all(&folder).expect("made");
        symlink(target, folder.join(number.to_string())).expect("made");
    }

    #[test]
    fn a_count_holds_for_a_while_and_for_the_same_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let proc = folder.path();
        open(proc, 7, 0, "/dev/null");
        open(proc, 7, 1, "socket:[4]");
        let root = open_root(proc).expect("open");
        let at = |counts: Counts, seconds: u64| OpenFiles::new(&root, counts, Duration::from_secs(seconds));
        let mut look = at(Counts::default(), 0);
        assert_eq!((look.of(7), look.of(8)), (Some((2, 1)), Some((0, 0))));
        // The same number of other files.
        fs::remove_file(proc.join("7/fd/1")).expect("there");
        open(proc, 7, 1, "/dev/null");
        let mut look = at(look.into_counts(), 30);
        assert_eq!(look.of(7), Some((2, 1)), "not counted anew");
        let mut look = at(look.into_counts(), 120);
        assert_eq!(look.of(7), Some((2, 0)), "the count was old");
        let mut look = at(look.into_counts(), 121);
        fs::rename(proc.join("7"), proc.join("gone")).expect("moved");
        open(proc, 7, 0, "socket:[4]");
        open(proc, 7, 1, "socket:[5]");
        assert_eq!(look.of(7), Some((2, 2)), "another process");
        let look = at(look.into_counts(), 122);
        assert!(look.into_counts().0.is_empty(), "a process that was not met is forgotten");
    }

    #[test]
    fn too_many_are_not_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..3 {
            open(folder.path(), 7, number, "/dev/null");
        }
        let root = open_root(folder.path()).expect("open");
        let mut look = OpenFiles { left: 2, ..OpenFiles::new(&root, Counts::default(), Duration::ZERO) };
        assert_eq!(look.of(7), None);
    }
}
