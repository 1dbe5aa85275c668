//! A root directory for tests, whose mounts are gone with it, also after a failure.

use std::path::PathBuf;
use std::sync::Arc;

use nix::mount::{MntFlags, umount2};

use super::layout::Layout;
use super::linux::LinuxVolumeHost;
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::VolumePlace;
use crate::platform::files::mount_table;
use crate::platform::host::clock::SystemClock;

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
        VolumePlace { uid: uid(), plugin: plugin.to_owned(), name: name.to_owned(), is_device: false }
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
            let _ = umount2(&point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
        }
    }
}

/// The pod of these tests.
pub(super) fn uid() -> PodUid {
    PodUid::from("uid-1")
}

/// Whether this process may mount; the test skips itself where not.
#[track_caller]
pub(super) fn may_mount() -> bool {
    let may = nix::unistd::geteuid().is_root();
    if !may {
        crate::testing::skips::skip("only root can mount");
    }
    may
}

/// A disk of 16 MiB: a file behind a loop device, gone when dropped.
pub(super) struct Disk {
    /// Its path in `/dev`.
    pub(super) device: String,
    file: PathBuf,
}

impl Disk {
    /// `None`, and the test skips itself, where there are no loop devices.
    #[track_caller]
    pub(super) fn new(folder: &std::path::Path) -> Option<Self> {
        let path = folder.join("disk");
        std::fs::File::create(&path).and_then(|file| file.set_len(16 << 20)).expect("made");
        let ended = super::programs::run("losetup", &["-f", "--show", &path.display().to_string()], None);
        if !ended.is_ok() {
            crate::testing::skips::skip(&format!("no loop device: {}", ended.output.trim()));
            return None;
        }
        Some(Self { device: ended.output.trim().to_owned(), file: path })
    }

    /// Makes it larger.
    pub(super) fn grow_to(&self, bytes: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.file);
        file.and_then(|file| file.set_len(bytes)).expect("larger");
        assert!(super::programs::run("losetup", &["-c", &self.device], None).is_ok(), "seen");
    }

    /// Loop devices that have this one behind them: those of the disk's own folder, since tests run side by side.
    pub(super) fn users(&self) -> usize {
        let own = self.file.parent().and_then(|folder| folder.canonicalize().ok()).expect("its folder");
        let listed = super::programs::run("losetup", &["-l", "-n", "-O", "BACK-FILE"], None).output;
        let behind = listed.lines().filter(|line| line.contains("volumeDevices/pv-1/"));
        behind.filter(|line| std::path::Path::new(line.trim()).starts_with(&own)).count()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = super::programs::run("losetup", &["-d", &self.device], None);
    }
}
