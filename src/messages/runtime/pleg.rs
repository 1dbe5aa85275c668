//! To `Pleg`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::cri::{ContainerEvent, CriError};
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::runtime::pleg_diff::PodRecord;
use crate::messages::{Ended, Lost, describe};

/// The result of two list calls: each pod's sandboxes and containers, by state.
#[derive(Debug)]
pub struct Relist {
    /// When the lists were asked for.
    pub taken: Stamp,
    /// By pod.
    pub pods: BTreeMap<PodUid, PodRecord>,
    /// Their names, as labels tell them.
    pub names: BTreeMap<PodUid, FullName>,
    /// Of pods that have containers, the names of those that run.
    pub running: BTreeMap<PodUid, BTreeSet<String>>,
}

/// How a relist goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum RelistStep {
    /// Time for a relist.
    RelistDue,
    /// A relist ended.
    Relisted(Ended<Relist, CriError>),
    /// There was no relist for as long as that is borne.
    RelistOverdue,
}

/// How looks at pods go on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum LookStep {
    /// A pod of which something was made or started is to be looked at.
    LookDue(PodUid),
    /// A pod that could not be looked at may be tried again.
    InspectRetryDue(PodUid),
    /// A pod was looked at.
    Inspected(PodUid, Ended<Arc<RuntimePod>, CriError>),
}

/// How the runtime's event stream goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StreamStep {
    /// Time to open the event stream again.
    StreamDue,
    /// The runtime takes event streams.
    StreamOpened,
    /// Something happened to a container. Only a hint to look.
    EventArrived(ContainerEvent),
    /// The stream ended, and why.
    StreamEnded(Result<CriError, Lost>),
}

/// See the module. In the trace, a step has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum PlegMsg {
    /// From itself: a relist goes on.
    #[strum(transparent)]
    Relist(RelistStep),
    /// From itself: a look at a pod goes on.
    #[strum(transparent)]
    Look(LookStep),
    /// From its own stream: the stream goes on.
    #[strum(transparent)]
    Stream(StreamStep),
    /// From a `PodWorker`: look at this pod now; the answer goes to `PodManager`.
    Inspect(PodUid),
    /// From a `PodWorker`: look at this pod when what was just done to it has settled. These are the parts that it knows of.
    InspectSoon(Arc<RuntimePod>),
    /// From Root: someone who learns from here was started again; tell everything once more.
    Repeat,
    /// From Root: `LogRotator` was started again; tell it of the pods as they were last seen, without asking the runtime.
    RepeatSeen,
    /// From the server: the pods that the runtime holds.
    Pods(RpcReplyPort<Vec<Arc<RuntimePod>>>),
}

describe!(PlegMsg, message => match message {
    PlegMsg::InspectSoon(known) => Some(&known.uid),
    PlegMsg::Inspect(uid)
    | PlegMsg::Look(LookStep::LookDue(uid) | LookStep::InspectRetryDue(uid) | LookStep::Inspected(uid, _)) => Some(uid),
    _ => None,
});
