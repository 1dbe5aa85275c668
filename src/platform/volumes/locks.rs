//! One lock for each volume that several pods may share: to look who else has it and to act on that is one thing.
//!
//! Held by calls that may hang; such a call costs the volume that it is about. Keeps the locks in use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
