//! The streams that are open: counted and bounded for all listeners that share them.

use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;

use super::Backend;
use crate::actors::kit::trace::lock;
use crate::logic::serving::streams::limits::{OpenStreams, TooMany};
use crate::server::listening::room::Room;

/// Bytes of large messages of all clients that are not passed on yet. One message has 32 MiB at most, as upstream.
const MESSAGES_BYTES: usize = 64 << 20;

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(in crate::server) enum Kind {
    /// A command.
    Exec,
    /// The container's own process.
    Attach,
    /// Connections to the pod.
    PortForward,
    /// A command without streams.
    Run,
    /// A checkpoint of a container.
    Checkpoint,
}

/// The streams that are open, of all listeners that share it.
pub struct Streams {
    open: Arc<Mutex<OpenStreams>>,
    tasks: Mutex<JoinSet<()>>,
    messages: Room,
}

impl Default for Streams {
    fn default() -> Self {
        Self { open: Arc::default(), tasks: Mutex::default(), messages: Room::of(MESSAGES_BYTES) }
    }
}

/// One open stream; counted until it is dropped.
pub(in crate::server) struct Permit {
    open: Arc<Mutex<OpenStreams>>,
    target: String,
}

impl Streams {
    pub(in crate::server) fn admit(&self, backend: &Backend, target: String, kind: Kind) -> Result<Permit, TooMany> {
        let now = backend.trace.clock().uptime();
        lock(&self.open).admit(&backend.stream_settings.limits, &target, kind == Kind::Attach, now)?;
        Ok(Permit { open: Arc::clone(&self.open), target })
    }

    /// Carries a stream on, beside the connection that it began with.
    pub(in crate::server) fn carry(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// The memory for large messages of clients.
    pub(in crate::server) fn messages(&self) -> Room {
        self.messages.clone()
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        lock(&self.open).total()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        lock(&self.open).release(&self.target);
    }
}
