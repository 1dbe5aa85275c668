//! To `StatusManager`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use ractor::RpcReplyPort;

use super::describe;
use super::pod_source::SourceKind;
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

/// A manifest that gives no pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedManifest {
    /// The namespace and the name of the pod that it would be on this node, where so much of it can be read.
    pub pod: Option<(String, String)>,
    /// The file or the URL.
    pub place: String,
    /// Why, for people.
    pub why: String,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StatusManagerMsg {
    /// From a `PodWorker`: the pod's newest status.
    StatusChanged(PodView),
    /// From `PodManager`: the pod is gone.
    PodForgotten(PodUid),
    /// From a pod source: all manifests of it that give no pod; told whenever they changed.
    Refused(SourceKind, Vec<RefusedManifest>),
    /// From `PodManager`: these are all pods there are; told now and then, because a pod may have gone while `PodManager`
    /// itself was restarted.
    Known(Arc<BTreeSet<PodUid>>),
    /// From the server: all pods, by namespace and name.
    List(RpcReplyPort<Vec<PodView>>),
    /// From the server: all manifests that give no pod, by source and place.
    Refusals(RpcReplyPort<Vec<(SourceKind, RefusedManifest)>>),
}

describe!(StatusManagerMsg, message => match message {
    StatusManagerMsg::StatusChanged(view) => Some(&view.uid),
    StatusManagerMsg::PodForgotten(uid) => Some(uid),
    _ => None,
});
