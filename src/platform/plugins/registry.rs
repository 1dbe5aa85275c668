//! The plugins' registry on a Linux file system: a folder with subfolders, watched by inotify.
//!
//! Keeps the path; a watch lives in the stream that it gives out.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use inotify::{EventMask, Inotify, WatchMask};
use rustix::fs::{AtFlags, FileType, StatxFlags};

use super::{Hints, PluginError, PluginRegistry};
use crate::logic::plugins::plugin_states::SocketIdentity;
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::host::blocking;

/// How deep subfolders are looked into.
const DEPTH_MAX: usize = 8;
/// How many sockets, and how many folders, are looked at; others are left out.
const SOCKETS_MAX: usize = 1024;
const FOLDERS_MAX: usize = 256;
/// How many names of one folder are looked at.
const NAMES_MAX: usize = 4096;
/// Room for the events of one read.
const EVENT_BYTES: usize = 4096;

/// [`PluginRegistry`] on a real file system.
#[derive(Clone, Debug)]
pub struct LinuxPluginRegistry {
    path: PathBuf,
}

impl LinuxPluginRegistry {
    /// The registry below this root directory.
    pub fn new(root_dir: &Path) -> Self {
        Self { path: root_dir.join("plugins_registry") }
    }
}

#[async_trait]
impl PluginRegistry for LinuxPluginRegistry {
    async fn scan(&self) -> Result<BTreeMap<String, SocketIdentity>, PluginError> {
        let path = self.path.clone();
        blocking::run(move || walk(&path).map(|found| found.sockets).map_err(|error| failed("read", &path, &error)))
            .await
    }

    async fn watch(&self) -> Result<Hints, PluginError> {
        let failed = |error: io::Error| failed("watch", &self.path, &error);
        let inotify = Inotify::init().map_err(failed)?;
        let mut watches = inotify.watches();
        let path = self.path.clone();
        watch_all(&path, &mut watches).map_err(failed)?;
        let events = inotify.into_event_stream([0; EVENT_BYTES]).map_err(failed)?;
        let hints = stream::unfold(Some((events, watches)), move |watch| {
            let path = path.clone();
            async move {
                let (mut events, mut watches) = watch?;
                let mut event = events.next().await;
                // Those that are there already are one hint; the registry itself ends with its folder.
                loop {
                    let Some(Ok(seen)) = event else { return Some(((), None)) };
                    if seen.mask.contains(EventMask::UNMOUNT) {
                        return Some(((), None));
                    }
                    match events.next().now_or_never() {
                        Some(next) => event = next,
                        None => break,
                    }
                }
                // New folders before the hint: what appears in them later is hinted at, what is there already is scanned.
                let goes_on = watch_all(&path, &mut watches).is_ok();
                Some(((), goes_on.then_some((events, watches))))
            }
        });
        Ok(Box::pin(hints))
    }
}

fn failed(attempt: &'static str, path: &Path, error: &io::Error) -> PluginError {
    PluginError::Registry { attempt, path: path.display().to_string(), problem: error.to_string() }
}

/// Everything of use below the registry.
#[derive(Default)]
struct Found {
    sockets: BTreeMap<String, SocketIdentity>,
    folders: Vec<Directory>,
}

/// Watches every folder; one that is watched already stays so.
fn watch_all(path: &Path, watches: &mut inotify::Watches) -> io::Result<()> {
    let mask = WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVE | WatchMask::DELETE_SELF;
    for folder in walk(path)?.folders {
        // By its descriptor, so that no link is followed.
        let by_descriptor = format!("/proc/self/fd/{}", std::os::fd::AsFd::as_fd(&folder).as_raw_fd());
        watches.add(by_descriptor, mask | WatchMask::ONLYDIR)?;
    }
    Ok(())
}

fn walk(path: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    let mut open = vec![(Directory::open(path)?, 0)];
    while let Some((folder, depth)) = open.pop() {
        for (name, kind) in folder.first_names(NAMES_MAX)? {
            if name.starts_with('.') {
                continue;
            }
            match kind {
                FileType::Directory if depth < DEPTH_MAX && found.folders.len() + open.len() < FOLDERS_MAX => {
                    // It may be gone by now, or a link.
                    open.extend(folder.directory(&[&name], Mounts::Cross).ok().map(|below| (below, depth + 1)));
                }
                FileType::Socket if found.sockets.len() < SOCKETS_MAX => {
                    let identity = identity(&folder, &name);
                    let path = folder.path().join(&name);
                    found.sockets.extend(path.to_str().map(str::to_owned).zip(identity));
                }
                _ => {}
            }
        }
        found.folders.push(folder);
    }
    Ok(found)
}

fn identity(folder: &Directory, name: &str) -> Option<SocketIdentity> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let seen = rustix::fs::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    if FileType::from_raw_mode(seen.stx_mode.into()) != FileType::Socket {
        return None;
    }
    // File systems give a number anew at once. A change of the mode makes no other socket, where the birth is known.
    let knows_birth = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::BTIME);
    let made = if knows_birth { seen.stx_btime } else { seen.stx_ctime };
    let made = made.tv_sec.saturating_mul(1_000_000_000).saturating_add(made.tv_nsec.into());
    let device = u64::from(seen.stx_dev_major) << 32 | u64::from(seen.stx_dev_minor);
    Some(SocketIdentity { device, inode: seen.stx_ino, made })
}
