//! Which calls to the runtime a piece of work has open, so that one which hangs can be named (PAIN-02).
//!
//! Owned by whoever begins the work, as an actor does with each of its operations; adapters enter their calls by
//! themselves. Keeps a call for as long as it is open.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

tokio::task_local! {
    static OF_WORK: Arc<OpenCalls>;
}

/// No two calls of a process have the same number.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The calls that one piece of work has open. It does not say what they were asked.
#[derive(Debug, Default)]
pub struct OpenCalls {
    calls: Mutex<Vec<(u64, &'static str, Instant)>>,
}

/// A call that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Tells it from every other.
    pub number: u64,
    /// Its name in CRI, such as `StartContainer`.
    pub method: &'static str,
    /// Since it was asked.
    pub open: Duration,
}

impl OpenCalls {
    /// The same work, with its calls entered here.
    pub fn of<F: Future>(calls: Arc<Self>, work: F) -> impl Future<Output = F::Output> {
        OF_WORK.scope(calls, work)
    }

    /// The call that is open for the longest time.
    pub fn oldest(&self) -> Option<OpenCall> {
        let calls = self.lock();
        let (number, method, began) = calls.iter().min_by_key(|(_, _, began)| *began)?;
        Some(OpenCall { number: *number, method, open: now().saturating_duration_since(*began) })
    }

    /// Enters a call of the work that the caller is part of; it is open until the entry is dropped. Outside of such work
    /// nothing is kept.
    pub fn enter(method: &'static str) -> Entry {
        let calls = OF_WORK.try_with(Arc::clone).ok();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        calls.iter().for_each(|calls| calls.lock().push((number, method, now())));
        Entry { calls, number }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, &'static str, Instant)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open call.
#[derive(Debug)]
#[must_use = "a call is open for as long as its entry lives"]
pub struct Entry {
    calls: Option<Arc<OpenCalls>>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.calls.iter().for_each(|calls| calls.lock().retain(|(number, ..)| *number != self.number));
    }
}

/// The clock of durations and back-off in this adapter.
#[expect(clippy::disallowed_methods, reason = "tokio's, which the simulator paused; no decision is made by it")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    async fn call(method: &'static str, takes: Duration) {
        let _open = OpenCalls::enter(method);
        tokio::time::sleep(takes).await;
    }

    /// PAIN-02.
    #[tokio::test(start_paused = true)]
    async fn the_oldest_open_call_of_a_piece_of_work_is_known() {
        let calls = Arc::<OpenCalls>::default();
        let work = async {
            call("ListContainers", seconds(1)).await;
            tokio::join!(call("ContainerStatus", seconds(100)), call("PodSandboxStatus", seconds(3)));
        };
        let mut work = Box::pin(OpenCalls::of(Arc::clone(&calls), work));
        for (wait, expected) in
            [(500, ("ListContainers", 500)), (2_500, ("ContainerStatus", 2_000)), (10_000, ("ContainerStatus", 12_000))]
        {
            let ended = tokio::time::timeout(Duration::from_millis(wait), &mut work).await;
            let oldest = calls.oldest().map(|call| (call.method, call.open.as_millis()));
            assert_eq!((ended.is_ok(), oldest), (false, Some(expected)));
        }
        drop(work);
        assert_eq!(calls.oldest(), None, "what is given up is not open any more");
        call("Version", seconds(1)).await; // Nobody's, and no trouble.
    }
}
