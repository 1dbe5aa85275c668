//! The client certificate in files, as connections showed it last: whether somebody exchanged it since. Owned by the
//! credentials; keeps that certificate, and when its files are to be read again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::runtime_clock;
use crate::platform::cluster::key_pair::Pair;

/// How often the files are read while connections are open, as upstream reads them.
const PERIOD: Duration = Duration::from_secs(300);
/// How soon they are read again where they could not be, or were half written.
const PERIOD_AFTER_TROUBLE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(super) struct ShownFiles {
    shown: Mutex<Option<Shown>>,
    exchanges: AtomicU64,
}

struct Shown {
    pair: Pair,
    due: Instant,
}

impl ShownFiles {
    fn lock(&self) -> MutexGuard<'_, Option<Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These were read. The first ones exchange nothing: no connection shows others.
    pub fn note(&self, pair: &Pair) {
        let fresh = Shown { pair: pair.clone(), due: runtime_clock::now() + PERIOD };
        let before = self.lock().replace(fresh);
        if before.is_some_and(|before| !before.pair.same_chain(pair)) {
            tracing::info!(
                expiration = %pair.validity().not_after.to_timestamp(),
                "Certificate rotation detected, shutting down client connections to start using new credentials"
            );
            self.exchanges.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether they are to be read again. Says so to one caller: to others only if that one does not come back.
    pub fn are_due(&self) -> bool {
        let now = runtime_clock::now();
        let mut shown = self.lock();
        let due = shown.as_mut().filter(|shown| now >= shown.due);
        due.map(|shown| shown.due = now + PERIOD_AFTER_TROUBLE).is_some()
    }

    /// Whether a connection showed any.
    pub fn are_shown(&self) -> bool {
        self.lock().is_some()
    }

    /// Counts exchanges.
    pub fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Relaxed)
    }
}
