//! Demands of people on the node about a pod: to start a container again, or not to wait for its back-off (PAIN-34,
//! PAIN-36).

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::logic::model::restart_policy::{is_sidecar, wants_start};
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod};
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::pods::pod_containers::find_container;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The demand.
    pub what: Demanded,
    /// Of which container; `None` means each that it can be asked of.
    pub container: Option<String>,
}

/// A demand about a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demanded {
    /// To be stopped, with its grace period, and started again at once, whatever its restart policy.
    Restart,
    /// To be started without the rest of its back-off, which then begins anew.
    ResetBackOff,
}

/// Whether the container may be asked for this, by what the runtime holds of the pod.
///
/// # Errors
/// A sentence why not.
pub(super) fn may_be_asked(pod: &Pod, name: &str, what: Demanded, seen: &RuntimePod) -> Result<(), String> {
    let ended = seen.container(name).filter(|newest| newest.state == ContainerState::Exited);
    let is_over = |container: &Container| ended.is_some() && !wants_start(pod, container, ended);
    match find_container(pod, name) {
        None => Err(format!("the pod has no container {name}")),
        Some((ContainerKind::Ephemeral, _)) => Err(format!("{name} is an ephemeral container, which is started once")),
        // One that fails may be in its back-off; to repeat one that succeeded would undo the pod's initialisation.
        Some((ContainerKind::Init, container)) if what == Demanded::Restart && !is_sidecar(&container) => {
            Err(format!("{name} is an init container, which runs to its end once"))
        }
        // The API server has it as ended for good, and lets nothing come back from there.
        Some((_, container)) if !is_sidecar(&container) && is_over(&container) => {
            Err(format!("{name} has ended, and its restart policy keeps it so"))
        }
        Some(_) => Ok(()),
    }
}
