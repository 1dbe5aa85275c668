//! To `Pleg`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::RpcReplyPort;

use super::{Panicked, describe};
use crate::cri::{ContainerEvent, CriError, CriResult};
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::pods::pleg_diff::PodRecord;

/// What two list calls showed: each pod's sandboxes and containers, by state.
#[derive(Debug)]
pub struct Relist {
    /// When the lists were asked for.
    pub taken: Stamp,
    /// By pod.
    pub pods: BTreeMap<PodUid, PodRecord>,
    /// Their names, as labels tell them.
    pub names: BTreeMap<PodUid, FullName>,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum PlegMsg {
    /// From itself: time for a relist.
    RelistDue,
    /// From itself: a relist ended.
    Relisted(Result<CriResult<Relist>, Panicked>),
    /// From itself: there was no relist for as long as that is borne.
    RelistOverdue,
    /// From a `PodWorker`: look at this pod now; the answer goes to `PodManager`.
    Inspect(PodUid),
    /// From a `PodWorker`: look at this pod when what was just done to it has settled.
    InspectSoon(PodUid),
    /// From itself: a pod of which something was made or started is to be looked at.
    LookDue(PodUid),
    /// From itself: a pod that could not be looked at may be tried again.
    InspectRetryDue(PodUid),
    /// From itself: a pod was looked at.
    Inspected(PodUid, Result<CriResult<Arc<RuntimePod>>, Panicked>),
    /// From itself: time to open the event stream again.
    StreamDue,
    /// From its own stream: the runtime takes event streams.
    StreamOpened,
    /// From its own stream: something happened to a container. Only a hint to look.
    EventArrived(ContainerEvent),
    /// From itself: the stream ended, and why.
    StreamEnded(Result<CriError, Panicked>),
    /// From Root: someone who learns from here was started again; tell everything once more.
    Repeat,
    /// From Root: `LogRotator` was started again; tell it of the pods as they were last seen, without asking the runtime.
    RepeatSeen,
    /// From the server: the pods that the runtime holds.
    Pods(RpcReplyPort<Vec<Arc<RuntimePod>>>),
}

describe!(PlegMsg, message => match message {
    PlegMsg::Inspect(uid)
    | PlegMsg::InspectSoon(uid)
    | PlegMsg::LookDue(uid)
    | PlegMsg::InspectRetryDue(uid)
    | PlegMsg::Inspected(uid, _) => Some(uid),
    _ => None,
});
