//! How tasks for volumes fail, and what their pod hears of it.

use std::time::Duration;

use super::{HANG_RETRY, PodState, RETRY, Task, joined};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::time::Steady;

/// A pod whose volume the node has no room for is refused after this: how long upstream waits for the volumes of a pod.
const ROOM_PATIENCE: Duration = Duration::from_secs(123);

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// A sentence; see [`Self::in_processing`] for its place in the error.
    pub message: String,
    /// Whether what the volume is could not even be found out (upstream's populator), such as a claim without volume.
    pub in_processing: bool,
    /// The reason of the Event about it; `None` where another part says it, or where it is no more than a wait.
    pub reason: Option<EventReason>,
    /// It is tried again after this, however often it failed before; `None` leaves it to waits that grow.
    pub look_again: Option<Duration>,
    /// Whether the node has no room for another attached volume of the driver (VOL-12).
    pub is_full: bool,
}

/// Why a pod's wish did not come true yet. It is tried again all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFailure {
    /// A sentence.
    pub message: String,
    /// When it is worth asking again.
    pub retry_after: Duration,
    /// See [`TaskFailure::in_processing`].
    pub in_processing: bool,
    /// Whether the pod is to be refused: the node has had no room for a volume of it for too long (VOL-12).
    pub rejects: bool,
}

impl VolumeFailure {
    /// The one who was asked is gone.
    pub fn lost(why: String) -> Self {
        Self { message: why, retry_after: RETRY.initial, in_processing: false, rejects: false }
    }
}

impl PodState {
    /// The refusal of the pod, once the node has had no room for a volume of it for too long. The text is upstream's.
    pub(super) fn rejected(&self, now: Steady) -> Option<VolumeFailure> {
        let full = self.failures.iter().filter_map(|(task, failure)| match task {
            Task::Mount(name) if failure.is_full && !self.running.contains_key(task) => Some((name, failure)),
            _ => None,
        });
        let waits = |name: &String| self.volumes.get(name).filter(|volume| !volume.mounted);
        let full: Vec<(&String, &TaskFailure)> = full.filter(|(name, _)| waits(name).is_some()).collect();
        let is_over = |name: &String| waits(name).is_some_and(|volume| now.since(volume.since) >= ROOM_PATIENCE);
        full.iter().any(|(name, _)| is_over(name)).then(|| VolumeFailure {
            message: format!(
                "Node has reached its volume attachment limit, rejecting pod. unmounted volumes={}, unattached \
                 volumes=[{}], failed to process volumes=[]: {}",
                self.unmounted(),
                full.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" "),
                joined(full.iter().map(|(_, failure)| failure.message.as_str()))
            ),
            retry_after: HANG_RETRY,
            in_processing: false,
            rejects: true,
        })
    }
}
