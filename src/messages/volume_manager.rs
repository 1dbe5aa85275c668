//! To `VolumeManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use ractor::RpcReplyPort;

use super::pods::pod_worker::PodWorkerMsg;
use super::{Ended, Lost, Subscriber, describe};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Steady;
use crate::logic::volumes::content::certificate::{CertificateEvent, CertificateKey, CertificateState};
use crate::logic::volumes::content::token::{TokenKey, TokenLife};
use crate::logic::volumes::expansion::KnownSize;
use crate::logic::volumes::order::VolumePlace;
use crate::logic::volumes::volume_states::{MountedVolume, MountedVolumes, Task, TaskFailure, VolumeFailure};

/// Tokens and certificates that an operation asked for, and other news that count however it ended. No `Debug`: tokens are
/// secret.
#[derive(Clone, Default)]
pub struct NewSecrets {
    /// Tokens.
    pub tokens: Vec<(TokenKey, Arc<str>, TokenLife)>,
    /// How far certificates are; `None` of one that is to be asked for anew.
    pub certificates: Vec<(CertificateKey, Option<CertificateState>)>,
    /// The news of them.
    pub events: Vec<CertificateEvent>,
    /// The news of the volume itself.
    pub of_volume: Option<VolumeEvent>,
    /// The news of its claim, which its pod hears too.
    pub of_claim: Vec<ClaimEvent>,
    /// The size of the volume on this node, where it may grow.
    pub size: Option<KnownSize>,
}

/// An Event of a claim, and of the pod that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEvent {
    /// The claim's name; it is in the pod's namespace.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Why.
    pub reason: EventReason,
    /// Whether something is not as it should be.
    pub is_warning: bool,
    /// The news.
    pub message: String,
}

/// An Event `FailedMountOnFilesystemMismatch` of a persistent volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEvent {
    /// The volume's name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The news.
    pub message: String,
}

impl fmt::Debug for NewSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens, {} certificates", self.tokens.len(), self.certificates.len())
    }
}

/// The result of a task.
#[derive(Debug, Default)]
pub struct TaskGain {
    /// A volume is there.
    pub mounted: Option<MountedVolume>,
    /// Volumes that were found on the disk.
    pub found: Vec<VolumePlace>,
    /// The news of a volume that is there now: Events `SuccessfulMountVolume`.
    pub news: Vec<String>,
    /// The warning to its author: an Event `AlreadyMountedVolume`.
    pub warning: Option<String>,
}

/// How many volumes there are, by the names of their plugins.
#[derive(Clone, Debug, Default)]
pub struct VolumeCensus {
    /// The volumes that pods want.
    pub desired: BTreeMap<String, usize>,
    /// The volumes that are there.
    pub actual: BTreeMap<String, usize>,
}

/// A pod with the volumes that it has.
pub type PodVolumes = (PodUid, Arc<Pod>, Arc<MountedVolumes>);

/// How a task ended.
#[derive(Debug)]
pub struct TaskEnd {
    /// Its result, or why it failed.
    pub outcome: Result<TaskGain, TaskFailure>,
    /// The secrets that it asked for on its way, which count in either case.
    pub secrets: NewSecrets,
}

impl TaskEnd {
    /// Of one that asked for no secrets.
    pub fn of(outcome: Result<TaskGain, TaskFailure>) -> Self {
        Self { outcome, secrets: NewSecrets::default() }
    }

    /// Of one that failed, and asked for none.
    pub fn failed(failure: TaskFailure) -> Self {
        Self::of(Err(failure))
    }
}

/// How a task fares.
#[derive(Debug, strum::IntoStaticStr)]
pub enum TaskNews {
    /// A task that takes long is at work.
    TaskMoves {
        /// The pod's UID.
        uid: PodUid,
        /// Which.
        task: Task,
        /// At what.
        doing: String,
        /// The message of an Event `VolumePermissionChangeInProgress`, if one is due.
        event: Option<String>,
    },
    /// A task waits until the cluster attached a volume.
    TaskAttaches {
        /// Whose.
        uid: PodUid,
        /// The volume, as the Node's status has it.
        volume: String,
    },
    /// A task ended.
    TaskEnded {
        /// The pod's UID.
        uid: PodUid,
        /// Which.
        task: Task,
        /// How.
        outcome: Box<Result<TaskEnd, Lost>>,
    },
}

/// How the search for attached volumes goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum AttachedStep {
    /// From Root: `NodeStatus` was started again, and knows of no volume.
    Repeat,
    /// Which volumes that the cluster attached to this node are mounted here, or why that is not known.
    AttachedFound(Ended<BTreeSet<String>>),
    /// Time to look for them again.
    AttachedDue,
    /// `CsiManager`, which had no room for the news that a staged volume may be unused, gets it again.
    RetellDue,
    /// From `CsiManager`: one was unstaged.
    Unstaged,
    /// From `CsiManager`: a driver has registered. Lost, it costs time: each task is tried again by itself.
    DriverCame,
}

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum VolumeManagerMsg {
    /// From a `PodWorker`'s operation: have the pod's volumes there; tells when all are, or why not. The worker hears when
    /// it is worth asking again sooner than it would.
    Ensure(Arc<Pod>, Subscriber<PodWorkerMsg>, RpcReplyPort<Result<Arc<MountedVolumes>, VolumeFailure>>),
    /// From a `PodWorker`: what is in the pod's volumes may have changed.
    Refresh(Arc<Pod>),
    /// From a `PodWorker`: nothing of the pod starts any more. Its volumes stay as they are until they are released.
    Ending(PodUid),
    /// From `ObjectCache`: objects that these pods refer to are not as they were. Lost, it costs time: each sync of a pod
    /// looks again.
    ObjectsChanged(BTreeSet<PodUid>),
    /// From a `PodWorker`'s operation, or housekeeping: the pod's containers are gone, its volumes go; tells when none is
    /// left, or why not.
    Release(PodUid, RpcReplyPort<Result<(), VolumeFailure>>),
    /// From the metrics: how many volumes there are.
    Count(RpcReplyPort<VolumeCensus>),
    /// From `StatsCollector`'s operation: all pods with the volumes that they have.
    All(RpcReplyPort<Vec<PodVolumes>>),
    /// From itself: how a task fares.
    #[strum(transparent)]
    Task(TaskNews),
    /// From itself: the search for attached volumes goes on.
    #[strum(transparent)]
    Attached(AttachedStep),
    /// From itself: a wait is over.
    RetryDue {
        /// For when it was set.
        at: Steady,
    },
}

describe!(VolumeManagerMsg, message => match message {
    VolumeManagerMsg::Release(uid, _)
    | VolumeManagerMsg::Task(
        TaskNews::TaskEnded { uid, .. } | TaskNews::TaskMoves { uid, .. } | TaskNews::TaskAttaches { uid, .. },
    ) => Some(uid),
    _ => None,
});
