//! A call that may never end, such as one in a file system that does not answer: it has a thread of its own, and while it
//! hangs nobody begins another one. Keeps whether one is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// See the module. Clones share the call.
#[derive(Clone, Debug, Default)]
pub struct Alone {
    is_under_way: Arc<AtomicBool>,
}

/// Lets the next call begin, also after a panic.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Alone {
    /// The result of `call`; `None` when it does not end within `limit`, panics, or an earlier call has not ended.
    /// On a runtime of one thread the call runs in place.
    pub async fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let several_threads =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        if !several_threads {
            return Some(call()); // A test's runtime: a second thread would make its order differ from run to run.
        }
        if self.is_under_way.swap(true, Ordering::SeqCst) {
            return None;
        }
        let turn = Turn(Arc::clone(&self.is_under_way));
        let (tell, told) = oneshot::channel();
        let work = move || {
            let answer = call();
            drop(turn);
            let _ = tell.send(answer); // The asker may have left.
        };
        // Where no thread can be had, nothing was asked.
        std::thread::Builder::new().name("alone".to_owned()).spawn(work).ok()?;
        tokio::time::timeout(limit, told).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime")
    }

    #[test]
    fn a_call_that_hangs_is_left_to_itself_and_none_begins_beside_it() {
        let (alone, long) = (Alone::default(), Duration::from_secs(600));
        runtime().block_on(async {
            let (release, hold) = mpsc::channel::<()>();
            assert_eq!(alone.run(Duration::from_millis(1), move || hold.recv()).await, None);
            assert_eq!(alone.run(long, || 2).await, None, "the first one hangs");
            release.send(()).expect("it waits");
            while alone.run(long, || 3).await.is_none() {
                tokio::task::yield_now().await;
            }
            assert_eq!(alone.run(long, || -> i32 { panic!("lost its footing") }).await, None);
            assert_eq!(alone.run(long, || 4).await, Some(4));
        });
    }
}
