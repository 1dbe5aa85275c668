//! Why a container waits instead of running: upstream's waiting reasons, of images and of starts (CRI-25).

/// See the module. Its `Display` is the API's word, and metrics count by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr, serde::Serialize)]
pub enum StartReason {
    /// It crashed, and rests until its next start.
    CrashLoopBackOff,
    /// Its configuration cannot be made, as of a missing Secret.
    CreateContainerConfigError,
    /// The runtime did not make it.
    CreateContainerError,
    /// The image is not there, and the policy forbids a pull.
    ErrImageNeverPull,
    /// A pull failed.
    ErrImagePull,
    /// The runtime does not say whether the image is there.
    ImageInspectError,
    /// Pulls failed, and the next one waits.
    ImagePullBackOff,
    /// The image's name is none.
    InvalidImageName,
    /// It ran, and was ended because its postStart hook failed.
    PostStartHookError,
    /// The image's registry does not answer.
    RegistryUnavailable,
    /// The runtime made it, and did not start it.
    RunContainerError,
    /// The image's signature is not accepted.
    SignatureValidationFailed,
}
