//! To `Prober`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::describe;
use super::pod_worker::PodWorkerMsg;
use crate::actors::address::Address;
use crate::actors::desk::Panicked;
use crate::logic::ids::PodUid;
use crate::logic::probe_schedule::ProbeKind;
use crate::platform::http_probe::ProbeOutcome;

/// One prober: a container's probe of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeKey {
    /// Whose.
    pub uid: PodUid,
    /// The container's name.
    pub container: String,
    /// Which probe.
    pub kind: ProbeKind,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ProberMsg {
    /// From a `PodWorker`: a pod with probes, and its newest status.
    PodChanged {
        /// Whose.
        uid: PodUid,
        /// What is wanted.
        pod: Arc<Pod>,
        /// What is.
        status: Arc<PodStatus>,
        /// Where results go.
        worker: Address<PodWorkerMsg>,
    },
    /// From a `PodWorker`: the pod's containers are gone.
    PodGone(PodUid),
    /// From `PodManager`: these are all pods there are; told now and then, because a pod may have gone while `PodManager`
    /// itself was restarted.
    Known(Arc<BTreeSet<PodUid>>),
    /// From itself: a round is due.
    RoundDue(ProbeKey),
    /// From itself: a probe ended.
    Probed(ProbeKey, Result<ProbeOutcome, Panicked>),
}

describe!(ProberMsg, message => match message {
    ProberMsg::PodChanged { uid, .. } | ProberMsg::PodGone(uid) => Some(uid),
    ProberMsg::Known(_) => None,
    ProberMsg::RoundDue(key) | ProberMsg::Probed(key, _) => Some(&key.uid),
});
