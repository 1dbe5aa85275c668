//! To `ContainerGc`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::describe;
use crate::actors::desk::Panicked;
use crate::logic::ids::PodUid;
use crate::logic::runtime_pod::RuntimePod;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ContainerGcMsg {
    /// From itself: time for a pass.
    PassDue,
    /// From `PodManager`: the pods that are wanted or still going; all others' remains may go. Told once all sources
    /// were heard.
    Known(Arc<BTreeSet<PodUid>>),
    /// From `PodManager`: this pod has more dead containers than are kept.
    Surplus(Arc<RuntimePod>),
    /// From itself: what there is; `None` where `Pleg` did not say. What it holds of any pod came after the pod was known.
    Looked(Result<Option<Vec<Arc<RuntimePod>>>, Panicked>),
    /// From itself: a pass ended; how many containers and sandboxes it removed, or what it could not look at.
    PassEnded(Result<Result<(usize, usize), String>, Panicked>),
}

describe!(ContainerGcMsg);
