//! To `OfflinePods`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Panicked, describe};
use crate::logic::model::ids::PodUid;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum OfflinePodsMsg {
    /// From `ApiSource`: the API server cannot be heard, and never was since the agent started.
    ApiSilent,
    /// From `PodManager`: these are all pods of the API server that are admitted.
    Admitted(BTreeMap<PodUid, Arc<Pod>>),
    /// From `PodManager`: this pod is admitted as it is now; nothing, when it is wanted no more. The complete set came before.
    PodAdmitted(PodUid, Option<Arc<Pod>>),
    /// From itself: what was kept was read; why it could not be, if so.
    Recalled(Result<Result<Vec<Pod>, String>, Panicked>),
    /// From itself: the newest pods were kept; why they could not be, if so.
    Kept(Result<Result<(), String>, Panicked>),
    /// From itself: what no pod needs was removed, how much that was; why it could not be, if so.
    Forgotten(Result<Result<usize, String>, Panicked>),
    /// From itself: it is time to look again for what no pod needs.
    ForgetDue,
    /// From Root: `PodManager` was started again; tell it once more.
    Repeat,
}

describe!(OfflinePodsMsg);
