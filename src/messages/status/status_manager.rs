//! To `StatusManager`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use ractor::RpcReplyPort;

use crate::logic::model::ids::PodUid;
use crate::logic::pods::node_stop::NodeStop;
use crate::logic::status::device_health::DevicesOfPods;
use crate::logic::status::status_sync::Answer;
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::status::pod_watch::WatchOf;
use crate::messages::{Lost, describe};

pub use super::pod_view::PodView;

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

/// How long someone waits for an agent that was just started to know its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as the agent is new: the list of what is known so far is of use, too.
    WhileNew,
    /// As long as it takes: without the pod that is asked for there is no answer.
    UntilKnown,
}

/// The fate of pods on this node, as `PodManager` knows it, and the health of their devices.
#[derive(Debug, strum::IntoStaticStr)]
pub enum PodNews {
    /// Nothing is left of the pod on the node; it may go from the API when it is to.
    PodForgotten(PodUid),
    /// Of a pod of the API server that has ended, or is to, nothing is here: neither containers nor volumes.
    NeverHere(PodUid),
    /// This node does not take the pod; with the status that says so.
    Rejected(PodView),
    /// The node itself ends the pod; its status says so from now on.
    Stopped(PodUid, Arc<NodeStop>),
    /// These are all pods there are; told now and then, because a pod may have gone while `PodManager` itself was
    /// restarted, or its end may have met a full mailbox.
    Known {
        /// All pods.
        pods: Arc<BTreeSet<PodUid>>,
        /// Those of which nothing is on the node any more, but which the API server still has.
        ended: BTreeSet<PodUid>,
    },
    /// From `AllocationManager`: the health of the devices that pods own.
    Devices(Arc<DevicesOfPods>),
    /// All sources and the runtime were heard, and these pods have workers, which tell their statuses. Told once, and
    /// again after a restart of `StatusManager`.
    HeardAll(BTreeSet<PodUid>),
}

/// The API server's pods and mirrors of this node.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ApiNews {
    /// All of them.
    ApiPods(Vec<Arc<Pod>>),
    /// One as the API has it now.
    ApiPodSeen(Arc<Pod>),
    /// The API has this one no more.
    ApiPodGone(Arc<Pod>),
}

/// Timers of `StatusManager`.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StatusTimer {
    /// From `StatusManager`: what had to wait is due.
    SendDue,
    /// From `StatusManager`: the agent is no longer new.
    NewNoMore,
}

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StatusManagerMsg {
    /// From a `PodWorker`: the pod's newest status.
    StatusChanged(PodView),
    /// From `PodManager`: what becomes of pods here. From `AllocationManager`: the health of their devices.
    #[strum(transparent)]
    Pods(PodNews),
    /// From `ApiSource`: what the API server has.
    #[strum(transparent)]
    Api(ApiNews),
    /// From itself: a call for this pod ended.
    Answered(PodUid, Result<Answer, Lost>),
    /// From itself: a timer has ended.
    #[strum(transparent)]
    Timer(StatusTimer),
    /// From a pod source: all manifests of it that give no pod; told whenever they changed.
    Refused(SourceKind, Vec<RefusedManifest>),
    /// From the server: told when the status of each pod is here that was wanted once all sources had been heard; at once
    /// when the agent has known that for long, or never will.
    Settled(Patience, RpcReplyPort<()>),
    /// From the server: all pods, by namespace and name.
    List(RpcReplyPort<Vec<PodView>>),
    /// From the server: somebody watches pods from now on, and hears of each change after the pods of the answer; `None`
    /// when there are too many already.
    Watch(WatchOf, RpcReplyPort<Option<Vec<PodView>>>),
    /// From the server: all manifests that give no pod, by source and place.
    Refusals(RpcReplyPort<Vec<(SourceKind, RefusedManifest)>>),
}

describe!(StatusManagerMsg, message => match message {
    StatusManagerMsg::StatusChanged(view) | StatusManagerMsg::Pods(PodNews::Rejected(view)) => Some(&view.uid),
    StatusManagerMsg::Pods(PodNews::PodForgotten(uid) | PodNews::NeverHere(uid) | PodNews::Stopped(uid, _))
    | StatusManagerMsg::Answered(uid, _) => Some(uid),
    _ => None,
});
