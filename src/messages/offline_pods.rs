//! To `OfflinePods`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Panicked, describe, flattened};
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
    /// From itself: the kept pods were to be read.
    Recalled(Recalled),
    /// From itself: the newest pods were to be kept.
    Kept(Kept),
    /// From itself: records that no pod needs were to be removed.
    Forgotten(Forgotten),
    /// From itself: it is time to look again for what no pod needs.
    ForgetDue,
    /// From Root: `PodManager` was started again; tell it once more.
    Repeat,
}

/// Whether the kept pods were read.
#[derive(Debug)]
pub enum Recalled {
    /// They were.
    Read(Vec<Pod>),
    /// They were not, and why.
    Failed(String),
}

/// Whether the newest pods were kept.
#[derive(Debug)]
pub enum Kept {
    /// They were.
    Done,
    /// They were not, and why.
    Failed(String),
}

/// Whether records that no pod needs were removed.
#[derive(Debug)]
pub enum Forgotten {
    /// They were: so many.
    Removed(usize),
    /// They were not, and why.
    Failed(String),
}

impl From<Result<Result<Vec<Pod>, String>, Panicked>> for Recalled {
    fn from(outcome: Result<Result<Vec<Pod>, String>, Panicked>) -> Self {
        flattened(outcome).map_or_else(Self::Failed, Self::Read)
    }
}

impl From<Result<Result<(), String>, Panicked>> for Kept {
    fn from(outcome: Result<Result<(), String>, Panicked>) -> Self {
        flattened(outcome).map_or_else(Self::Failed, |()| Self::Done)
    }
}

impl From<Result<Result<usize, String>, Panicked>> for Forgotten {
    fn from(outcome: Result<Result<usize, String>, Panicked>) -> Self {
        flattened(outcome).map_or_else(Self::Failed, Self::Removed)
    }
}

describe!(OfflinePodsMsg);
