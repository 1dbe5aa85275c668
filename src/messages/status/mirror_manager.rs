//! To `MirrorManager`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::logic::model::ids::FullName;
use crate::logic::status::mirror_pods::Outcome;
use crate::messages::{Lost, describe};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum MirrorManagerMsg {
    /// From `PodManager`: all static pods that are wanted, those that were refused too, and the names of those that still
    /// end. Told once all sources were heard, and what the runtime holds is known.
    Statics(Vec<Arc<Pod>>, BTreeSet<FullName>),
    /// From `ApiSource`: all mirrors that the API server has.
    Mirrors {
        /// As the API server had them last.
        mirrors: Vec<Arc<Pod>>,
        /// The API server has listed all pods anew.
        are_listed: bool,
    },
    /// From `PodManager`: the newest Node object, which owns the mirrors.
    NodeChanged(Arc<Node>),
    /// From itself: a call for this mirror ended.
    Answered(FullName, Result<Outcome, Lost>),
    /// From itself: a call may be tried again.
    RetryDue,
}

describe!(MirrorManagerMsg);
