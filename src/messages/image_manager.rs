//! To `ImageManager`.

use std::sync::Arc;

use ractor::RpcReplyPort;

use super::describe;
use crate::actors::desk::Panicked;
use crate::cri::{AuthConfig, CriResult, Image, PodSandboxConfig};
use crate::logic::ids::{FullName, PodUid};
use crate::logic::image_policy::{ImageFailure, ImageInUse, PullPolicy};

/// A container's need of an image.
#[derive(Clone, Debug)]
pub struct ImageRequest {
    /// Whose.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// Such as `spec.containers{web}`, for Events.
    pub field_path: String,
    /// As the spec says it.
    pub image: String,
    /// When to pull.
    pub policy: PullPolicy,
    /// Handed to the runtime with the pull.
    pub sandbox_config: Arc<PodSandboxConfig>,
    /// To be tried with the registry, in this order; none of them means without.
    pub credentials: Vec<AuthConfig>,
}

/// What an attempt to have an image gave: the runtime's finding and, after a pull, its answer.
#[derive(Debug)]
pub enum ImageStep {
    /// `ImageStatus` answered.
    LookedUp(CriResult<Option<Image>>),
    /// `PullImage` answered, and `ImageStatus` after it; or what each try was refused with.
    Pulled(Result<(String, Option<Image>), String>),
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ImageManagerMsg {
    /// From a `PodWorker`'s operation: have this image; tells when it is there, or why not.
    Ensure(Arc<ImageRequest>, RpcReplyPort<Result<ImageInUse, ImageFailure>>),
    /// From itself: a step of request `number` ended.
    StepEnded {
        /// Which request.
        number: u64,
        /// What it gave.
        step: Result<ImageStep, Panicked>,
    },
}

describe!(ImageManagerMsg, message => match message {
    ImageManagerMsg::Ensure(request, _) => Some(&request.uid),
    _ => None,
});
