//! A watch: the two ends of a bounded queue between an actor and one who watches. `StatusManager` has watchers of pods,
//! `EventRecorder` those of Events.
//!
//! An actor never waits for a watcher. One that has not taken the last hundred changes loses its watch, as upstream, and
//! begins a new one with all that there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::pod_view::PodView;
use crate::logic::status::pod_change::PodChange;

/// Changes that may wait for a watcher: upstream's number.
pub const CHANGES_MAX: usize = 100;

/// A pod that changed.
#[derive(Clone, Debug)]
pub struct ChangedPod {
    /// How.
    pub change: PodChange,
    /// The pod as it is now; of one that is gone, as it was last.
    pub view: PodView,
}

/// News of the list that `podwright ps` prints.
#[derive(Clone, Debug)]
pub enum RowNews {
    /// A pod changed, or its waits did. One that is over is still in the list.
    Pod(ChangedPod),
    /// The manifests that give no pod are others.
    Refusals,
}

/// Watchers by what they watch.
#[derive(Debug)]
pub enum WatchOf {
    /// The pods and their statuses, as the Pods API has them.
    Pods(PodWatcher),
    /// The list of `podwright ps`.
    Rows(RowWatcher),
}

/// A watcher of the list.
pub type RowWatcher = Watcher<RowNews>;
/// A watcher of pods.
pub type PodWatcher = Watcher<ChangedPod>;
/// The changes of pods.
pub type PodChanges = Changes<ChangedPod>;

/// The actor's end.
#[derive(Debug)]
pub struct Watcher<T> {
    changes: Sender<T>,
    is_slow: Arc<AtomicBool>,
}

/// The fate of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It waits for the watcher.
    Waits,
    /// There was no room, and the watch is over.
    TooSlow,
    /// Nobody watches any more.
    Left,
}

impl<T> Watcher<T> {
    /// Both ends of a new watch.
    pub fn new() -> (Self, Changes<T>) {
        let (changes, receiver) = channel(CHANGES_MAX);
        let is_slow = Arc::new(AtomicBool::new(false));
        (Self { changes, is_slow: Arc::clone(&is_slow) }, Changes { receiver, is_slow })
    }

    /// Tells of a change; never waits.
    pub fn tell(&self, changed: T) -> Told {
        match self.changes.try_send(changed) {
            Ok(()) => Told::Waits,
            Err(TrySendError::Full(_)) => {
                self.is_slow.store(true, Ordering::Release);
                Told::TooSlow
            }
            Err(TrySendError::Closed(_)) => Told::Left,
        }
    }

    /// Whether nobody watches any more.
    pub fn is_left(&self) -> bool {
        self.changes.is_closed()
    }
}

/// The end that hears.
#[derive(Debug)]
pub struct Changes<T> {
    receiver: Receiver<T>,
    is_slow: Arc<AtomicBool>,
}

/// Why a watch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnded {
    /// The watcher was too slow. Upstream's text.
    #[error("watch client channel closed")]
    TooSlow,
    /// The actor that told of changes was restarted.
    #[error("the agent learns anew what there is, watch it again")]
    Lost,
}

impl<T> Changes<T> {
    /// Waits for the next change.
    ///
    /// # Errors
    /// The watch has ended, and all that was sent before was heard.
    pub async fn next(&mut self) -> Result<T, WatchEnded> {
        self.receiver.recv().await.ok_or_else(|| match self.is_slow.load(Ordering::Acquire) {
            true => WatchEnded::TooSlow,
            false => WatchEnded::Lost,
        })
    }
}
