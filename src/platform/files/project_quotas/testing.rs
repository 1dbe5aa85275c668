//! A stand-in for a kernel that counts projects.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use super::{ProjectUse, QuotaCalls};

/// See the module.
#[derive(Default)]
pub(in crate::platform) struct PlayedQuotas {
    /// By inode of the directory.
    projects: Mutex<BTreeMap<u64, u32>>,
    /// By project.
    uses: Mutex<BTreeMap<u32, ProjectUse>>,
    /// The file system counts nothing.
    is_off: bool,
    /// The kernel lets no directory into a project.
    refuses: bool,
}

impl PlayedQuotas {
    /// A file system that counts nothing, if so.
    pub(in crate::platform) fn off(is_off: bool) -> Self {
        Self { is_off, ..Self::default() }
    }

    /// A kernel that lets no directory into a project.
    pub(in crate::platform) fn refusing() -> Self {
        Self { refuses: true, ..Self::default() }
    }

    /// A project uses this from now on.
    pub(in crate::platform) fn set_use(&self, project: u32, bytes: u64, inodes: u64) {
        self.uses.lock().expect("no test failed").insert(project, ProjectUse { bytes, inodes });
    }

    /// Somebody puts a directory into a project.
    pub(in crate::platform) fn set_project(&self, directory: BorrowedFd<'_>, project: u32) {
        let inode = rustix::fs::fstat(directory).expect("told").st_ino;
        self.projects.lock().expect("no test failed").insert(inode, project);
    }
}

impl QuotaCalls for PlayedQuotas {
    fn project_of(&self, directory: BorrowedFd<'_>) -> io::Result<u32> {
        let inode = rustix::fs::fstat(directory)?.st_ino;
        Ok(self.projects.lock().expect("no test failed").get(&inode).copied().unwrap_or(0))
    }

    fn put(&self, directory: BorrowedFd<'_>, project: u32) -> io::Result<()> {
        if self.refuses {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        self.set_project(directory, project);
        Ok(())
    }

    fn usage(&self, _: BorrowedFd<'_>, project: u32) -> io::Result<Option<ProjectUse>> {
        let uses = self.uses.lock().expect("no test failed");
        Ok((!self.is_off).then(|| uses.get(&project).copied().unwrap_or_default()))
    }
}
