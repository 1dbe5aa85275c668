//! Accepting: one loop for all listeners, whatever their connections speak. Bounded in number; patient with a kernel that
//! refuses for a while.
//!
//! Owned by the listener, so that its connections end with it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};

use crate::logic::serving::crowding;

/// Accepting that fails this often in a row ends the listener; its supervisor opens it anew.
const FAILURES_MAX: u32 = 50;
/// Wait after a failure to accept, such as too many open files.
const RETRY: Duration = Duration::from_millis(200);

/// Where connections come from.
pub(in crate::server) trait Accept: Sync {
    /// A connection, or what is still to be done before it may speak.
    type Connection: Send;

    /// Waits for the next: `None` for one that was turned away.
    fn accept(&self) -> impl Future<Output = io::Result<Option<Self::Connection>>> + Send;
}

/// The standing of an open connection.
pub(in crate::server) trait Standing: Send {
    /// Whether it is closed when there is one more than there may be.
    fn gives_way(&self) -> bool;

    /// The user of a connection that is closed where none gives way; `None` while a request is under way on it.
    fn idle_user(&self) -> Option<Arc<str>> {
        None
    }
}

/// Accepts until that fails for good; says why. `begin` gives what a connection does, to its end, and its standing.
/// Dropping the future ends all connections.
///
/// Where there is one more than `connections_max`, the oldest that gives way is closed, so that idle ones cannot shut others
/// out. Where none gives way, an idle one of the user with most of them is closed; where each has a request, the new one.
pub(in crate::server) async fn accept_all<A: Accept, S: Standing, F: Future<Output = ()> + Send + 'static>(
    listener: A,
    connections_max: usize,
    mut begin: impl FnMut(A::Connection) -> (F, S) + Send,
) -> String {
    let mut open = Open { tasks: JoinSet::new(), order: VecDeque::new() };
    let mut failures = 0;
    loop {
        tokio::select! {
            biased;
            Some(ended) = open.tasks.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!(%error, "a request was not answered: its handler panicked");
                }
            }
            accepted = listener.accept() => match accepted {
                Ok(connection) => {
                    failures = 0;
                    if let Some(connection) = connection && open.has_room(connections_max) {
                        let (connection, standing) = begin(connection);
                        open.order.push_back((open.tasks.spawn(connection), standing));
                    }
                }
                Err(error) => {
                    failures += 1;
                    if failures >= FAILURES_MAX {
                        return format!("cannot accept connections: {error}");
                    }
                    tokio::time::sleep(RETRY).await;
                }
            },
        }
    }
}

struct Open<S> {
    tasks: JoinSet<()>,
    order: VecDeque<(AbortHandle, S)>,
}

impl<S: Standing> Open<S> {
    /// Whether there is room for one more, or room could be made.
    fn has_room(&mut self, connections_max: usize) -> bool {
        self.order.retain(|(connection, _)| !connection.is_finished());
        if self.order.len() < connections_max {
            return true;
        }
        let gives_way = self.order.iter().position(|(_, standing)| standing.gives_way());
        let idle = || self.order.iter().map(|(_, standing)| standing.idle_user()).collect::<Vec<_>>();
        let Some(place) = gives_way.or_else(|| crowding::to_close(&idle())) else { return false };
        if let Some((oldest, _)) = self.order.remove(place) {
            oldest.abort();
        }
        true
    }
}
