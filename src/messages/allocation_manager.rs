//! To `AllocationManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceRequirements;
use ractor::RpcReplyPort;

use super::{Panicked, describe};
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_resize::{ContainerResources, Operation, PodResources, Trigger};

/// Upper bounds of the buckets of `kubelet_pod_resize_duration_milliseconds`.
pub const DURATION_BUCKETS: [f64; 14] = [
    10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 30_000.0, 60_000.0, 120_000.0, 300_000.0,
    600_000.0,
];

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum AllocationManagerMsg {
    /// From `PodManager`: pods are given this; answered once it is on the disk.
    Allocate(BTreeMap<PodUid, PodResources>, RpcReplyPort<Result<(), String>>),
    /// From a `PodWorker`: the runtime is told, or was told, this; answered once it is on the disk.
    Actuate(Actuated, RpcReplyPort<Result<(), String>>),
    /// From a `PodWorker`: what was the runtime told of its pod?
    Recall(PodUid, RpcReplyPort<PodResources>),
    /// From `PodManager`: there are no pods but these.
    Known(Arc<BTreeSet<PodUid>>),
    /// From `PodManager` and `PodWorker`s: something happened that metrics count.
    Counted(Vec<ResizeCount>),
    /// From the server: what was counted so far.
    Counts(RpcReplyPort<ResizeCounts>),
    /// From itself: what the files say; nothing for one that is not there, or cannot be believed.
    Read(Result<Kept, Panicked>),
    /// From itself: a file was written, or why it could not be.
    Written(Book, Result<Result<(), String>, Panicked>),
    /// From itself: the pause between two writes of a file is over.
    WriteDue(Book),
    /// From Root: `PodManager` was started again. From itself: it had no room for what it was told.
    Repeat,
}

describe!(AllocationManagerMsg, message => match message {
    AllocationManagerMsg::Actuate(Actuated { uid, .. }, _) | AllocationManagerMsg::Recall(uid, _) => Some(uid),
    _ => None,
});

/// What both files say.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// What pods were given.
    pub allocated: BTreeMap<PodUid, PodResources>,
    /// What the runtime was told.
    pub actuated: BTreeMap<PodUid, PodResources>,
}

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Book {
    /// What pods were given.
    Allocated,
    /// What the runtime was told.
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

/// What the runtime is told of one pod.
#[derive(Clone, Debug)]
pub struct Actuated {
    /// Whose.
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

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct ResizeCounts {
    /// By what was asked for.
    pub requested: BTreeMap<Operation, u64>,
    /// By reason.
    pub infeasible: BTreeMap<&'static str, u64>,
    /// By what led to it.
    pub deferred_accepted: BTreeMap<Trigger, u64>,
    /// By success: counts by bucket, the last without bound, and the sum of lengths.
    pub lengths: BTreeMap<bool, ([u64; DURATION_BUCKETS.len() + 1], Duration)>,
}

impl ResizeCounts {
    /// Takes one more.
    pub fn add(&mut self, count: ResizeCount) {
        match count {
            ResizeCount::Requested(operation) => *self.requested.entry(operation).or_default() += 1,
            ResizeCount::Infeasible(detail) => *self.infeasible.entry(detail).or_default() += 1,
            ResizeCount::DeferredAccepted(trigger) => *self.deferred_accepted.entry(trigger).or_default() += 1,
            ResizeCount::Actuated { success, took } => {
                let (counts, sum) = self.lengths.entry(success).or_default();
                let milliseconds = took.as_secs_f64() * 1000.0;
                let bounds = DURATION_BUCKETS.iter();
                counts[bounds.take_while(|bound| milliseconds > **bound).count()] += 1;
                *sum += took;
            }
        }
    }
}
