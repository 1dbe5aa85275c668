//! Reads small files of the kernel into one buffer that is used again and again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// The most that is read of a file.
const BYTES_MAX: usize = 4 << 20;
/// The first size of the buffer: most files fit.
const BYTES_FIRST: usize = 16 << 10;

/// See the module.
pub(super) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BYTES_FIRST] }
    }

    /// A file's bytes; `None` when it cannot be read, or is larger than what is ever read.
    pub(super) fn read(&mut self, folder: impl AsFd, name: &str) -> Option<&[u8]> {
        self.fill(folder, name, false)
    }

    /// The bytes of a file that the kernel writes in one go, as it does all of control groups but lists of processes: such a
    /// file has ended where less came than there was room for, and is not asked again.
    pub(super) fn record(&mut self, folder: impl AsFd, name: &str) -> Option<&[u8]> {
        self.fill(folder, name, true)
    }

    fn fill(&mut self, folder: impl AsFd, name: &str, is_record: bool) -> Option<&[u8]> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= BYTES_MAX {
                    return None;
                }
                self.buffer.resize(length * 2, 0);
            }
            match rustix::io::read(&file, &mut self.buffer[length..]) {
                Ok(0) => return Some(&self.buffer[..length]),
                Ok(count) => length += count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return None,
            }
            if is_record && length < self.buffer.len() {
                return Some(&self.buffer[..length]);
            }
        }
    }

    /// A file of one number, or of `max`.
    pub(super) fn number(&mut self, folder: impl AsFd, name: &str) -> Option<u64> {
        crate::logic::statistics::parse::number(self.record(folder, name)?)
    }
}

/// A directory below another one, to be read in; `None` when it is not there. Links are refused.
pub(super) fn folder(at: impl AsFd, path: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty()).ok()
}

/// Directories below a root, of which those that lead to the last one stay open: groups are visited pod by pod, so that
/// most of them are one name away from what is open.
pub(super) struct Trail<'a> {
    root: BorrowedFd<'a>,
    open: Vec<(String, OwnedFd)>,
}

impl<'a> Trail<'a> {
    pub(super) fn new(root: &'a OwnedFd) -> Self {
        Self { root: root.as_fd(), open: vec![] }
    }

    /// The directory of this path below the root; `None` when it is not there. Links are refused.
    pub(super) fn folder(&mut self, path: &str) -> Option<BorrowedFd<'_>> {
        let mut depth = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if self.open.get(depth).is_none_or(|(open, _)| open != name) {
                self.open.truncate(depth);
                let here = folder(self.here(), name)?;
                self.open.push((name.to_owned(), here));
            }
            depth += 1;
        }
        self.open.truncate(depth);
        Some(self.here())
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.open.last().map_or(self.root, |(_, here)| here.as_fd())
    }
}
