//! A file system that stops answering (PAIN-12, PAIN-13): served by these tests until they fall silent.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::testing::{Root, may_mount};
use super::{LinuxVolumeHost, VolumeHost};
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::{
    HostPathKind, LocalOrder, Medium, Ownership, SetUp, SubPathOrder, VolumePlace, plugin,
};

/// Numbers of the kernel's requests (`linux/fuse.h`).
const GETATTR: u32 = 3;
const INIT: u32 = 26;
const FORGETS: [u32; 2] = [2, 42];
const ENOSYS: i32 = 38;
/// A directory that all may use.
const MODE: u32 = 0o040_777;

/// A file system of one empty directory. A call after it fell silent waits until it is dropped.
struct Silent {
    point: PathBuf,
    silent: Arc<AtomicBool>,
    device: File,
}

impl Silent {
    /// `None`, and the test skips itself, where there is no FUSE.
    fn serve(point: PathBuf) -> Option<Self> {
        let device = match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(device) => device,
            Err(error) => {
                crate::testing::skips::skip(&format!("/dev/fuse: {error}"));
                return None;
            }
        };
        fs::create_dir(&point).expect("made");
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other\0", device.as_raw_fd());
        let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).expect("ends with NUL");
        mount(Some("silent"), &point, Some("fuse"), MsFlags::empty(), Some(data)).expect("mounted");
        let silent = Arc::new(AtomicBool::new(false));
        let (mut requests, is_silent) = (device.try_clone().expect("cloned"), Arc::clone(&silent));
        std::thread::spawn(move || {
            let mut buffer = vec![0_u8; 256 << 10];
            // Ends when the file system is unmounted.
            while let Ok(length) = requests.read(&mut buffer) {
                let word = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().expect("four bytes"));
                let (request, unique) = (word(4), buffer[8..16].to_vec());
                if length < 40 || is_silent.load(Ordering::SeqCst) || FORGETS.contains(&request) {
                    continue;
                }
                let (error, body) = answer(request);
                let size = u32::try_from(16 + body.len()).expect("short");
                let head = [&size.to_le_bytes()[..], &error.to_le_bytes(), &unique].concat();
                if requests.write_all(&[head, body].concat()).is_err() {
                    return;
                }
            }
        });
        Some(Self { point, silent, device })
    }

    fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = umount2(&self.point, MntFlags::MNT_DETACH | MntFlags::MNT_FORCE);
        let _ = self.device.flush();
    }
}

fn answer(request: u32) -> (i32, Vec<u8>) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    match request {
        // Version 7.31, no flags, 4096 bytes at once; the rest is zero.
        INIT => (0, words(&[7, 31, 4096, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        GETATTR => {
            // Good for no time at all; inode 1, no size, no blocks, no times; mode, links.
            let mut body = words(&[0; 26]);
            body[16] = 1;
            body[76..80].copy_from_slice(&MODE.to_le_bytes());
            body[80] = 1;
            (0, body)
        }
        _ => (-ENOSYS, vec![]),
    }
}

fn place(uid: &str, plugin: &str, name: &str) -> VolumePlace {
    VolumePlace { uid: PodUid::from(uid), plugin: plugin.into(), name: name.into(), is_device: false }
}

fn local(source: &Path) -> SetUp {
    SetUp::Local(LocalOrder {
        source: source.display().to_string(),
        fs_type: "ext4".into(),
        read_only: false,
        options: vec![],
        ownership: Ownership::default(),
        exclusive: false,
    })
}

/// Longer than anything here takes that does not hang.
const LONG: Duration = Duration::from_secs(60);

async fn make_cache(host: &LinuxVolumeHost, uid: &str) {
    let cache = place(uid, plugin::EMPTY_DIR, "cache");
    let empty = SetUp::EmptyDir { medium: Medium::Disk, ownership: Ownership::default(), counted: false };
    tokio::time::timeout(LONG, host.set_up(&cache.uid, Some(&cache), empty)).await.expect("in time").expect("made");
}

/// PAIN-12, PAIN-13.
#[test]
fn a_silent_file_system_costs_its_own_volumes_alone_and_they_still_come_down() {
    let root = Root::new();
    let Some(dead) = may_mount().then(|| Silent::serve(root.folder.path().join("fuse"))).flatten() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let host = root.host();
        let share = place("uid-1", plugin::LOCAL, "share");
        host.set_up(&share.uid, Some(&share), local(&dead.point)).await.expect("it answers still");
        dead.fall_silent();

        // Every use of it hangs now: a second pod's mount, a look at the path, a part of the volume.
        let late = place("uid-2", plugin::LOCAL, "share");
        let path = dead.point.display().to_string();
        let look = SetUp::HostPath { path, kind: HostPathKind::Directory };
        let part = SubPathOrder {
            uid: share.uid.clone(),
            volume: "share".into(),
            mount: "data".into(),
            volume_path: dead.point.display().to_string(),
            container: "c".into(),
            index: 0,
            sub_path: "part".into(),
        };
        let (second, third) = (host.clone(), host.clone());
        let source = dead.point.clone();
        let fourth = host.clone();
        let mut hung = tokio::task::JoinSet::new();
        hung.spawn(async move { second.set_up(&late.uid, Some(&late), local(&source)).await.map(drop) });
        hung.spawn(async move { third.set_up(&PodUid::from("uid-3"), None, look).await.map(drop) });
        hung.spawn(async move { fourth.prepare_sub_path(part).await.map(drop) });

        // Other volumes, of this pod and of others, come and go.
        for uid in ["uid-1", "uid-4"] {
            make_cache(&host, uid).await;
            let cache = place(uid, plugin::EMPTY_DIR, "cache");
            tokio::time::timeout(LONG, host.tear_down(&cache)).await.expect("in time").expect("gone");
        }
        // The mount that is there after a restart is found without a look at the mount itself, by a host that knows
        // nothing.
        let restarted = root.host();
        let found = tokio::time::timeout(LONG, restarted.volumes_of(&share.uid)).await.expect("in time");
        assert_eq!(found.expect("listed"), std::slice::from_ref(&share));
        assert!(hung.try_join_next().is_none(), "they do hang");
        // And the pod's volume is unmounted although nobody answers.
        tokio::time::timeout(LONG, restarted.tear_down(&share)).await.expect("in time").expect("unmounted");
        assert!(!Path::new(&host.path_of(&share)).exists());

        drop(dead);
        while let Some(ended) = hung.join_next().await {
            ended.expect("ended").expect_err("the file system went away");
        }
    });
}
