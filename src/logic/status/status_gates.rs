//! The feature gates on which the statuses of pods depend. Pure; keeps nothing.

/// The condition that a pod has its sandbox and its volumes.
pub const READY_TO_START: &str = "PodReadyToStartContainers";

/// The types of conditions that only the node agent writes (upstream's `PodConditionsByKubelet`).
const OWNED: [&str; 8] = [
    READY_TO_START,
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
];

/// Which parts of a status the agent tells, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusGates {
    /// Gate `PodReadyToStartContainersCondition`. Off, the condition is another's: the agent keeps it as the API has it.
    pub ready_to_start: bool,
    /// Gate `ChangeContainerStatusOnKubeletRestart`. On, an agent that starts does not know of a running container whether it
    /// is started and ready until its probes say so.
    pub restart_shows: bool,
    /// Gate `ImageVolumeWithDigest`: mounts of image volumes name their images.
    pub image_references: bool,
}

impl Default for StatusGates {
    /// Upstream's defaults.
    fn default() -> Self {
        Self { ready_to_start: true, restart_shows: false, image_references: false }
    }
}

impl StatusGates {
    /// Whether only the agent writes conditions of this type. All others stay as the API has them (POD-16, POD-34).
    pub fn own(self, condition: &str) -> bool {
        OWNED.contains(&condition) && (self.ready_to_start || condition != READY_TO_START)
    }
}
