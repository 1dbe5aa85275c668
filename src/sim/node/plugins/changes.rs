//! News with many listeners, each of whom hears of it in the order in which they began to wait.
//!
//! tokio's `watch` wakes its receivers in an order of its own chance, so that one seed would tell several stories.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts changes.
#[derive(Debug, Default)]
pub struct Changes {
    count: AtomicU64,
    news: Notify,
}

impl Changes {
    /// Something has changed.
    pub fn tell(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.news.notify_waiters();
    }

    /// Hears of changes from now on.
    pub fn listen(self: &Arc<Self>) -> Listener {
        Listener { heard: self.count.load(Ordering::Relaxed), changes: Arc::clone(self) }
    }
}

/// Hears of changes.
#[derive(Debug)]
pub struct Listener {
    changes: Arc<Changes>,
    heard: u64,
}

impl Listener {
    /// Waits until something has changed that was not heard of yet.
    pub async fn changed(&mut self) {
        loop {
            let mut news = std::pin::pin!(self.changes.news.notified());
            news.as_mut().enable();
            let now = self.changes.count.load(Ordering::Relaxed);
            if now != self.heard {
                self.heard = now;
                return;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::task::JoinSet;

    use super::*;
    use crate::actors::kit::trace::lock;

    #[tokio::test]
    async fn listeners_hear_of_a_change_once_and_in_the_order_of_their_waits() {
        let (changes, heard) = (Arc::new(Changes::default()), Arc::new(Mutex::new(vec![])));
        let mut tasks = JoinSet::<()>::new();
        for number in 0..20 {
            let (mut listener, heard) = (changes.listen(), Arc::clone(&heard));
            tasks.spawn(async move {
                loop {
                    listener.changed().await;
                    lock(&heard).push(number);
                }
            });
        }
        for _ in 0..2 {
            tokio::task::yield_now().await;
            changes.tell();
            tokio::task::yield_now().await;
            assert_eq!(std::mem::take(&mut *lock(&heard)), Vec::from_iter(0..20));
        }
        let mut late = changes.listen();
        changes.tell();
        late.changed().await;
    }
}
