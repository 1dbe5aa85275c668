//! The phases of a pod, `status.phase`, under the names of the API.

/// `status.phase`: not all containers have been started.
pub const PENDING: &str = "Pending";
/// `status.phase`: a container runs, or is about to again.
pub const RUNNING: &str = "Running";
/// `status.phase`: all containers ended well and stay so.
pub const SUCCEEDED: &str = "Succeeded";
/// `status.phase`: all containers ended and one of them badly, or the node gave up on the pod.
pub const FAILED: &str = "Failed";

/// Whether the phase is one that a pod never leaves.
pub fn is_terminal(phase: &str) -> bool {
    phase == SUCCEEDED || phase == FAILED
}
