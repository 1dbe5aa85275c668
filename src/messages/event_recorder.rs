//! To `EventRecorder`.

use std::sync::Arc;

use ractor::RpcReplyPort;

use super::{Panicked, describe};
pub use crate::logic::events::PodEvent;
use crate::logic::events::outbox::Outcome;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;

/// An event and how often it was seen.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CountedEvent {
    /// What.
    #[serde(flatten)]
    pub event: PodEvent,
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
    SendEnded(Result<Outcome, Panicked>),
    /// From itself: the wait before the next try of a call is over.
    RetryDue,
    /// From `PodManager`: the pod is gone; its events may go.
    PodForgotten(PodUid),
    /// From the debug server: the events of a pod, oldest first.
    OfPod(PodUid, RpcReplyPort<Arc<Vec<CountedEvent>>>),
}

describe!(EventRecorderMsg, message => match message {
    EventRecorderMsg::Recorded(event) => Some(&event.uid),
    EventRecorderMsg::PodForgotten(uid) | EventRecorderMsg::OfPod(uid, _) => Some(uid),
    EventRecorderMsg::SendEnded(_) | EventRecorderMsg::RetryDue => None,
});
