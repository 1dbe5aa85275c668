//! Where blocking calls of adapters run: beside the actors' threads, or in place in the simulator. Lookups of names, which
//! may last for half a minute, have threads of their own.

pub mod lookup;

use std::cell::Cell;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

thread_local! {
    static PACE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Has each call that runs in place on this thread take so long before its effect, and as long after it. For the simulator.
pub fn pace(half: Duration) {
    PACE.set(half);
}

/// Runs a blocking call to its end and gives back what it returned.
///
/// On a runtime of several threads it runs on one kept for such calls. On a runtime of one thread it runs in place:
/// there a second thread would make the order of events differ from run to run, and paused time would wait for it.
/// A panic of the call goes on in the caller. Dropping the future does not stop a call that has begun.
pub async fn run<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let several_threads =
        Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if !several_threads {
        return in_place(call).await;
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that may: it keeps off the simulator's runtime")]
    let task = tokio::task::spawn_blocking(call);
    match task.await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down; this future is about to be dropped with it.
        Err(_) => std::future::pending().await,
    }
}

async fn in_place<T>(call: impl FnOnce() -> T) -> T {
    let half = PACE.get();
    if half.is_zero() {
        return call();
    }
    tokio::time::sleep(half).await;
    let value = call();
    tokio::time::sleep(half).await;
    value
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::run;

    #[test]
    fn one_thread_runs_the_call_in_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let here = thread::current().id();
        assert_eq!(runtime.block_on(run(move || thread::current().id())), here);
    }

    #[test]
    fn several_threads_run_the_call_beside_the_caller() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let here = thread::current().id();
        assert_ne!(runtime.block_on(run(move || thread::current().id())), here);
    }

    #[test]
    fn a_panic_of_the_call_reaches_the_caller() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(run(|| panic!("lost its footing")));
        }));
        let panic = outcome.expect_err("went on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"lost its footing"));
    }
}
