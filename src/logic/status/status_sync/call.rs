//! A pod's status as it is here, the calls to the API server that follow, and their ends. Plain data.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::Value;

use crate::logic::model::ids::{FullName, PodUid};

/// A pod's status as its worker told it.
#[derive(Clone, Debug)]
pub struct Own {
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// From a file or a URL: its status goes to its mirror.
    pub is_static: bool,
    /// The hash by which its mirror is known; of a static pod.
    pub config_hash: Option<String>,
    /// The status.
    pub status: Arc<PodStatus>,
    /// Whether containers of it may still run.
    pub may_run: bool,
}

/// A call to make.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Patch the pod's subresource `status`.
    Patch {
        /// Strategic merge.
        body: Arc<Value>,
    },
    /// Delete the pod: grace period 0, with its UID as a precondition.
    Delete,
}

/// A call, and for whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The pod here.
    pub uid: PodUid,
    /// The pod in the API: another one than here for a static pod.
    pub api_uid: PodUid,
    /// Its name and namespace.
    pub full_name: FullName,
    /// The call to make.
    pub call: Call,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Done; after a patch, with the pod as it is then.
    Done(Option<Arc<Pod>>),
    /// There is no such pod, or another one of its name.
    Gone,
    /// Nobody answered.
    Away,
    /// It did not work, but may later; after this long, where the server said so.
    Failed(Option<Duration>),
    /// The server does not take this status, or not from this node; with the server's words.
    Refused(String),
}
