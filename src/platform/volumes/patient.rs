//! Runs calls that may hang, each on a thread that has nothing else to do, and knows which of them do (PAIN-12, PAIN-13).
//!
//! A call in a file system that does not answer cannot be ended. It costs its thread and the one volume that it is about: a
//! second call for the same volume waits for the first, but not for one past its deadline. Such a call no longer counts
//! among those that others wait for. Keeps the calls under way.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::VolumeError;
use super::progress::{Doing, Progress};
use crate::logic::model::time::Moment;
use crate::platform::host::clock::Clock;

/// Calls that run at once; those past their deadline are not counted.
const AT_ONCE_MAX: usize = 32;
/// A call that takes longer is said to hang.
pub(in crate::platform) const DEADLINE: Duration = Duration::from_secs(30);
/// How long a thread waits for another call before it ends. A pod's volumes come and go together, and of pods that come now
/// and then each would begin threads anew.
const IDLE: Duration = Duration::from_secs(60);

/// See the module. Clones share the calls.
#[derive(Clone)]
pub(in crate::platform) struct Patient {
    clock: Arc<dyn Clock>,
    deadline: Duration,
    places: Arc<Semaphore>,
    under_way: Arc<Mutex<BTreeMap<String, Call>>>,
    /// Told whenever a call ends.
    ended: Arc<Notify>,
    threads: Threads,
}

type Work = Box<dyn FnOnce() + Send>;

/// The threads that have nothing to do: each waits for a call for a while, and then ends. One whose call hangs is not
/// among them.
#[derive(Clone)]
struct Threads {
    idle: Arc<Mutex<Idle>>,
    patience: Duration,
}

/// How to give each such thread its next call, by a number that grows with each time that one becomes idle.
#[derive(Default)]
struct Idle {
    next: u64,
    threads: BTreeMap<u64, mpsc::Sender<Work>>,
}

impl Threads {
    /// Begins the work on the thread that became idle last, or on a new one.
    fn begin(&self, mut work: Work) -> std::io::Result<()> {
        let take = || self.idle().threads.pop_last();
        while let Some((_, thread)) = take() {
            match thread.send(work) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(back)) => work = back, // It has ended.
            }
        }
        let threads = self.clone();
        std::thread::Builder::new().name("volumes".to_owned()).spawn(move || threads.serve(work)).map(drop)
    }

    fn serve(&self, mut work: Work) {
        loop {
            work();
            let (sender, receiver) = mpsc::channel();
            let number = self.idle().add(sender);
            work = match receiver.recv_timeout(self.patience) {
                Ok(next) => next,
                Err(_) if self.idle().threads.remove(&number).is_some() => return,
                // It was chosen at the last moment.
                Err(_) => match receiver.recv() {
                    Ok(next) => next,
                    Err(_) => return,
                },
            };
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn add(&mut self, thread: mpsc::Sender<Work>) -> u64 {
        self.next += 1;
        self.threads.insert(self.next, thread);
        self.next
    }
}

/// A call under way.
struct Call {
    doing: &'static str,
    began: Duration,
    since: Moment,
    progress: Arc<Progress>,
}

impl Call {
    /// Whether it is long over its time for no good reason.
    fn hangs(&self, now: Duration, deadline: Duration) -> bool {
        now.saturating_sub(self.began) >= deadline && self.progress.look().0 == Doing::Calls
    }
}

/// Takes a call out of those under way, also when it panics.
struct Entry {
    key: String,
    under_way: Arc<Mutex<BTreeMap<String, Call>>>,
    ended: Arc<Notify>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        self.ended.notify_waiters();
    }
}

impl Patient {
    pub(in crate::platform) fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_deadline(clock, DEADLINE)
    }

    pub(super) fn with_deadline(clock: Arc<dyn Clock>, deadline: Duration) -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE_MAX));
        let threads = Threads { idle: Arc::default(), patience: IDLE };
        Self { clock, deadline, places, under_way: Arc::default(), ended: Arc::default(), threads }
    }

    /// Runs `call`, which does `doing` to `key`, to its end. Dropping the future leaves the call to itself: until it ends,
    /// another one for the same key waits, and is refused once the first is past its deadline.
    pub(in crate::platform) async fn run<T: Send + 'static>(
        &self,
        key: String,
        doing: &'static str,
        call: impl FnOnce() -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        self.run_watched(key, doing, Arc::default(), call).await
    }

    /// The same for a call that may take long without hanging, as `progress` shows.
    pub(super) async fn run_watched<T: Send + 'static>(
        &self,
        key: String,
        doing: &'static str,
        progress: Arc<Progress>,
        call: impl FnOnce() -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let several_threads =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        if !several_threads {
            return call(); // A test's runtime: a second thread would make its order differ from run to run.
        }
        // Before the wait for a place: of those who wait for a key none may hold one.
        let entry = self.enter(key, doing, &progress).await?;
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        let key = entry.key.clone();
        let (tell, mut told) = oneshot::channel();
        let run = move || {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(call));
            drop(entry);
            let _ = tell.send(outcome); // The asker may have left.
        };
        if let Err(error) = self.threads.begin(Box::new(run)) {
            return Err(VolumeError::Failed { attempt: "start a thread for", path: key, problem: error.to_string() });
        }
        let outcome = match tokio::time::timeout(self.deadline, &mut told).await {
            Ok(outcome) => outcome,
            Err(_) => {
                drop(place);
                match progress.look().0 {
                    Doing::Calls => {
                        tracing::warn!(volume = key, doing, "a call does not end: the file system may not answer");
                    }
                    at => tracing::info!(volume = key, doing, ?at, "a call takes long"),
                }
                told.await
            }
        };
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("the thread tells before it ends"),
        }
    }

    /// Calls past their deadline, and since when.
    pub(super) fn hanging(&self) -> Vec<(String, Moment)> {
        let now = self.clock.uptime();
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let hung = under_way.iter().filter(|(_, call)| call.hangs(now, self.deadline));
        hung.map(|(key, call)| (format!("{} {key}", call.doing), call.since)).collect()
    }

    async fn enter(&self, key: String, doing: &'static str, progress: &Arc<Progress>) -> Result<Entry, VolumeError> {
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable(); // Before the look: an end in between is heard.
            let Some(left) = self.try_enter(&key, doing, progress)? else {
                return Ok(Entry { key, under_way: Arc::clone(&self.under_way), ended: Arc::clone(&self.ended) });
            };
            let _ = tokio::time::timeout(left, ended).await; // Ended, or past its deadline: the next look tells.
        }
    }

    /// `None` when the call may begin, else how long the one before it has until its deadline.
    fn try_enter(
        &self,
        key: &str,
        doing: &'static str,
        progress: &Arc<Progress>,
    ) -> Result<Option<Duration>, VolumeError> {
        let (began, since) = (self.clock.uptime(), self.clock.now());
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = under_way.get(key) {
            let left = self.deadline.saturating_sub(began.saturating_sub(call.began));
            return match left.is_zero() {
                true => Err(VolumeError::Busy(format!("{} {key} since {}", call.doing, call.since.to_timestamp()))),
                false => Ok(Some(left)),
            };
        }
        under_way.insert(key.to_owned(), Call { doing, began, since, progress: Arc::clone(progress) });
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::host::clock::SystemClock;

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
                again.to_string().starts_with("an earlier call for this volume has not ended yet: mount v1 since 2"),
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
        let patient = patient(Duration::from_millis(1));
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

    /// Two volumes of one pod may be the same directory.
    #[test]
    fn a_second_call_waits_for_one_that_does_not_hang() {
        let patient = patient(DEADLINE);
        runtime().block_on(async {
            let (release, hold) = mpsc::channel::<()>();
            let (first, second) = (patient.clone(), patient.clone());
            let mut both = tokio::task::JoinSet::new();
            let mut slow = Box::pin(async move {
                let held = move || {
                    let _ = hold.recv();
                    Ok(1)
                };
                first.run("v".into(), "mount", held).await
            });
            tokio::time::timeout(Duration::from_millis(20), &mut slow).await.expect_err("it is under way");
            both.spawn(slow);
            let mut late = Box::pin(async move { second.run("v".into(), "mount", || Ok(2)).await });
            tokio::time::timeout(Duration::from_millis(20), &mut late).await.expect_err("it waits");
            both.spawn(late);
            drop(release);
            let mut ended = both.join_all().await;
            ended.sort_by_key(|outcome| outcome.clone().ok());
            assert_eq!(ended, [Ok(1), Ok(2)]);
        });
    }

    /// VOL-29.
    #[test]
    fn a_walk_over_many_files_takes_long_and_does_not_hang() {
        let (patient, progress) = (patient(Duration::from_millis(1)), Arc::new(Progress::default()));
        runtime().block_on(async {
            let ((release, hold), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
            let walks = Arc::clone(&progress);
            let mut walk = Box::pin(patient.run_watched("v".into(), "set up", progress, move || {
                let held = || {
                    begin.send(()).expect("the test goes on");
                    hold.recv()
                };
                walks.walking(held).map_err(|_| VolumeError::Refused("released".into()))
            }));
            tokio::time::timeout(Duration::from_millis(20), &mut walk).await.expect_err("it takes long");
            begun.recv().expect("the walk has begun");
            assert!(patient.hanging().is_empty());
            drop(release);
            walk.await.expect_err("released");
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

    /// Calls one after the other share a thread; one that hangs keeps its own.
    #[test]
    fn a_thread_serves_one_call_after_the_other() {
        let mut patient = patient(Duration::from_secs(30));
        patient.threads.patience = Duration::from_secs(600);
        runtime().block_on(async {
            let here = || Ok(std::thread::current().id());
            let first = patient.run("v1".into(), "mount", here).await.expect("no failure");
            while patient.threads.idle().threads.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await; // It tells before it is idle.
            }
            let (release, hold) = mpsc::channel::<()>();
            let (tell, told) = oneshot::channel();
            let hung = patient.run("v2".into(), "mount", move || {
                let _ = tell.send(std::thread::current().id());
                hold.recv().expect("released");
                Ok(())
            });
            let mut hung = Box::pin(hung);
            let second = tokio::select! { id = told => id.expect("it began"), _ = &mut hung => panic!("it hangs") };
            let third = patient.run("v3".into(), "mount", here).await.expect("no failure");
            assert_eq!(second, first);
            assert_ne!(third, second);
            release.send(()).expect("it waits");
            hung.await.expect("no failure");
        });
    }
}
