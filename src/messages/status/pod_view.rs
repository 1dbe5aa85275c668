//! A pod as `StatusManager` knows it, and as whoever asks sees it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::logic::model::ids::PodUid;
use crate::logic::pods::wait::PodWait;

/// A pod with its newest status.
#[derive(Clone, Debug)]
pub struct PodView {
    /// UID.
    pub uid: PodUid,
    /// The pod as it is wanted.
    pub pod: Arc<Pod>,
    /// Its newest status.
    pub status: Arc<PodStatus>,
    /// Whether containers of it may still run.
    pub may_run: bool,
    /// Whether it may go from the API, and another pod of its name may be here: all that is left of it is to be removed.
    pub is_over: bool,
    /// Why it is not running or not gone, newest cause first; empty when all is well.
    pub waiting: Arc<Vec<PodWait>>,
}

impl PodView {
    /// `waiting` in words.
    pub fn waits(&self) -> Vec<String> {
        self.waiting.iter().map(ToString::to_string).collect()
    }
}
