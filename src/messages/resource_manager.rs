//! To `ResourceManager`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::describe;
use crate::actors::desk::Panicked;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ResourceManagerMsg {
    /// From `PodManager`: the pods that are wanted and not ended; the burstable tier's share follows them.
    ActivePods(Arc<Vec<Arc<Pod>>>),
    /// From itself: the cgroups of all pods and of the tiers were made and set, or why not.
    TiersSet(Result<Result<(), String>, Panicked>),
    /// From itself: time to set them again.
    RefreshDue,
}

describe!(ResourceManagerMsg);
