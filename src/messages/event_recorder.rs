//! To `EventRecorder`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::RpcReplyPort;

use super::status::pod_watch::Watcher;
use super::{Lost, describe};
pub use crate::logic::events::PodEvent;
use crate::logic::events::outbox::Outcome;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::time::Moment;

/// An event and how often it was seen.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CountedEvent {
    /// The Event.
    #[serde(flatten)]
    pub event: Arc<PodEvent>,
    /// How often.
    pub count: u32,
    /// First time.
    pub first_seen: Moment,
    /// Last time.
    pub last_seen: Moment,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum EventRecorderMsg {
    /// From anyone: this happened.
    Recorded(PodEvent),
    /// From itself: a call of the API server ended.
    SendEnded(Result<Outcome, Lost>),
    /// From itself: the wait before the next try of a call is over.
    RetryDue,
    /// From Root, which stops the tree: Events that wait are sent now. The answer comes once none is left, or once
    /// the API server does not take one.
    Flush(RpcReplyPort<()>),
    /// From `PodManager`: the pod is gone; its events may go.
    PodForgotten(PodUid),
    /// From the debug server: the events of a pod, oldest first.
    OfPod(PodUid, RpcReplyPort<Arc<Vec<CountedEvent>>>),
    /// From the server: the last events of the whole node, the one seen last at the end. A watcher hears of each event
    /// after them; `None` when there are too many watchers already.
    Last(Option<EventWatcher>, RpcReplyPort<Option<Vec<CountedEvent>>>),
}

/// A watcher of events.
pub type EventWatcher = Watcher<CountedEvent>;

describe!(EventRecorderMsg, message => match message {
    EventRecorderMsg::Recorded(event) => Some(&event.uid),
    EventRecorderMsg::PodForgotten(uid) | EventRecorderMsg::OfPod(uid, _) => Some(uid),
    EventRecorderMsg::SendEnded(_)
    | EventRecorderMsg::RetryDue
    | EventRecorderMsg::Flush(_)
    | EventRecorderMsg::Last(..) => None,
});

/// The object of an Event.
#[derive(Clone, Debug)]
pub struct EventSubject {
    /// The pod; of the node, its name.
    pub uid: PodUid,
    /// Its name and namespace.
    pub full_name: FullName,
    /// Such as `spec.containers{web}`; empty for the pod itself.
    pub field_path: String,
}

impl EventSubject {
    /// The pod itself.
    pub fn pod(uid: &PodUid, full_name: &FullName) -> Self {
        Self { uid: uid.clone(), full_name: full_name.clone(), field_path: String::new() }
    }

    /// The node. Its UID is its name, as upstream's Events of nodes have it; it is in no namespace, where pods are in one.
    pub fn node(name: &str) -> Self {
        Self { uid: PodUid::from(name), full_name: FullName::new(name, ""), field_path: String::new() }
    }

    /// A persistent volume. It, too, is in no namespace.
    pub fn persistent_volume(name: &str, uid: &str) -> Self {
        Self { uid: PodUid::from(uid), full_name: FullName::new(name, ""), field_path: String::new() }
    }

    /// An Event that all is as it should be.
    pub fn normal(&self, reason: EventReason, message: impl Into<String>) -> EventRecorderMsg {
        self.event(false, reason, message.into())
    }

    /// An Event that something is not.
    pub fn warning(&self, reason: EventReason, message: impl Into<String>) -> EventRecorderMsg {
        self.event(true, reason, message.into())
    }

    /// An Event that something is not as it should be, with annotations for programs.
    pub fn annotated_warning(
        &self,
        reason: EventReason,
        message: impl Into<String>,
        annotations: BTreeMap<String, String>,
    ) -> EventRecorderMsg {
        match self.warning(reason, message) {
            EventRecorderMsg::Recorded(event) => EventRecorderMsg::Recorded(PodEvent { annotations, ..event }),
            other => other,
        }
    }

    fn event(&self, warning: bool, reason: EventReason, message: String) -> EventRecorderMsg {
        EventRecorderMsg::Recorded(PodEvent {
            uid: self.uid.clone(),
            full_name: self.full_name.clone(),
            field_path: self.field_path.clone(),
            warning,
            reason,
            message,
            is_claim: false,
            annotations: BTreeMap::new(),
        })
    }
}

impl EventRecorderMsg {
    /// The same Event, of the claim of this name instead of a pod.
    #[must_use]
    pub fn of_claim(self) -> Self {
        match self {
            Self::Recorded(event) => Self::Recorded(PodEvent { is_claim: true, ..event }),
            other => other,
        }
    }
}
