//! To `PodManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use ractor::RpcReplyPort;

use super::pod_source::SourceKind;
use super::runtime_monitor::RuntimeHealth;
use super::{Panicked, describe};
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::{Moment, Stamp};
use crate::logic::network::host_ips::HostIps;
use crate::logic::pods::pod_lifecycle::Demand;
use crate::logic::pods::pod_manager::pod_census::PodCensus;
use crate::logic::pods::pod_resize::PodResources;
use crate::logic::resources::cgroup_name::CgroupName;

/// What is on the node of a pod that nobody knows.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Whether it has a directory below `pods`.
    pub has_directory: bool,
    /// Directories of its logs.
    pub logs: Vec<String>,
    /// When its logs were written to last, where somebody looked.
    pub written: Option<Moment>,
    /// Its cgroups.
    pub cgroups: Vec<CgroupName>,
}

/// What a pass found.
#[derive(Debug, Default)]
pub struct Found {
    /// By pod.
    pub leftovers: BTreeMap<PodUid, Leftovers>,
    /// Whether logs take room that the node is short of.
    pub disk_is_full: bool,
}

/// What was done about that.
#[derive(Debug, Default)]
pub struct Swept {
    /// How many things went.
    pub removed: usize,
    /// Whether it had a directory, and why that stays if it does.
    pub directory: Option<Result<(), String>>,
    /// Why logs stay that were to go.
    pub logs: Option<String>,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum PodManagerMsg {
    /// From a pod source: the complete set of pods that it wants.
    SourceSet {
        /// Which source.
        source: SourceKind,
        /// All its pods, checked and named.
        pods: BTreeMap<PodUid, Arc<Pod>>,
        /// Pods that it did not want in between, and since when it wants them again: they end, and run anew.
        lives: BTreeMap<PodUid, Stamp>,
    },
    /// From `ApiSource`: what one pod is to be by now; nothing, when it is wanted no more. The complete set came before: who
    /// has not heard that one waits for it.
    SourcePod {
        /// Which source.
        source: SourceKind,
        /// Of which pod.
        uid: PodUid,
        /// What it is to be.
        pod: Option<Arc<Pod>>,
    },
    /// From `OfflinePods`: the API server cannot be heard since the agent started; it wanted these pods last.
    Recalled(BTreeMap<PodUid, Arc<Pod>>),
    /// From `Pleg`: what the runtime holds of one pod; nothing, when it is empty.
    Observed(Arc<RuntimePod>),
    /// From `Pleg`: the runtime was listed; it holds just these pods.
    Relisted {
        /// When the lists were asked for.
        taken: Stamp,
        /// All of them, with their names.
        pods: BTreeMap<PodUid, FullName>,
    },
    /// From `RuntimeMonitor`: whether the runtime can be worked with.
    HealthChanged(RuntimeHealth),
    /// From `NodeStatus`: the newest Node object, heartbeats aside; before the node is registered, the one to register with.
    NodeChanged(Arc<Node>),
    /// From `NodeStatus`: the host's addresses, as the newest Node has them, or the host itself while there is none.
    HostChanged(HostIps),
    /// From a `PodWorker`: nobody wants the pod, its containers have ended, its volumes are unmounted and its cgroup is gone.
    /// Whatever is left of it, it may go from the API and another one take its name.
    PodOver(PodUid),
    /// From a `PodWorker`: nothing is left of such a pod.
    WorkerFinished(PodUid),
    /// From itself: of a pod of the API that is over, and that the runtime does not hold, volumes and cgroup are to be released.
    ReleaseDue(PodUid),
    /// From itself: they are, or why they are not.
    Released(PodUid, Result<Result<(), String>, Panicked>),
    /// From the local socket: someone on this machine asks something of a pod (PAIN-34, PAIN-36).
    Demanded {
        /// Of which pod.
        pod: FullName,
        /// What.
        demand: Demand,
        /// The containers that it is about, or why it cannot be met; `None` when there is no such pod.
        reply: RpcReplyPort<Option<Result<Vec<String>, String>>>,
    },
    /// From `AllocationManager`: what pods were given by earlier runs of the agent, and by this one.
    Allocated(Arc<BTreeMap<PodUid, PodResources>>),
    /// From itself: what pods are given was kept on the disk; what that was, or why it could not be.
    AllocationsKept(Result<Result<BTreeMap<PodUid, PodResources>, String>, Panicked>),
    /// From itself: resizes that wait are to be looked at again.
    ResizeRetryDue,
    /// From itself: a pod that makes room for a critical one should have ended by now.
    GraceExceeded(PodUid),
    /// From itself: the Node was read once more, for pods that only its labels keep away; why not, if it was not.
    NodeReread(Result<Result<Box<Node>, String>, Panicked>),
    /// From itself: a worker that failed may start again.
    RestartDue(PodUid),
    /// From itself: what workers' full mailboxes refused is to be told again.
    RetellDue,
    /// From itself: time for housekeeping.
    HousekeepingDue,
    /// From itself, next: all pods are to be looked at.
    LookAgainDue,
    /// From itself, after that: all pods are to be counted.
    RecountDue,
    /// From itself: more pods are to start than may at once.
    StartMore,
    /// From itself: leftovers of pods that nobody knew were looked for.
    LeftoversFound(Result<Found, Panicked>),
    /// From itself: what was left of one such pod was removed, or what could be.
    LeftoversRemoved(PodUid, Result<Swept, Panicked>),
    /// From `ContainerGc`: which pods are wanted or still going; nothing before all sources were heard.
    Known(RpcReplyPort<Option<BTreeSet<PodUid>>>),
    /// From the metrics: how many pods there are.
    Count(RpcReplyPort<PodCensus>),
    /// From Root: someone who learns from the workers was started again.
    Repeat,
}

describe!(PodManagerMsg, message => match message {
    PodManagerMsg::Observed(pod) => Some(&pod.uid),
    PodManagerMsg::SourcePod { uid, .. }
    | PodManagerMsg::PodOver(uid)
    | PodManagerMsg::WorkerFinished(uid)
    | PodManagerMsg::ReleaseDue(uid)
    | PodManagerMsg::Released(uid, _)
    | PodManagerMsg::RestartDue(uid)
    | PodManagerMsg::GraceExceeded(uid)
    | PodManagerMsg::LeftoversRemoved(uid, _) => Some(uid),
    _ => None,
});
