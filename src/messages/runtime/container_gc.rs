//! To `ContainerGc`.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::logic::model::ids::PodUid;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::messages::{Ended, Lost, describe};

/// The objects that a pass looks at.
#[derive(Debug)]
pub struct Look {
    /// All pods that the runtime holds.
    pub pods: Vec<Arc<RuntimePod>>,
    /// Pods that are wanted or still going; `None` while nobody can say.
    pub known: Option<BTreeSet<PodUid>>,
}

/// How many containers and sandboxes a pass removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Removed {
    /// Containers.
    pub containers: usize,
    /// Sandboxes.
    pub sandboxes: usize,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ContainerGcMsg {
    /// From itself: time for a pass.
    PassDue,
    /// From `EvictionManager`: remove every dead container that is not kept, and all of pods that are over; answered when that
    /// is done, with what went wrong.
    RemoveAllUnused(RpcReplyPort<Result<(), String>>),
    /// From `PodManager`: this pod has more dead containers than are kept.
    Surplus(Arc<RuntimePod>),
    /// From itself: the objects there are, and then, which pods are known; `None` where `Pleg` did not say. `Pleg`'s objects
    /// of any pod came after the pod was known.
    Looked(Result<Option<Look>, Lost>),
    /// From itself: a pass ended; how many containers and sandboxes it removed, or what it could not look at.
    PassEnded(Ended<Removed>),
}

describe!(ContainerGcMsg);
