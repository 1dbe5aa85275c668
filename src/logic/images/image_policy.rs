//! When an image is pulled, and what is said when it cannot be had (CRI-21, CRI-22, CRI-25).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::logic::model::start_reason::StartReason;

/// `imagePullPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// Pull at every start.
    Always,
    /// Pull when it is not there.
    IfNotPresent,
    /// Never pull.
    Never,
}

impl PullPolicy {
    /// From the spec's word; the API's default for an absent or unknown one.
    pub fn from_spec(text: Option<&str>) -> Self {
        match text {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// An image that is there to be used.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageInUse {
    /// The reference that the runtime is given for a container.
    pub reference: String,
    /// UID of the image's user, where it is a number.
    pub user_uid: Option<i64>,
    /// The image's user, where it is a name.
    pub username: String,
    /// By the name of a volume that the container mounts and that is an image, what the runtime is to be given for it.
    pub volumes: BTreeMap<String, String>,
}

/// Why an image cannot be had now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFailure {
    /// The waiting reason; `None` for an image that was not asked for: the pod has another problem, told elsewhere.
    pub reason: Option<StartReason>,
    /// A sentence.
    pub message: String,
    /// When another try makes sense; `None` leaves it to the pod.
    pub retry_after: Option<Duration>,
}

impl ImageFailure {
    /// The agent's own work on the image was lost.
    pub fn lost(why: String) -> Self {
        Self { reason: Some(StartReason::ErrImagePull), message: why, retry_after: None }
    }

    /// Nothing was asked for, since the pod cannot have a sandbox.
    pub fn not_tried(why: String) -> Self {
        Self { reason: None, message: why, retry_after: None }
    }
}

/// The decision about an image, once it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageDecision {
    /// It is there.
    Use,
    /// Pull it.
    Pull,
    /// It is not there, and may not be pulled.
    Refuse,
}

/// The table of pull policies (CRI-21). `present` is `None` when the image was not looked up, as for `Always`.
pub fn decide(policy: PullPolicy, present: Option<bool>) -> ImageDecision {
    match (policy, present) {
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, None | Some(false)) => ImageDecision::Pull,
        (PullPolicy::IfNotPresent | PullPolicy::Never, Some(true)) => ImageDecision::Use,
        (PullPolicy::Never, None | Some(false)) => ImageDecision::Refuse,
    }
}

/// Reason and message of a failed pull. The runtime marks two cases by how its text starts.
pub fn pull_failure(image: &str, error: &str) -> (StartReason, String) {
    if let Some(detail) = error.strip_prefix("RegistryUnavailable") {
        let text = format!("image pull failed for {image} because the registry is unavailable{detail}");
        return (StartReason::RegistryUnavailable, text);
    }
    if let Some(detail) = error.strip_prefix("SignatureValidationFailed") {
        let text = format!("image pull failed for {image} because the signature validation failed{detail}");
        return (StartReason::SignatureValidationFailed, text);
    }
    (StartReason::ErrImagePull, error.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_table_holds() {
        use ImageDecision::{Pull, Refuse, Use};
        let cases = [
            (PullPolicy::Always, None, Pull),
            (PullPolicy::Always, Some(true), Pull),
            (PullPolicy::IfNotPresent, Some(true), Use),
            (PullPolicy::IfNotPresent, Some(false), Pull),
            (PullPolicy::Never, Some(true), Use),
            (PullPolicy::Never, Some(false), Refuse),
        ];
        for (policy, present, expected) in cases {
            assert_eq!(decide(policy, present), expected, "{policy:?} {present:?}");
        }
    }

    #[test]
    fn marked_errors_get_their_own_reason() {
        assert_eq!(pull_failure("a:1", "not found").0, StartReason::ErrImagePull);
        assert_eq!(pull_failure("a:1", "RegistryUnavailable: 503").0, StartReason::RegistryUnavailable);
        let (reason, message) = pull_failure("a:1", "SignatureValidationFailed: no key");
        assert_eq!(reason, StartReason::SignatureValidationFailed);
        assert_eq!(message, "image pull failed for a:1 because the signature validation failed: no key");
    }
}
