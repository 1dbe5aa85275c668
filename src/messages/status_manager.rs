//! To `StatusManager`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use ractor::RpcReplyPort;

use super::describe;
use crate::logic::ids::PodUid;

/// A pod with its newest status.
#[derive(Clone, Debug)]
pub struct PodView {
    /// UID.
    pub uid: PodUid,
    /// What is wanted.
    pub pod: Arc<Pod>,
    /// What is.
    pub status: Arc<PodStatus>,
    /// Why it is not running or not gone, newest cause first; empty when all is well.
    pub waiting: Arc<Vec<String>>,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StatusManagerMsg {
    /// From a `PodWorker`: the pod's newest status.
    StatusChanged(PodView),
    /// From `PodManager`: the pod is gone.
    PodForgotten(PodUid),
    /// From `PodManager`: these are all pods there are; told now and then, because a pod may have gone while `PodManager`
    /// itself was restarted.
    Known(Arc<BTreeSet<PodUid>>),
    /// From the server: all pods, by namespace and name.
    List(RpcReplyPort<Vec<PodView>>),
}

describe!(StatusManagerMsg, message => match message {
    StatusManagerMsg::StatusChanged(view) => Some(&view.uid),
    StatusManagerMsg::PodForgotten(uid) => Some(uid),
    StatusManagerMsg::Known(_) | StatusManagerMsg::List(_) => None,
});
