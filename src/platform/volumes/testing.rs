//! A root directory for tests, whose mounts are gone with it, also after a failure.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::mount::{UnmountFlags, unmount};

use super::layout::Layout;
use super::linux::LinuxVolumeHost;
use crate::logic::ids::PodUid;
use crate::logic::volumes::order::VolumePlace;
use crate::platform::clock::SystemClock;
use crate::platform::mount_table;

/// See the module.
pub(super) struct Root {
    pub(super) folder: tempfile::TempDir,
}

impl Root {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(folder.path().join("pods")).expect("made");
        Self { folder }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.folder.path())
    }

    pub(super) fn host(&self) -> LinuxVolumeHost {
        LinuxVolumeHost::new(self.folder.path(), Arc::new(SystemClock::start()))
    }

    pub(super) fn place(&self, plugin: &str, name: &str) -> VolumePlace {
        VolumePlace { uid: uid(), plugin: plugin.to_owned(), name: name.to_owned() }
    }

    pub(super) fn pod(&self) -> PathBuf {
        self.folder.path().join("pods").join(uid().as_str())
    }

    pub(super) fn mounts(&self) -> Vec<PathBuf> {
        let mounts = mount_table::read().expect("told").into_iter().map(|mount| mount.point);
        mounts.filter(|point| point.starts_with(self.folder.path())).collect()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for point in self.mounts().into_iter().rev() {
            let _ = unmount(&point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

/// The pod of these tests.
pub(super) fn uid() -> PodUid {
    PodUid::from("uid-1")
}

/// Whether this process may mount; elsewhere tests of mounts say nothing.
pub(super) fn may_mount() -> bool {
    rustix::process::geteuid().is_root()
}
