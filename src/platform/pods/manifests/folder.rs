//! The static pod path on a Linux file system: a folder of manifests, or one manifest.
//!
//! Owned by the file source of pods. Keeps the path only; a watch lives in the stream that it gives out.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use inotify::{Event, EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};

use super::{Changes, Folder, FolderChange, MANIFEST_BYTES_MAX, ManifestFile, ManifestFolder, ReadError, ScanError};
use crate::platform::host::blocking;

/// Room for the events of one read: upstream's queue holds ten; a name takes up to 255 bytes.
const EVENT_BYTES: usize = 4096;
/// The most names in the folder, of manifests and of all else.
const NAMES_MAX: usize = 10_000;

/// [`ManifestFolder`] on a real file system.
#[derive(Clone, Debug)]
pub struct LinuxManifestFolder {
    path: PathBuf,
}

impl LinuxManifestFolder {
    /// The static pod path: a folder or a regular file, or what will be one. Slashes at its end do not count.
    pub fn new(path: &Path) -> Self {
        // Rebuilt from its components, which have no slash at the end.
        Self { path: path.components().collect() }
    }
}

#[async_trait]
impl ManifestFolder for LinuxManifestFolder {
    async fn scan(&self) -> Result<Folder, ScanError> {
        let path = self.path.clone();
        blocking::run(move || scan(&path).map_err(|error| failure(&path, &error))).await
    }

    async fn watch(&self) -> Result<Changes, ScanError> {
        let watch = Watch::start(&self.path).map_err(|error| failure(&self.path, &error))?;
        Ok(Box::pin(stream::unfold(Some(watch), |watch| async move { watch?.next().await })))
    }
}

fn failure(path: &Path, error: &io::Error) -> ScanError {
    ScanError { path: path.to_path_buf(), problem: error.to_string() }
}

fn scan(path: &Path) -> io::Result<Folder> {
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Folder { missing: true, ..Folder::default() });
        }
        other => other?,
    };
    if found.is_file() {
        return Ok(Folder { files: vec![read(path.to_path_buf())], is_one_file: true, ..Folder::default() });
    }
    if !found.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is neither a directory nor a regular file"));
    }
    let names = bounded_names(path, NAMES_MAX)?;
    let mut paths: Vec<PathBuf> = names.iter().filter(|name| !hidden(name)).map(|name| path.join(name)).collect();
    paths.sort_unstable();
    let files = paths.into_iter().filter_map(|path| match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => Some(read(path)),
        // A folder, device or socket is not for us.
        Ok(_) => None,
        // Removed since it was listed. A link that leads nowhere is there, and is worth a word.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => None,
        Err(error) => Some(ManifestFile { content: Err(error.into()), path }),
    });
    Ok(Folder { files: files.collect(), ..Folder::default() })
}

/// The names in a folder, at most so many: a folder with more holds something else than manifests, and counts as one that
/// cannot be read, so that no pod is taken for removed.
fn bounded_names(folder: &Path, max: usize) -> io::Result<Vec<OsString>> {
    let mut names = vec![];
    for entry in std::fs::read_dir(folder)? {
        if names.len() == max {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("holds more than {max} names")));
        }
        names.push(entry?.file_name());
    }
    Ok(names)
}

fn hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

fn read(path: PathBuf) -> ManifestFile {
    let content = read_bounded(&path).map(Arc::from);
    ManifestFile { path, content }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, ReadError> {
    // Not blocking: it may have become a FIFO since it was looked at.
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ReadError::NoFile);
    }
    let mut content = Vec::new();
    file.take(MANIFEST_BYTES_MAX as u64 + 1).read_to_end(&mut content)?;
    if content.len() > MANIFEST_BYTES_MAX {
        return Err(ReadError::TooLarge);
    }
    Ok(content)
}

/// The watched events of the path itself.
const OF_PATH: WatchMask = WatchMask::CREATE
    .union(WatchMask::MODIFY)
    .union(WatchMask::CLOSE_WRITE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::MOVE)
    .union(WatchMask::DELETE)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF);

/// A watch on the path and on the folder that holds it: a file replaced by a rename, or a path made anew, is seen there, and
/// the path is watched anew then. The folder's watch goes on all the while: no removal falls between two watches.
struct Watch {
    events: EventStream<[u8; EVENT_BYTES]>,
    /// None while the path is missing.
    path: Option<WatchDescriptor>,
    parent: Option<WatchDescriptor>,
    name: OsString,
    at: PathBuf,
    /// The files that were removed or moved away since the last hint.
    removed: BTreeSet<PathBuf>,
}

/// The meaning of an event for the watcher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Meaning {
    Nothing,
    Moved,
    Written,
    /// The watch no longer shows the path: it must be set up again.
    End,
}

impl Watch {
    fn start(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let named = path.file_name().zip(path.parent());
        // The parent first: what happens between the two calls is then seen by one of them.
        let parent = named.map(|(_, parent)| {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let mask = WatchMask::CREATE | WatchMask::MOVE | WatchMask::DELETE | WatchMask::ONLYDIR;
            inotify.watches().add(parent, mask)
        });
        let at = path.to_path_buf();
        let path = match inotify.watches().add(path, OF_PATH) {
            Ok(descriptor) => Some(descriptor),
            // Missing for now; its parent will tell.
            Err(error) if error.kind() == io::ErrorKind::NotFound && matches!(parent, Some(Ok(_))) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            events: inotify.into_event_stream([0; EVENT_BYTES])?,
            path,
            parent: parent.and_then(Result::ok),
            name: named.map(|(name, _)| name.to_os_string()).unwrap_or_default(),
            at,
            removed: BTreeSet::new(),
        })
    }

    /// Waits for a change. Events that are there already are taken together: one hint for all of them.
    async fn next(mut self) -> Option<(FolderChange, Option<Self>)> {
        let mut meaning = Meaning::Nothing;
        while meaning == Meaning::Nothing {
            let event = self.events.next().await;
            meaning = self.meaning_of(event);
        }
        while meaning < Meaning::End {
            match self.events.next().now_or_never() {
                Some(event) => meaning = meaning.max(self.meaning_of(event)),
                None => break,
            }
        }
        let change = FolderChange { is_whole: meaning == Meaning::Moved, removed: std::mem::take(&mut self.removed) };
        Some((change, (meaning < Meaning::End).then_some(self)))
    }

    fn meaning_of(&mut self, event: Option<io::Result<Event<OsString>>>) -> Meaning {
        let Some(Ok(event)) = event else { return Meaning::End };
        self.removed.extend(self.removed_by(&event));
        let ends = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED | EventMask::UNMOUNT;
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            Meaning::Written
        } else if Some(&event.wd) == self.path.as_ref() {
            match &event.name {
                _ if event.mask.intersects(ends) => self.watch_anew(Meaning::Written),
                Some(name) if hidden(name) => Meaning::Nothing,
                _ if event.mask.intersects(EventMask::MOVED_TO | EventMask::MOVED_FROM | EventMask::DELETE) => {
                    Meaning::Moved
                }
                _ => Meaning::Written,
            }
        } else if Some(&event.wd) == self.parent.as_ref() {
            match &event.name {
                _ if event.mask.intersects(ends) => Meaning::End,
                Some(name) if *name == self.name => {
                    let is_made = event.mask.contains(EventMask::CREATE);
                    self.watch_anew(if is_made { Meaning::Written } else { Meaning::Moved })
                }
                _ => Meaning::Nothing,
            }
        } else {
            Meaning::Nothing
        }
    }

    /// Watches what is at the path now; nothing while it is missing. `meaning` is that of the event that asks for it.
    fn watch_anew(&mut self, meaning: Meaning) -> Meaning {
        let mut watches = self.events.watches();
        if let Some(former) = self.path.take() {
            let _ = watches.remove(former); // The kernel may have ended it itself.
        }
        match watches.add(&self.at, OF_PATH) {
            Ok(descriptor) => self.path = Some(descriptor),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.parent.is_some() => {}
            Err(_) => return Meaning::End,
        }
        meaning
    }

    /// The file that went with the event, as a scan names it. It may be there again by now. A file that another was moved
    /// onto did not go: it was replaced.
    fn removed_by(&self, event: &Event<OsString>) -> Option<PathBuf> {
        let went = event.mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM);
        let name = event.name.as_ref().filter(|_| went)?;
        if Some(&event.wd) == self.path.as_ref() {
            return (!hidden(name)).then(|| self.at.join(name));
        }
        let is_ours = Some(&event.wd) == self.parent.as_ref() && *name == self.name;
        is_ours.then(|| self.at.clone())
    }
}

#[cfg(test)]
mod tests;
