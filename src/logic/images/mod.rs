//! Images: their names, credentials of registries, when an image is pulled, who may use it, and when it goes.
//!
//! May import `formats`, `model` and `volumes`.

pub mod credential_plugins;
pub mod credential_tokens;
pub mod exempt;
pub mod image_credentials;
pub mod image_garbage;
pub mod image_name;
pub mod image_policy;
pub mod image_records;
pub mod pull_progress;
pub mod pull_queue;
pub mod strict_json;

use std::sync::Arc;

use credential_plugins::Provider;
use exempt::ExemptImages;
use image_garbage::ImageGcPolicy;
use image_records::VerificationPolicy;
use pull_queue::PullLimits;

/// The configuration of images.
#[derive(Clone, Debug)]
pub struct ImageSettings {
    /// How pulls are limited: `serializeImagePulls`, `maxParallelImagePulls`, `registryPullQPS`, `registryBurst`.
    pub pulls: PullLimits,
    /// Programs that give credentials of registries.
    pub credential_providers: Arc<[Provider]>,
    /// Which images on the node a pod may use without asking their registry.
    pub verification: VerificationPolicy,
    /// When images that nobody uses go.
    pub gc: ImageGcPolicy,
    /// Images that stay whatever the policy says.
    pub gc_exempt: ExemptImages,
    /// Gate `RuntimeClassInImageCriApi`: each handler of the runtime has images of its own.
    pub by_handler: bool,
}
