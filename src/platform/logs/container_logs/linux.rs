//! Logs of containers on a Linux file system, and the kernel's word on who writes to them.
//!
//! Owned by whoever rotates logs. Keeps the directory's path, one inotify instance, and the paths of its watches. A
//! watch ends with its first event, so a log that is written to all the time costs one event a look.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flate2::{Compression, GzBuilder};
use futures_util::{FutureExt, StreamExt};
use inotify::{EventMask, EventStream, Inotify, WatchMask, Watches};
use jiff::tz::TimeZone;
use rustix::fs::{AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use super::ContainerLogs;
use crate::logic::logs::log_rotation::{LogLook, compressed_names, leftovers, plan, to_compress};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::host::blocking;

/// Room for the events of one read. Those of files have no names.
const EVENT_BYTES: usize = 4096;
/// Rotated files compressed in one go: more are only there if something went wrong, and wait for the next.
const COMPRESSED_MAX: usize = 16;

/// [`ContainerLogs`] on a real file system. Clones share the watches.
#[derive(Clone)]
pub struct LinuxContainerLogs {
    folder: Arc<PathBuf>,
    zone: TimeZone,
    watch: Arc<Watch>,
}

struct Watch {
    /// By the watch's number, the log's path.
    paths: Mutex<BTreeMap<i32, String>>,
    watches: Option<Watches>,
    events: tokio::sync::Mutex<Option<EventStream<[u8; EVENT_BYTES]>>>,
}

impl LinuxContainerLogs {
    /// Logs below `pod_logs_dir`, absolute. Needs a runtime. Where the kernel has no inotify instance left, writes are
    /// never told, and each look says so.
    pub fn new(pod_logs_dir: PathBuf) -> Self {
        let begun = Inotify::init().and_then(|inotify| {
            let watches = inotify.watches();
            Ok((watches, inotify.into_event_stream([0; EVENT_BYTES])?))
        });
        let (watches, events) = match begun {
            Ok((watches, events)) => (Some(watches), Some(events)),
            Err(error) => {
                tracing::warn!(%error, "writes to logs cannot be watched, logs are looked at now and then");
                (None, None)
            }
        };
        let watch = Watch { paths: Mutex::default(), watches, events: tokio::sync::Mutex::new(events) };
        Self { folder: Arc::new(pod_logs_dir), zone: TimeZone::system(), watch: Arc::new(watch) }
    }

    async fn run<T: Send + 'static>(
        &self,
        attempt: &'static str,
        path: &str,
        call: impl FnOnce(&Place) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        let (folder, path) = (Arc::clone(&self.folder), path.to_owned());
        let failed = path.clone();
        let work = move || Place::open(&folder, &path).and_then(|place| call(&place));
        blocking::run(work).await.map_err(|error| FileError { attempt, path: failed, problem: error.to_string() })
    }
}

#[async_trait]
impl ContainerLogs for LinuxContainerLogs {
    async fn look(&self, paths: &[String]) -> Vec<LogLook> {
        let (folder, watch, paths) = (Arc::clone(&self.folder), Arc::clone(&self.watch), paths.to_vec());
        let look = move |path: &String| match watch.look(&folder, path) {
            Ok(Some((bytes, heard))) => LogLook::There(bytes, heard),
            Ok(None) => LogLook::Failed("not a regular file".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => LogLook::Missing,
            Err(error) => LogLook::Failed(error.to_string()),
        };
        blocking::run(move || paths.iter().map(look).collect()).await
    }

    async fn written(&self) -> Vec<String> {
        self.watch.written().await
    }

    async fn begin_rotation(&self, path: &str, files_max: usize, now: Moment) -> Result<String, FileError> {
        let now = jiff::Timestamp::from_nanosecond(now.0.into()).unwrap_or_default().to_zoned(self.zone.clone());
        let rotate = move |place: &Place| {
            let planned = plan(&place.name, &place.names()?, files_max, now.datetime());
            place.rename(&place.name, &planned.rotated)?;
            for old in &planned.remove {
                place.directory.remove_file(old)?;
            }
            Ok(planned.rotated)
        };
        let rotated = self.run("rotate log", path, rotate).await?;
        Ok(Path::new(path).with_file_name(rotated).to_string_lossy().into_owned())
    }

    async fn undo_rotation(&self, path: &str, rotated: &str) -> Result<(), FileError> {
        let rotated = Path::new(rotated).file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        self.run("undo rotation of log", path, move |place| place.rename(&rotated, &place.name)).await
    }

    async fn compress(&self, path: &str) -> Result<usize, FileError> {
        let compress = |place: &Place| {
            let names = place.names()?;
            for left in leftovers(&place.name, &names) {
                place.directory.remove_file(&left)?;
            }
            let mut compressed = 0;
            for name in to_compress(&place.name, &names).iter().take(COMPRESSED_MAX) {
                compressed += usize::from(place.compress(name)?);
            }
            Ok(compressed)
        };
        self.run("compress log", path, compress).await
    }
}

impl Watch {
    /// The size of a log, and whether the watch reports its next write; `None` when it is no regular file.
    fn look(&self, folder: &Path, path: &str) -> io::Result<Option<(u64, bool)>> {
        let place = Place::open(folder, path)?;
        let Some(file) = place.directory.read_regular(&[&place.name], Mounts::Cross)? else { return Ok(None) };
        // The watch first: what is written between the two is then either seen in the size or told.
        let heard = self.arm(&file, path);
        Ok(Some((file.metadata()?.len(), heard)))
    }

    fn arm(&self, file: &File, path: &str) -> bool {
        let Some(mut watches) = self.watches.clone() else { return false };
        let mask = WatchMask::MODIFY | WatchMask::ATTRIB | WatchMask::MOVE_SELF | WatchMask::ONESHOT;
        let mut paths = self.paths();
        match watches.add(format!("/proc/self/fd/{}", file.as_raw_fd()), mask) {
            Ok(descriptor) => {
                paths.insert(descriptor.get_watch_descriptor_id(), path.to_owned());
                true
            }
            Err(error) => {
                tracing::debug!(path, %error, "log cannot be watched");
                false
            }
        }
    }

    async fn written(&self) -> Vec<String> {
        let mut events = self.events.lock().await;
        let Some(stream) = events.as_mut() else { return std::future::pending().await };
        let mut written = vec![];
        loop {
            let event = match written.is_empty() {
                true => stream.next().await,
                // Events that are there already come together.
                false => match stream.next().now_or_never() {
                    Some(event) => event,
                    None => return written,
                },
            };
            match event {
                Some(Ok(event)) if event.mask.contains(EventMask::Q_OVERFLOW) => {
                    // Some were lost: any may have been written to.
                    return std::mem::take(&mut *self.paths()).into_values().collect();
                }
                Some(Ok(event)) => written.extend(self.paths().remove(&event.wd.get_watch_descriptor_id())),
                Some(Err(error)) => tracing::warn!(%error, "events of logs cannot be read"),
                None => {
                    *events = None;
                    return written;
                }
            }
        }
    }

    fn paths(&self) -> MutexGuard<'_, BTreeMap<i32, String>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log's directory, opened, and its name in it.
struct Place {
    directory: Directory,
    name: String,
}

impl Place {
    fn open(folder: &Path, path: &str) -> io::Result<Self> {
        let outside = || io::Error::other("is not below the pod logs directory");
        let below = Path::new(path).strip_prefix(folder).map_err(|_| outside())?;
        let segments = below.components().map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        let segments = segments.collect::<Option<Vec<&str>>>().ok_or_else(outside)?;
        let Some((name, parents @ [_, ..])) = segments.split_last() else { return Err(outside()) };
        let directory = Directory::open(folder)?.directory(parents, Mounts::Cross)?;
        Ok(Self { directory, name: (*name).to_owned() })
    }

    /// All names that are no directories.
    fn names(&self) -> io::Result<Vec<String>> {
        let names = self.directory.names()?.into_iter();
        Ok(names.filter(|(_, kind)| *kind != FileType::Directory).map(|(name, _)| name).collect())
    }

    /// Renames within the directory; never takes the place of another file. Not every file system can promise that in one
    /// step (NFS, older ZFS). No container writes there, so on those two will do.
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let here = &self.directory;
        match rustix::fs::renameat_with(here, from, here, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL) => self.rename_in_two_steps(from, to),
            renamed => Ok(renamed?),
        }
    }

    fn rename_in_two_steps(&self, from: &str, to: &str) -> io::Result<()> {
        let here = &self.directory;
        match rustix::fs::statat(here, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(Errno::NOENT) => Ok(rustix::fs::renameat(here, from, here, to)?),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Compresses one rotated log, by way of a temporary file; whether it was there.
    fn compress(&self, name: &str) -> io::Result<bool> {
        let source = match self.directory.read_regular(&[name], Mounts::Cross) {
            Ok(Some(source)) => source,
            Ok(None) => return Ok(false),
            // A later rotation has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let (compressed, temporary) = compressed_names(name);
        self.directory.remove_file(&temporary)?;
        let done = self.compress_into(source, &temporary).and_then(|()| self.rename(&temporary, &compressed));
        if done.is_err() {
            // Best effort: it would be found again as a leftover. The log itself stays as it is.
            let _ = self.directory.remove_file(&temporary);
        }
        done?;
        let was_there = self.directory.remove_file(name)?;
        if !was_there {
            // A rotation took it away meanwhile: it would be one more than there may be.
            self.directory.remove_file(&compressed)?;
        }
        Ok(was_there)
    }

    fn compress_into(&self, mut source: File, temporary: &str) -> io::Result<()> {
        let mode = source.metadata()?.permissions().mode() & 0o777;
        let target = self.directory.make_file(temporary, mode)?;
        let mut target = GzBuilder::new().write(target, Compression::default());
        io::copy(&mut source, &mut target)?;
        target.finish().map(drop)
    }
}

#[cfg(test)]
mod tests;
