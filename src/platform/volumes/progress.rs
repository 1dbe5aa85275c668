//! How far a set-up is that takes long for a good reason: it gives many files to the pod's group (VOL-29), or another pod's
//! set-up of the same files goes before it. Written by the thread that works, read by whoever waits. Keeps one set-up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::platform::host::clock::Clock;

/// The present step of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Doing {
    /// A call that takes no time, unless it hangs.
    #[default]
    Calls,
    /// Another set-up of the same files is to end first.
    Waits,
    /// A disk of a storage network is being attached: each step has a deadline of its own.
    Attaches,
    /// The files are being given to the pod's group, since this uptime.
    Walks {
        /// When it began.
        began: Duration,
    },
}

/// A change of files' ownership that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// How long it took.
    pub took: Duration,
    /// Whether it was not carried to its end.
    pub failed: bool,
}

/// See the module. Without a clock it takes no times.
#[derive(Default)]
pub struct Progress {
    clock: Option<Arc<dyn Clock>>,
    doing: Mutex<Doing>,
    files: AtomicU64,
    walks: Mutex<Vec<Walk>>,
}

impl Progress {
    /// Of a set-up that begins, timed by this clock.
    pub fn by(clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    /// The present step of the set-up, and how many files it has looked at.
    pub fn look(&self) -> (Doing, u64) {
        (*self.doing.lock().unwrap_or_else(PoisonError::into_inner), self.files.load(Ordering::Relaxed))
    }

    /// Takes the walks that are over.
    pub fn take_walks(&self) -> Vec<Walk> {
        std::mem::take(&mut *self.walks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From here on, another set-up goes before this one.
    pub fn waits(&self) {
        self.set(Doing::Waits);
    }

    /// A disk is being attached.
    pub fn attaches(&self) {
        self.set(Doing::Attaches);
    }

    /// It goes on.
    pub fn works(&self) {
        self.set(Doing::Calls);
    }

    /// A walk over files begins.
    pub fn begins_walk(&self) {
        self.files.store(0, Ordering::Relaxed);
        self.set(Doing::Walks { began: self.uptime() });
    }

    /// One more file was looked at.
    pub fn counts(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// The walk is over.
    pub fn ends_walk(&self, failed: bool) {
        if let (Doing::Walks { began }, _) = self.look() {
            let walk = Walk { took: self.uptime().saturating_sub(began), failed };
            self.walks.lock().unwrap_or_else(PoisonError::into_inner).push(walk);
            self.works();
        }
    }

    /// Does a walk.
    pub(super) fn walking<T, E>(&self, walk: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.begins_walk();
        let outcome = walk();
        self.ends_walk(outcome.is_err());
        outcome
    }

    fn set(&self, doing: Doing) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    }

    /// The present uptime; always zero without a clock.
    pub(super) fn uptime(&self) -> Duration {
        self.clock.as_ref().map(|clock| clock.uptime()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PAIN-41.
    #[test]
    fn a_walk_is_seen_while_it_goes_on_and_told_once_when_it_is_over() {
        let progress = Progress::default();
        progress.waits();
        assert_eq!(progress.look(), (Doing::Waits, 0));
        let outcome: Result<(), &str> = progress.walking(|| {
            progress.counts();
            progress.counts();
            assert_eq!(progress.look(), (Doing::Walks { began: Duration::ZERO }, 2));
            Err("no")
        });
        assert_eq!(outcome, Err("no"));
        assert_eq!(progress.look().0, Doing::Calls);
        assert_eq!(progress.take_walks(), [Walk { took: Duration::ZERO, failed: true }]);
        assert_eq!(progress.take_walks(), []);
    }
}
