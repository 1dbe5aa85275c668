//! Runs calls that may hang, each on a thread of its own, and knows which of them do (PAIN-12, PAIN-13).
//!
//! A call in a file system that does not answer cannot be ended. It costs its thread and the one volume that it is about:
//! a second call for the same volume is refused, and a call past its deadline no longer counts among those that others
//! wait for. Keeps the calls under way.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, oneshot};

use super::VolumeError;
use crate::platform::clock::Clock;

/// Calls that run at once; those past their deadline are not counted.
const AT_ONCE_MAX: usize = 32;
/// A call that takes longer is said to hang.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);
/// The longest name that Linux gives a thread, in bytes.
const THREAD_NAME_MAX: usize = 15;

/// See the module. Clones share the calls.
#[derive(Clone)]
pub(in crate::platform) struct Patient {
    clock: Arc<dyn Clock>,
    deadline: Duration,
    places: Arc<Semaphore>,
    under_way: Arc<Mutex<BTreeMap<String, Call>>>,
}

/// A call under way.
struct Call {
    doing: &'static str,
    began: Duration,
}

/// Takes a call out of those under way, also when it panics.
struct Entry {
    key: String,
    under_way: Arc<Mutex<BTreeMap<String, Call>>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl Patient {
    pub(in crate::platform) fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_deadline(clock, DEADLINE)
    }

    pub(super) fn with_deadline(clock: Arc<dyn Clock>, deadline: Duration) -> Self {
        Self { clock, deadline, places: Arc::new(Semaphore::new(AT_ONCE_MAX)), under_way: Arc::default() }
    }

    /// Runs `call`, which does `doing` to `key`, to its end. Dropping the future leaves the call to itself: until it ends,
    /// another one for the same key is refused.
    pub(in crate::platform) async fn run<T: Send + 'static>(
        &self,
        key: String,
        doing: &'static str,
        call: impl FnOnce() -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let several_threads =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        if !several_threads {
            return call(); // A test's runtime: a second thread would make its order differ from run to run.
        }
        // Before the wait for a place: who holds one for this key already must not be waited for.
        let entry = self.enter(key, doing)?;
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        let key = entry.key.clone();
        let (tell, mut told) = oneshot::channel();
        let run = move || {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(call));
            drop(entry);
            let _ = tell.send(outcome); // The asker may have left.
        };
        let mut name = format!("vol {doing}");
        name.truncate(THREAD_NAME_MAX);
        if let Err(error) = std::thread::Builder::new().name(name).spawn(run) {
            return Err(VolumeError::Failed { attempt: "start a thread for", path: key, problem: error.to_string() });
        }
        let outcome = match tokio::time::timeout(self.deadline, &mut told).await {
            Ok(outcome) => outcome,
            Err(_) => {
                drop(place);
                tracing::warn!(volume = key, doing, "a call does not end: the file system may not answer");
                told.await
            }
        };
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("the thread tells before it ends"),
        }
    }

    /// Calls past their deadline.
    pub(super) fn hanging(&self) -> Vec<(String, Duration)> {
        let now = self.clock.uptime();
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = under_way.iter().map(|(key, call)| (key, call.doing, now.saturating_sub(call.began)));
        calls
            .filter(|(_, _, age)| *age >= self.deadline)
            .map(|(key, doing, age)| (format!("{doing} {key}"), age))
            .collect()
    }

    fn enter(&self, key: String, doing: &'static str) -> Result<Entry, VolumeError> {
        let began = self.clock.uptime();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = under_way.get(&key) {
            let age = began.saturating_sub(call.began).as_secs();
            return Err(VolumeError::Busy(format!("{} {key} for {age}s", call.doing)));
        }
        under_way.insert(key.clone(), Call { doing, began });
        Ok(Entry { key, under_way: Arc::clone(&self.under_way) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::platform::clock::SystemClock;

    fn patient(deadline: Duration) -> Patient {
        Patient::with_deadline(Arc::new(SystemClock::start()), deadline)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
    }

    #[test]
    fn a_hung_call_is_named_and_costs_only_its_own_volume() {
        let patient = patient(Duration::from_millis(1));
        runtime().block_on(async {
            let (release, hold) = mpsc::channel::<()>();
            let mut hung = Box::pin(patient.run("v1".into(), "mount", move || {
                hold.recv().expect("released");
                Ok(1)
            }));
            // More than there are places: each gives its place back once it is past its deadline.
            tokio::time::timeout(Duration::from_millis(20), &mut hung).await.expect_err("hangs");
            assert_eq!(patient.hanging().first().map(|(what, _)| what.as_str()), Some("mount v1"));
            let again = patient.run("v1".into(), "unmount", || Ok(2)).await.expect_err("the first has not ended");
            assert!(
                again.to_string().starts_with("an earlier call for this volume has not ended yet: mount v1 for"),
                "{again}"
            );
            assert_eq!(patient.run("v2".into(), "mount", || Ok(3)).await, Ok(3));
            release.send(()).expect("still held");
            assert_eq!(hung.await, Ok(1));
            assert_eq!(patient.run("v1".into(), "unmount", || Ok(4)).await, Ok(4));
            assert!(patient.hanging().is_empty());
        });
    }

    #[test]
    fn more_hung_calls_than_places_do_not_keep_others_waiting() {
        let patient = patient(Duration::from_millis(1));
        runtime().block_on(async {
            let mut releases = vec![];
            for number in 0..AT_ONCE_MAX + 1 {
                let (release, hold) = mpsc::channel::<()>();
                releases.push(release);
                let hung = patient.run(format!("v{number}"), "mount", move || {
                    let _ = hold.recv();
                    Ok(())
                });
                tokio::time::timeout(Duration::from_millis(5), hung).await.expect_err("hangs");
            }
            assert_eq!(patient.run("free".into(), "mount", || Ok(7)).await, Ok(7));
        });
    }

    #[test]
    fn a_call_whose_asker_left_still_keeps_its_volume() {
        let patient = patient(DEADLINE);
        runtime().block_on(async {
            let (release, hold) = mpsc::channel::<()>();
            let left = patient.run("v".into(), "mount", move || {
                let _ = hold.recv();
                Ok(())
            });
            tokio::time::timeout(Duration::from_millis(20), left).await.expect_err("left");
            patient.run("v".into(), "mount", || Ok(())).await.expect_err("busy");
            drop(release);
            while patient.run("v".into(), "mount", || Ok(())).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_asker_and_frees_the_volume() {
        let patient = patient(DEADLINE);
        let asked = patient.clone();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            runtime().block_on(asked.run("v".into(), "mount", || -> Result<(), VolumeError> { panic!("lost") }))
        }));
        assert!(outcome.is_err());
        assert_eq!(runtime().block_on(patient.run("v".into(), "mount", || Ok(1))), Ok(1));
    }
}
