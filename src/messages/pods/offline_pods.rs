//! To `OfflinePods`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::ids::PodUid;
use crate::messages::{Ended, describe};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum OfflinePodsMsg {
    /// From `ApiSource`: the API server cannot be heard, and never was since the agent started.
    ApiSilent,
    /// From `PodManager`: these are all pods of the API server that are admitted.
    Admitted(BTreeMap<PodUid, Arc<Pod>>),
    /// From `PodManager`: this pod is admitted as it is now; nothing, when it is wanted no more. The complete set came before.
    PodAdmitted(PodUid, Option<Arc<Pod>>),
    /// From itself: the kept pods were to be read.
    Recalled(Ended<Vec<Pod>>),
    /// From itself: the newest pods were to be kept.
    Kept(Ended<()>),
    /// From itself: it is time to write again what could not be written.
    KeepDue,
    /// From itself: records that no pod needs were to be removed; how many were.
    Forgotten(Ended<usize>),
    /// From itself: it is time to look again for what no pod needs.
    ForgetDue,
    /// From Root: `PodManager` was started again; tell it once more.
    Repeat,
}

describe!(OfflinePodsMsg);
