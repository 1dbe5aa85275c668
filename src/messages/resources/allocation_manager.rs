//! To `AllocationManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use ractor::RpcReplyPort;

use crate::logic::model::histogram::{Histogram, milliseconds};
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::pods::pod_admission::placing::Placing;
use crate::logic::pods::pod_resize::{ContainerResources, Operation, PodResources, Trigger};
use crate::logic::resources::allocations::{Allocations, ManagerFigures, PlacementRecord, PodPinning, StateFiles};
use crate::logic::resources::cpu_manager::CpuSet;
use crate::logic::resources::device_manager::calls::Need;
use crate::logic::resources::device_manager::devices::{DeviceGrant, Inventory};
use crate::messages::{Ended, describe};

/// Bounds of `kubelet_pod_resize_duration_milliseconds`.
static RESIZE_BOUNDS: [Duration; 14] =
    milliseconds([10, 50, 100, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000]);

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum AllocationManagerMsg {
    /// From `PodManager`: pods are given this; answered once it is on the disk.
    Allocate(BTreeMap<PodUid, PodResources>, RpcReplyPort<Result<(), String>>),
    /// From a `PodWorker`: the runtime gets, or got, this; answered once it is on the disk.
    Actuate(Actuated, RpcReplyPort<Result<(), String>>),
    /// From a `PodWorker`: what was the runtime told of its pod?
    Recall(PodUid, RpcReplyPort<PodResources>),
    /// From `PodManager`: there are no pods but these.
    Known(Arc<BTreeSet<PodUid>>),
    /// From `PodManager` and `PodWorker`s: something happened that metrics count.
    Counted(Vec<ResizeCount>),
    /// From the server: what was counted so far.
    Counts(RpcReplyPort<ResizeCounts>),
    /// From the server: what containers own alone, and what they may be given.
    Allocations(RpcReplyPort<Arc<Allocations>>),
    /// From `PodManager`, `PodWorker`s, the server, the metrics and itself: about hardware that containers own.
    #[strum(transparent)]
    Hardware(HardwareMsg),
    /// From itself: something about the files.
    #[strum(transparent)]
    Files(FilesMsg),
    /// From Root: `PodManager` was started again. From itself: it had no room for the news.
    Repeat,
}

/// Messages about hardware that containers own: CPUs, memory of NUMA nodes, devices of plugins.
#[derive(Debug, strum::IntoStaticStr)]
pub enum HardwareMsg {
    /// From `PodManager`: these pods are to be given hardware.
    Place(PlaceRequest),
    /// From `PodManager`: every source was heard, and no other pods than these hold hardware.
    Holders(Arc<BTreeSet<PodUid>>),
    /// From a `PodWorker`: where do the pod's containers run?
    Find {
        /// The pod.
        pod: Arc<Pod>,
        /// The container that is about to be created, if one is.
        starting: Option<String>,
        /// Takes the answer.
        reply: RpcReplyPort<PodPinning>,
    },
    /// From `DevicePlugins`: what plugins say of their devices now.
    Devices(Arc<Inventory>),
    /// From itself: a device plugin was asked about a pod, and answered or did not.
    #[strum(transparent)]
    Device(DeviceStep),
    /// From the server: why was the pod given its hardware, or refused?
    Explain(PodUid, RpcReplyPort<Option<PlacementRecord>>),
    /// From the metrics: what was counted; nothing until the files were read.
    Figures(RpcReplyPort<Option<Box<ManagerFigures>>>),
    /// From itself: something about the files of state.
    #[strum(transparent)]
    State(StateStep),
    /// From itself: CPUs of running containers are to be compared with the state.
    ReconcileDue,
    /// From itself: that has ended, and these are the CPUs that the runtime got for each running container.
    Reconciled(Ended<BTreeMap<ContainerId, CpuSet>>),
}

/// Messages of `AllocationManager` to itself, about the files of state of hardware.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StateStep {
    /// From `AllocationManager`: the files were read once more, or why one could not be.
    Read(Ended<StateFiles>),
    /// From `AllocationManager`: the files were written, or why one could not be.
    Written(Ended<()>),
    /// From `AllocationManager`: what could not be read or written is to be tried again.
    RetryDue,
}

/// Messages of `AllocationManager` to itself, about calls of device plugins.
#[derive(Debug, strum::IntoStaticStr)]
pub enum DeviceStep {
    /// From `AllocationManager`: the devices that a plugin prefers for the pod.
    Preferred(PodUid, Ended<Vec<String>>),
    /// From `AllocationManager`: what a plugin gives one of the pod's containers along with its devices.
    Allocated(PodUid, Need, Ended<DeviceGrant>),
}

/// Pods that are to be given hardware.
#[derive(Debug)]
pub struct PlaceRequest {
    /// In this order.
    pub pods: Vec<Arc<Pod>>,
    /// No other pods than these hold hardware; `None` until every source was heard.
    pub holders: Option<Arc<BTreeSet<PodUid>>>,
    /// The containers of each that run already, by name: they keep the devices that they have.
    pub running: BTreeMap<PodUid, BTreeSet<String>>,
    /// Takes an answer for each pod.
    pub reply: RpcReplyPort<BTreeMap<PodUid, Placing>>,
}

/// Messages of `AllocationManager` to itself, about its files.
#[derive(Debug, strum::IntoStaticStr)]
pub enum FilesMsg {
    /// From `AllocationManager`: what the files say, nothing for one that is not there or cannot be believed; or why one cannot
    /// be read.
    Read(Ended<Kept>),
    /// From `AllocationManager`: the files are to be read once more.
    ReadDue,
    /// From `AllocationManager`: a file was written, or why it could not be.
    Written(Book, Ended<()>),
    /// From `AllocationManager`: the pause between two writes of a file is over.
    WriteDue(Book),
}

describe!(AllocationManagerMsg, message => match message {
    AllocationManagerMsg::Actuate(Actuated { uid, .. }, _) | AllocationManagerMsg::Recall(uid, _) => Some(uid),
    _ => None,
});

/// The content of the files.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The allocations of pods.
    pub allocated: BTreeMap<PodUid, PodResources>,
    /// The resources as the runtime has them from the agent.
    pub actuated: BTreeMap<PodUid, PodResources>,
    /// The files of the managers of hardware.
    pub hardware: StateFiles,
}

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Book {
    /// The allocations of pods.
    Allocated,
    /// The resources as the runtime has them from the agent.
    Actuated,
}

impl Book {
    /// The file's name below the root directory.
    pub fn file(self) -> &'static str {
        match self {
            Self::Allocated => "allocated_pods_state",
            Self::Actuated => "actuated_pods_state",
        }
    }
}

/// The resources of one pod as the runtime gets them.
#[derive(Clone, Debug)]
pub struct Actuated {
    /// The pod's UID.
    pub uid: PodUid,
    /// By name of the container; others keep what they have.
    pub containers: ContainerResources,
    /// Of the pod as a whole, where that changes.
    pub pod: Option<ResourceRequirements>,
}

/// Something that metrics count (OBS-08).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResizeCount {
    /// A pod's new spec asks for this of a container.
    Requested(Operation),
    /// The node never makes a resize, for this reason.
    Infeasible(&'static str),
    /// One that waited was taken on, looked at for this reason.
    DeferredAccepted(Trigger),
    /// Resources were changed in the runtime, or could not be.
    Actuated {
        /// Whether they were.
        success: bool,
        /// How long that took.
        took: Duration,
    },
}

/// The counts.
#[derive(Clone, Debug, Default)]
pub struct ResizeCounts {
    /// By what was asked for.
    pub requested: BTreeMap<Operation, u64>,
    /// By reason.
    pub infeasible: BTreeMap<&'static str, u64>,
    /// By what led to it.
    pub deferred_accepted: BTreeMap<Trigger, u64>,
    /// Lengths by success.
    pub lengths: BTreeMap<bool, Histogram<14>>,
}

impl ResizeCounts {
    /// Takes one more.
    pub fn add(&mut self, count: ResizeCount) {
        match count {
            ResizeCount::Requested(operation) => *self.requested.entry(operation).or_default() += 1,
            ResizeCount::Infeasible(detail) => *self.infeasible.entry(detail).or_default() += 1,
            ResizeCount::DeferredAccepted(trigger) => *self.deferred_accepted.entry(trigger).or_default() += 1,
            ResizeCount::Actuated { success, took } => {
                self.lengths.entry(success).or_insert(Histogram::new(&RESIZE_BOUNDS)).add(took);
            }
        }
    }
}
