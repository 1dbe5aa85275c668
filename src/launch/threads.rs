//! The agent's threads: one for the tree of actors, one for those who ask it something.
//!
//! The tree has one, for turns are short and nothing waits on it: a second one would be woken for nearly every event of
//! the network, only to find that the first is at it. Callers of a listener are served on the other: so streams take
//! nothing from the tree, and a turn that does not end can still be asked about, and is named in the log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::actors::kit::trace::Trace;
use crate::actors::root::STUCK_AFTER;
use crate::actors::server::Listener;

/// Threads for calls that block, such as those on cgroups and files; each costs memory while it lives.
const BLOCKING_THREADS_MAX: usize = 8;
/// How long such a thread lives without work.
const BLOCKING_THREAD_IDLE: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Threads {
    pub tree: Runtime,
    pub visitors: Runtime,
}

impl Threads {
    pub fn start() -> io::Result<Self> {
        Ok(Self { tree: one("podwright")?, visitors: one("podwright-serve")? })
    }

    /// Leaves what is still under way to itself.
    pub fn end(self) {
        self.tree.shutdown_timeout(Duration::from_secs(1));
        self.visitors.shutdown_background();
    }
}

fn one(name: &str) -> io::Result<Runtime> {
    // Of the kind that may have several: only there do calls that block have threads of their own.
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_keep_alive(BLOCKING_THREAD_IDLE)
        .enable_all()
        .build()
}

/// A listener that is served on another thread than the tree's.
pub(super) struct Elsewhere {
    listener: Arc<dyn Listener>,
    threads: Handle,
}

impl Elsewhere {
    pub fn serve(listener: Arc<dyn Listener>, threads: &Handle) -> Arc<dyn Listener> {
        Arc::new(Self { listener, threads: threads.clone() })
    }
}

#[async_trait]
impl Listener for Elsewhere {
    fn name(&self) -> String {
        self.listener.name()
    }

    async fn serve(&self) -> String {
        let listener = Arc::clone(&self.listener);
        let served = async move { listener.serve().await }.in_current_span();
        let mut task = JoinSet::new(); // Dropped with this future, it ends the listener.
        task.spawn_on(served, &self.threads);
        match task.join_next().await {
            Some(Ok(why)) => why,
            Some(Err(error)) => error.to_string(),
            None => unreachable!("a task was spawned"),
        }
    }
}

/// Names each turn that does not end; never ends itself. Root, on the same thread as that turn, feeds no watchdog then.
pub(super) async fn watch(trace: Arc<Trace>) {
    loop {
        tokio::time::sleep(STUCK_AFTER).await;
        if let Some((actor, message, open)) = trace.stuck(STUCK_AFTER) {
            tracing::error!(%actor, message, open_for = ?open, "turn does not end; the watchdog is not fed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Says on which thread it is served, and when that is over.
    struct Told(Mutex<Sender<String>>, &'static str);

    struct Over(Sender<String>);

    impl Drop for Over {
        fn drop(&mut self) {
            let _ = self.0.send("over".to_owned()); // The test may have ended.
        }
    }

    #[async_trait]
    impl Listener for Told {
        fn name(&self) -> String {
            self.1.to_owned()
        }

        async fn serve(&self) -> String {
            let tell = self.0.lock().expect("not poisoned").clone();
            let _over = Over(tell.clone());
            tell.send(std::thread::current().name().unwrap_or_default().to_owned()).expect("heard");
            match self.1 {
                "fails" => "no socket".to_owned(),
                "panics" => panic!("no reason"),
                _ => std::future::pending().await,
            }
        }
    }

    #[test]
    fn a_listener_is_served_beside_the_tree_and_ends_with_its_operation() {
        let threads = Threads::start().expect("threads");
        let (tell, told) = channel();
        let visitors = threads.visitors.handle().clone();
        let (failed, panicked, heard, told) = threads.tree.block_on(async move {
            let one = |name| Elsewhere::serve(Arc::new(Told(Mutex::new(tell.clone()), name)), &visitors);
            let (failed, panicked) = (one("fails").serve().await, one("panics").serve().await);
            let third = one("goes on");
            let mut served = third.serve();
            assert!(tokio::time::timeout(Duration::from_millis(100), &mut served).await.is_err(), "it goes on");
            // It has begun before it is cut off.
            let heard: Vec<String> = (0..5).map(|_| told.recv().expect("told")).collect();
            drop(served);
            (failed, panicked, heard, told)
        });
        assert_eq!(failed, "no socket");
        assert!(panicked.contains("no reason"), "{panicked}");
        assert_eq!(heard, ["podwright-serve", "over", "podwright-serve", "over", "podwright-serve"]);
        assert_eq!(told.recv().expect("told"), "over");
        threads.end();
    }
}
