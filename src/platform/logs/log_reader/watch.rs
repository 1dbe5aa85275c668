//! The readers that wait for logs, and the kernel's word that a log was written to.
//!
//! Owned by the reader of logs. One inotify instance for all followers, because a node has few; no task and no thread of
//! its own: of those who wait, one reads the events for all, and when it leaves the next one takes over.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use inotify::{EventMask, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use tokio::sync::Notify;

use super::Change;
use super::files::LogFolder;

/// Room for the events of one read, names included.
const EVENT_BYTES: usize = 16 * 1024;
/// How often a log is looked at where the kernel tells nothing, and the pause when its word cannot be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Watch {
    watches: Option<Watches>,
    events: tokio::sync::Mutex<Option<EventStream<[u8; EVENT_BYTES]>>>,
    folders: Mutex<Folders>,
}

#[derive(Default)]
struct Folders {
    /// By the watch's number.
    watched: BTreeMap<i32, Watched>,
    next: u64,
}

struct Watched {
    descriptor: WatchDescriptor,
    /// By their numbers.
    listeners: BTreeMap<u64, Arc<Listener>>,
}

struct Listener {
    /// The log's name.
    name: String,
    told: Notify,
    closed: AtomicBool,
}

/// One who waits for one log. Ends with its value.
pub(super) struct Listening {
    watch: Arc<Watch>,
    /// The watch's number; none where the kernel tells nothing.
    folder: Option<i32>,
    number: u64,
    listener: Arc<Listener>,
}

impl Watch {
    /// Needs a runtime. Where the kernel has no inotify instance left, those who wait look every second.
    pub(super) fn new() -> Self {
        let begun = Inotify::init().and_then(|inotify| {
            let watches = inotify.watches();
            Ok((watches, inotify.into_event_stream([0; EVENT_BYTES])?))
        });
        let (watches, events) = match begun {
            Ok((watches, events)) => (Some(watches), Some(events)),
            Err(error) => {
                tracing::warn!(%error, "logs that are followed cannot be watched, they are looked at every second");
                (None, None)
            }
        };
        Self { watches, events: tokio::sync::Mutex::new(events), folders: Mutex::default() }
    }

    /// Begins to hear of a log.
    pub(super) fn listen(self: &Arc<Self>, folder: &LogFolder) -> Listening {
        let told = Notify::new();
        let listener = Arc::new(Listener { name: folder.name.clone(), told, closed: AtomicBool::new(false) });
        let mut folders = self.folders();
        let number = folders.next;
        folders.next += 1;
        let folder = self.add(folder).map(|descriptor| {
            let id = descriptor.get_watch_descriptor_id();
            let watched = folders.watched.entry(id);
            let watched = watched.or_insert_with(|| Watched { descriptor, listeners: BTreeMap::new() });
            watched.listeners.insert(number, Arc::clone(&listener));
            id
        });
        Listening { watch: Arc::clone(self), folder, number, listener }
    }

    fn add(&self, folder: &LogFolder) -> Option<WatchDescriptor> {
        let mask = WatchMask::MODIFY
            | WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::MOVE
            | WatchMask::DELETE
            | WatchMask::ONLYDIR;
        let path = format!("/proc/self/fd/{}", folder.directory.as_fd().as_raw_fd());
        let added = self.watches.clone()?.add(path, mask);
        added.inspect_err(|error| tracing::debug!(log = folder.name, %error, "log cannot be watched")).ok()
    }

    /// Reads events for everybody, for ever. One at a time.
    async fn serve(&self) {
        let mut events = self.events.lock().await;
        let Some(stream) = events.as_mut() else { return std::future::pending().await };
        loop {
            match stream.next().await {
                Some(Ok(event)) if event.mask.contains(EventMask::Q_OVERFLOW) => self.tell_all(),
                Some(Ok(event)) => {
                    let closed = event.mask.contains(EventMask::CLOSE_WRITE);
                    self.tell(event.wd.get_watch_descriptor_id(), event.name.as_deref(), closed);
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "events of logs cannot be read");
                    tokio::time::sleep(LOOK_AGAIN).await;
                    self.tell_all();
                }
                None => return std::future::pending().await,
            }
        }
    }

    fn tell(&self, folder: i32, name: Option<&OsStr>, closed: bool) {
        let folders = self.folders();
        let Some(watched) = folders.watched.get(&folder) else { return };
        for listener in watched.listeners.values() {
            // The log, and what it was renamed to while it is still written to; not another instance's.
            let own = name.is_none_or(|name| name.to_str().is_some_and(|name| name.starts_with(&listener.name)));
            if own {
                listener.closed.fetch_or(closed, Ordering::Relaxed);
                listener.told.notify_one();
            }
        }
    }

    fn tell_all(&self) {
        for listener in self.folders().watched.values().flat_map(|watched| watched.listeners.values()) {
            listener.told.notify_one();
        }
    }

    /// Whether nobody waits.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.folders().watched.is_empty()
    }

    fn folders(&self) -> MutexGuard<'_, Folders> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    /// Waits until something happened since the last time.
    pub(super) async fn changed(&self) -> Change {
        if self.folder.is_none() {
            tokio::time::sleep(LOOK_AGAIN).await;
            return Change::Closed;
        }
        tokio::select! {
            biased;
            () = self.listener.told.notified() => {}
            () = self.watch.serve() => {}
        }
        if self.listener.closed.swap(false, Ordering::Relaxed) { Change::Closed } else { Change::Written }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut folders = self.watch.folders();
        let Some(id) = self.folder else { return };
        let Some(watched) = folders.watched.get_mut(&id) else { return };
        watched.listeners.remove(&self.number);
        if watched.listeners.is_empty()
            && let Some(watched) = folders.watched.remove(&id)
            && let Some(mut watches) = self.watch.watches.clone()
        {
            // The directory may be gone already, and its watch with it.
            let _ = watches.remove(watched.descriptor);
        }
    }
}
