//! The runtime's event stream, with all that happens to events on their way.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream;
use tokio::sync::mpsc;

use crate::actors::kit::trace::lock;
use crate::cri::{ContainerEvent, ContainerEventKind, ContainerEvents, CriError, CriResult};
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::sim::faults::Fault;
use crate::sim::node::Node;

type Sender = mpsc::UnboundedSender<CriResult<ContainerEvent>>;

/// The listeners.
#[derive(Debug, Default)]
pub struct Events {
    listeners: Mutex<Vec<Sender>>,
}

impl Events {
    /// One more listener.
    pub fn listen(&self) -> ContainerEvents {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        lock(&self.listeners).push(sender);
        Box::pin(stream::poll_fn(move |context| receiver.poll_recv(context)))
    }

    /// Ends all streams.
    pub fn break_off(&self, why: &str) {
        for listener in lock(&self.listeners).drain(..) {
            // A listener that left needs no word.
            let _ = listener.send(Err(CriError::Unavailable { message: why.to_owned() }));
        }
    }

    /// Tells one event: at once, late, twice or never.
    pub fn tell(&self, node: &Node, id: &str, kind: ContainerEventKind, uid: &PodUid) {
        let event = ContainerEvent {
            container_id: ContainerId::from(id),
            kind,
            created_at: node.time.now(),
            pod_uid: Some(uid.to_string()),
        };
        if node.faults.strikes(Fault::Events, 0.15) {
            return;
        }
        if node.faults.strikes(Fault::Events, 0.02) {
            node.story.tell("fault", "the event stream ends");
            self.break_off("transport is closing");
            return;
        }
        if node.faults.strikes(Fault::Events, 0.1) {
            self.send(&event);
        }
        if node.faults.strikes(Fault::Events, 0.15) {
            let delay = node.faults.dice().between(Duration::from_millis(1), Duration::from_secs(5));
            node.later(delay, move |node| node.events.send(&event));
        } else {
            self.send(&event);
        }
    }

    fn send(&self, event: &ContainerEvent) {
        lock(&self.listeners).retain(|listener| listener.send(Ok(event.clone())).is_ok());
    }
}
