//! To `PodManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use ractor::RpcReplyPort;

use super::pod_source::SourceKind;
use crate::logic::eviction::Eviction;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::pressure::Pressure;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::network::host_ips::HostIps;
use crate::logic::pods::pod_admission::placing::{Placing, QuestionId};
use crate::logic::pods::pod_lifecycle::{CleanUpFailure, Demand};
use crate::logic::pods::pod_manager::leftovers::{Found, Swept};
use crate::logic::pods::pod_manager::pod_census::PodCensus;
use crate::logic::pods::pod_resize::PodResources;
use crate::logic::resources::node_cgroups::MachineNow;
use crate::messages::runtime::runtime_monitor::RuntimeHealth;
use crate::messages::{Describe, Ended, Lost};

/// See the module.
///
/// Ten actors and endpoints tell it something, each in one or two variants; its own results are grouped by the part of the
/// actor that they are for. All of them stay in one mailbox, because their order matters: a pod's worker, its admission and
/// its resize are decided by the same facts. A fact that overtakes another one would be decided on half of them.
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
        /// The pod as it is to be.
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
        /// Of those that have containers, the names of the containers that run.
        running: BTreeMap<PodUid, BTreeSet<String>>,
    },
    /// From `RuntimeMonitor`: whether the runtime can be worked with.
    HealthChanged(RuntimeHealth),
    /// From `NodeStatus`: the newest Node object, heartbeats aside; before the node is registered, the one to register with.
    NodeChanged(Arc<Node>),
    /// From `NodeStatus`: the host's addresses, as the newest Node has them, or the host itself while there is none.
    HostChanged {
        /// The addresses.
        ips: HostIps,
        /// The machine, once it is of another size than at the start.
        machine: Option<Arc<MachineNow>>,
    },
    /// From a `PodWorker`: nobody wants the pod, its containers have ended, its volumes are unmounted and its cgroup is gone.
    /// With remains or without, it may go from the API and another one take its name.
    PodOver(PodUid),
    /// From a `PodWorker`: nothing is left of such a pod.
    WorkerFinished(PodUid),
    /// From the local socket: someone on this machine asks something of a pod (PAIN-34, PAIN-36).
    Demanded {
        /// Of which pod.
        pod: FullName,
        /// The demand.
        demand: Demand,
        /// The containers that it is about, or why it cannot be met; `None` when there is no such pod.
        reply: RpcReplyPort<Option<Result<Vec<String>, String>>>,
    },
    /// From `AllocationManager`: what pods were given by earlier runs of the agent, and by this one.
    Allocated(Arc<BTreeMap<PodUid, PodResources>>),
    /// From itself: for the part that looks after workers.
    Workers(WorkersMsg),
    /// From itself: for the part that judges new pods.
    Admission(AdmissionMsg),
    /// From itself: for the part that judges resizes.
    Resizes(ResizesMsg),
    /// From itself: for the part that releases and removes what pods left.
    Housekeeping(HousekeepingMsg),
    /// From `EvictionManager`.
    Eviction(EvictionMsg),
    /// From `ShutdownManager`.
    Shutdown(ShutdownMsg),
    /// From others that ask about pods.
    Question(PodQuestion),
    /// From Root: someone who learns from the workers was started again.
    Repeat,
}

/// Questions about all pods.
#[derive(Debug, strum::IntoStaticStr)]
pub enum PodQuestion {
    /// From `ContainerGc`: which pods are wanted or still going; nothing before all sources were heard.
    Known(RpcReplyPort<Option<BTreeSet<PodUid>>>),
    /// From the metrics: how many pods there are.
    Count(RpcReplyPort<PodCensus>),
}

/// Messages about evictions.
#[derive(Debug, strum::IntoStaticStr)]
pub enum EvictionMsg {
    /// From `EvictionManager`: which resources run short. New pods are judged by it.
    PressureChanged(Pressure),
    /// From `EvictionManager`: this pod has to end.
    Evict(PodUid, Box<Eviction>),
    /// From `EvictionManager`: pods of the API that have a worker and do not end yet, with what they were given.
    Active {
        /// Those with limits of local storage alone.
        limited: bool,
        /// Takes them.
        reply: RpcReplyPort<Vec<Arc<Pod>>>,
    },
    /// From `ContainerGc`, for `EvictionManager`: pods that are wanted or still going, but for those that are over; nothing
    /// before all sources were heard.
    Unfinished(RpcReplyPort<Option<BTreeSet<PodUid>>>),
}

/// Messages about a shutdown of the machine.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ShutdownMsg {
    /// From `ShutdownManager`: whether the machine goes down. Then no pod comes in.
    Changed(bool),
    /// From `ShutdownManager`: pods of all sources that have a worker and are not over.
    Active(RpcReplyPort<Vec<Arc<Pod>>>),
    /// From `ShutdownManager`: this pod has to end.
    End {
        /// Which.
        uid: PodUid,
        /// How long its containers have.
        grace: Duration,
    },
}

/// Messages of `PodManager` to itself about workers.
#[derive(Debug, strum::IntoStaticStr)]
pub enum WorkersMsg {
    /// From `PodManager`: a worker that failed may start again.
    RestartDue(PodUid),
    /// From `PodManager`: messages that workers' full mailboxes refused are to be sent again.
    RetellDue,
    /// From `PodManager`: more pods are to start than may at once.
    StartMore,
}

/// Messages about the admission of pods, most of them of `PodManager` to itself.
#[derive(Debug, strum::IntoStaticStr)]
pub enum AdmissionMsg {
    /// From `PodManager`: a pod that makes room for a critical one should have ended by now.
    GraceExceeded(PodUid),
    /// From `PodManager`: the Node was read once more, for pods that only its labels keep away.
    NodeReread(Ended<Box<Node>>),
    /// From `PodManager`: the managers of CPUs and memory were asked about pods; their answers.
    Placed(QuestionId, Ended<BTreeMap<PodUid, Placing>>),
    /// From `PodManager`: pods that they could not decide about are to be asked about again.
    PlaceAgainDue,
    /// From `AllocationManager`: more devices can be given, or those have changed that pods wait for.
    DevicesCame,
    /// From a `PodWorker`'s operation: a container of this pod cannot start, since it has not the devices that it asks for. The
    /// managers are to be asked about the pod once more. Lost, it comes again.
    LacksDevices(PodUid),
    /// From a `PodWorker`'s operation: the node has no room for a volume of this pod, and why; the pod is to be refused.
    /// Lost, it comes again.
    NoRoomForVolume(PodUid, String),
}

/// Messages of `PodManager` to itself about resizes.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ResizesMsg {
    /// From `PodManager`: what pods are given was to be kept on the disk; what was.
    AllocationsKept(Ended<BTreeMap<PodUid, PodResources>>),
    /// From `PodManager`: resizes that wait are to be looked at again.
    ResizeRetryDue,
}

/// Messages of `PodManager` to itself about leftovers of pods on the node.
#[derive(Debug, strum::IntoStaticStr)]
pub enum HousekeepingMsg {
    /// From `PodManager`: time for housekeeping.
    HousekeepingDue,
    /// From `PodManager`, next: all pods are to be looked at.
    LookAgainDue,
    /// From `PodManager`, after that: all pods are to be counted.
    RecountDue,
    /// From `PodManager`: leftovers of pods that nobody knew were looked for.
    LeftoversFound(Result<Found, Lost>),
    /// From `PodManager`: what was left of one such pod was removed, or what could be.
    LeftoversRemoved(PodUid, Result<Swept, Lost>),
    /// From `PodManager`: of a pod of the API that is over, and that the runtime does not hold, volumes and cgroup are to be
    /// released.
    ReleaseDue(PodUid),
    /// From `PodManager`: that release has ended.
    Released(PodUid, Ended<(), CleanUpFailure>),
}

impl Describe for PodManagerMsg {
    /// The trace names a grouped message as if it stood alone.
    fn name(&self) -> &'static str {
        match self {
            Self::Workers(message) => message.into(),
            Self::Admission(message) => message.into(),
            Self::Resizes(message) => message.into(),
            Self::Housekeeping(message) => message.into(),
            Self::Question(message) => message.into(),
            Self::Eviction(message) => message.into(),
            Self::Shutdown(message) => message.into(),
            message => message.into(),
        }
    }

    fn pod(&self) -> Option<&PodUid> {
        match self {
            Self::Observed(pod) => Some(&pod.uid),
            Self::SourcePod { uid, .. }
            | Self::PodOver(uid)
            | Self::WorkerFinished(uid)
            | Self::Eviction(EvictionMsg::Evict(uid, _))
            | Self::Shutdown(ShutdownMsg::End { uid, .. })
            | Self::Workers(WorkersMsg::RestartDue(uid))
            | Self::Admission(AdmissionMsg::GraceExceeded(uid) | AdmissionMsg::NoRoomForVolume(uid, _))
            | Self::Housekeeping(
                HousekeepingMsg::LeftoversRemoved(uid, _)
                | HousekeepingMsg::ReleaseDue(uid)
                | HousekeepingMsg::Released(uid, _),
            ) => Some(uid),
            _ => None,
        }
    }
}
