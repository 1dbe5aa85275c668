//! One lock for each volume that several pods may share: to look who else has it and to act on that is one thing.
//!
//! Held by calls that may hang; such a call costs the volume that it is about. Keeps the locks in use, and which volumes
//! drivers have staged since the agent began.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::logic::volumes::csi::names::DevicePlace;

/// See the module. Clones share the locks.
#[derive(Clone, Default)]
pub(super) struct Locks {
    held: Arc<Mutex<BTreeMap<String, Arc<Mutex<()>>>>>,
}

impl Locks {
    /// Runs `work` while nobody else works on `name`.
    pub(super) fn with<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let lock = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(held.entry(name.to_owned()).or_default())
        };
        let outcome = {
            let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
            work()
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Two: the one in the table, and this one. Another waiter for it has a third.
        if Arc::strong_count(&lock) == 2 {
            held.remove(name);
        }
        outcome
    }
}

/// The state of a volume of the whole node, held while nobody else works on it.
pub type DeviceHold = OwnedMutexGuard<DeviceState>;

/// See [`DeviceHold`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// The driver staged it since the agent began, and has not unstaged it.
    pub staged: bool,
    /// The persistent volume that was staged or used last, which the note on the disk names.
    pub name: String,
}

/// The lock of one volume.
type Held = Arc<tokio::sync::Mutex<DeviceState>>;

/// The locks of volumes of the whole node. Clones share them.
#[derive(Clone, Default)]
pub struct DeviceHolds(Arc<Mutex<BTreeMap<DevicePlace, Held>>>);

impl DeviceHolds {
    /// Waits until nobody else works on the volume.
    pub async fn hold(&self, place: &DevicePlace) -> DeviceHold {
        let one = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of volumes that are not staged and that nobody holds or waits for say nothing.
            all.retain(|_, one| Arc::strong_count(one) > 1 || one.try_lock().is_ok_and(|state| state.staged));
            Arc::clone(all.entry(place.clone()).or_default())
        };
        one.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_works_at_a_time_and_nothing_is_kept() {
        let (locks, inside) = (Locks::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        locks.with("pv", || {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert!(locks.held.lock().expect("free").is_empty());
    }
}
