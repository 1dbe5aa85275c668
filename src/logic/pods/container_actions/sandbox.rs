//! Whether the pod's sandbox can stay (CRI-17; upstream's `PodSandboxChanged`).

use k8s_openapi::api::core::v1::Pod;

use super::PlanInput;
use crate::logic::model::ids::SandboxId;
use crate::logic::model::restart_policy::{NEVER, pod_policy};
use crate::logic::model::runtime_pod::{RuntimePod, SandboxState};

/// The fate of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxDecision {
    /// The newest one is fit.
    Keep {
        /// Which.
        id: SandboxId,
    },
    /// There is none that is fit.
    Create {
        /// The attempt of the next one: 0 for a first, else one more than the newest one's.
        attempt: u32,
    },
}

/// Whether the pod has a sandbox that its containers can run in: the newest one, ready, the only ready one, and on the
/// network that the spec asks for. Where it has a network of its own, it has an address too, as far as the runtime knows.
pub fn sandbox_decision(pod: &Pod, runtime: &RuntimePod) -> SandboxDecision {
    let Some(newest) = runtime.sandbox() else { return SandboxDecision::Create { attempt: 0 } };
    let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
    let ready = runtime.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    let is_fit = ready == 1
        && newest.state == SandboxState::Ready
        && newest.host_network == host_network
        && (host_network || !newest.lacks_address);
    match is_fit {
        true => SandboxDecision::Keep { id: newest.id.clone() },
        false => SandboxDecision::Create { attempt: newest.attempt.saturating_add(1) },
    }
}

/// Whether the pod has run and must not run twice.
pub(super) fn ran_once(input: &PlanInput<'_>, attempt: u32) -> bool {
    pod_policy(input.pod) == NEVER && attempt != 0 && !input.runtime.containers.is_empty()
}
