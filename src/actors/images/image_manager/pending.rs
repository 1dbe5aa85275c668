//! Requests for images that are not answered yet. Owned by `ImageManager`.

use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use crate::actors::kit::held::Held;
use crate::cri::ImageSpec;
use crate::logic::images::image_credentials::Credential;
use crate::logic::images::image_name::ImageName;
use crate::logic::images::image_policy::{ImageFailure, ImageInUse};
use crate::logic::model::ids::PodUid;
use crate::messages::event_recorder::EventSubject;
use crate::messages::images::image_manager::ImageRequest;

/// The asker of an image.
pub(super) type Reply = RpcReplyPort<Result<ImageInUse, ImageFailure>>;

/// A request that is not answered yet.
pub(super) struct Pending {
    pub(super) request: Arc<ImageRequest>,
    /// With its default tag.
    pub(super) image: String,
    pub(super) reply: Reply,
    pub(super) asked: Duration,
    pub(super) pull_began: Option<Duration>,
    /// Whether the image was on the node, once that was looked for.
    pub(super) present: Option<bool>,
    /// Whether it has to be pulled, once that is known.
    pub(super) pull_required: Option<bool>,
    /// The pod's, then the node's.
    pub(super) credentials: Vec<Credential>,
}

impl Pending {
    pub(super) fn key(&self) -> String {
        key(&self.request.uid, &self.image)
    }

    /// The image's full name without tag and digest.
    pub(super) fn repository(&self) -> String {
        ImageName::parse(&self.image).map(|name| name.repository).unwrap_or_default()
    }

    pub(super) fn spec(&self) -> ImageSpec {
        ImageSpec {
            image: self.image.clone(),
            annotations: self.request.sandbox_config.annotations.clone(),
            runtime_handler: self.request.runtime_handler.clone(),
            ..ImageSpec::default()
        }
    }

    pub(super) fn subject(&self) -> EventSubject {
        EventSubject {
            uid: self.request.uid.clone(),
            full_name: self.request.full_name.clone(),
            field_path: self.request.field_path.clone(),
        }
    }
}

/// Holds a request back. An asker without room hears so, and asks again.
pub(super) fn hold(held: &mut Held<(Arc<ImageRequest>, Reply)>, request: Arc<ImageRequest>, reply: Reply) {
    if let Err((_, reply)) = held.push((request, reply), |(_, reply)| reply.is_closed()) {
        let why = "too many images wait for the records of interrupted pulls to be read";
        let _ = reply.send(Err(ImageFailure::lost(why.to_owned()))); // The asker may have left.
    }
}

/// The key by which back-off is counted: the pod, and the image with its default tag.
pub(super) fn key(uid: &PodUid, image: &str) -> String {
    format!("{uid}_{image}")
}
