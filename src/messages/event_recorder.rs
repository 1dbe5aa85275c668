//! To `EventRecorder`.

use std::sync::Arc;

use ractor::RpcReplyPort;

use super::describe;
use crate::logic::ids::{FullName, PodUid};
use crate::logic::time::Moment;

/// Something worth telling about a pod, or about the node: a Kubernetes Event, before it is one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PodEvent {
    /// Whose; of the node, its name.
    pub uid: PodUid,
    /// The pod's name and namespace.
    #[serde(skip)]
    pub full_name: FullName,
    /// Such as `spec.containers{web}`; empty for the pod itself.
    pub field_path: String,
    /// Warning, else Normal.
    pub warning: bool,
    /// One word, as upstream says it.
    pub reason: &'static str,
    /// A sentence, as upstream says it.
    pub message: String,
}

impl PodEvent {
    /// Whether it is about the node: it alone is in no namespace.
    pub fn is_about_node(&self) -> bool {
        self.full_name.namespace.is_empty()
    }
}

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
    /// From `PodManager`: the pod is gone; its events may go.
    PodForgotten(PodUid),
    /// From the debug server: the events of a pod, oldest first.
    OfPod(PodUid, RpcReplyPort<Arc<Vec<CountedEvent>>>),
}

describe!(EventRecorderMsg, message => match message {
    EventRecorderMsg::Recorded(event) => Some(&event.uid),
    EventRecorderMsg::PodForgotten(uid) | EventRecorderMsg::OfPod(uid, _) => Some(uid),
});
