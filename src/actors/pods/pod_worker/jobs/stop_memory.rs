//! The memory of a pod's worker about stops of its containers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

use crate::actors::kit::trace::lock;
use crate::logic::model::ids::ContainerId;

/// Stops of the pod's containers that are under way or were tried: one that is tried again, or begun beside another, runs
/// no hook twice and gives no time twice. Lost with the worker; a hook is then run again, as Kubernetes promises.
#[derive(Debug, Default)]
pub struct StopMemory(Mutex<BTreeMap<ContainerId, Tried>>);

#[derive(Debug, Default)]
struct Tried {
    /// How much of its grace period the container had used up before it was asked to stop; set once its hook has ended.
    spent: Option<Duration>,
    /// Told that the stop under way went well; closed when it is over in any way.
    under_way: Option<watch::Receiver<bool>>,
}

impl StopMemory {
    pub(super) fn spent(&self, id: &ContainerId) -> Option<Duration> {
        lock(&self.0).get(id)?.spent
    }

    pub(super) fn note(&self, id: &ContainerId, spent: Duration) {
        lock(&self.0).entry(id.clone()).or_default().spent = Some(spent);
    }

    pub(super) fn under_way(&self, id: &ContainerId) -> Option<watch::Receiver<bool>> {
        lock(&self.0).get(id)?.under_way.clone()
    }

    pub(super) fn begin(&self, id: &ContainerId) -> watch::Sender<bool> {
        let (end, under_way) = watch::channel(false);
        lock(&self.0).entry(id.clone()).or_default().under_way = Some(under_way);
        end
    }

    pub(super) fn forget(&self, id: &ContainerId) {
        lock(&self.0).remove(id);
    }
}
