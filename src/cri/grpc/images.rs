//! CRI's `ImageService` over gRPC.

use std::time::Duration;

use async_trait::async_trait;

use super::lists::list;
use super::{GrpcRuntime, ask};
use crate::cri::instrumented::Call;
use crate::cri::{
    AuthConfig, CriError, CriResult, Image, ImageFsInfo, ImageService, ImageSpec, PodSandboxConfig, convert, wire,
};

#[async_trait]
impl ImageService for GrpcRuntime {
    async fn list_images(&self, filter: Option<&ImageSpec>) -> CriResult<Vec<Image>> {
        let filter = filter.map(|image| wire::ImageFilter { image: Some(image.into()) });
        let streamed = wire::StreamImagesRequest { filter: filter.clone() };
        let whole = wire::ListImagesRequest { filter };
        let limit = Some(self.request_timeout);
        list!(
            self.images, Call::LIST_IMAGES, limit, convert::image,
            "StreamImages" stream_images(streamed).images,
            list_images(whole).images
        )
    }

    async fn image_status(&self, image: &ImageSpec) -> CriResult<Option<Image>> {
        let request = wire::ImageStatusRequest { image: Some(image.into()), verbose: false };
        let limit = Some(self.request_timeout);
        match ask!(self.images, image_status, Call::IMAGE_STATUS, limit, request, convert::image_status) {
            Err(CriError::NotFound { .. }) => Ok(None),
            other => other,
        }
    }

    async fn pull_image(
        &self,
        image: &ImageSpec,
        auth: Option<&AuthConfig>,
        sandbox_config: &PodSandboxConfig,
    ) -> CriResult<String> {
        let request = wire::PullImageRequest {
            image: Some(image.into()),
            auth: auth.map(Into::into),
            sandbox_config: Some(sandbox_config.into()),
        };
        let outcome = ask!(self.images, pull_image, Call::PULL_IMAGE, None, request, |call, answer| {
            convert::required_text(call, "image_ref", answer.image_ref)
        });
        outcome.map_err(plain_words)
    }

    async fn remove_image(&self, image: &ImageSpec) -> CriResult<()> {
        let request = wire::RemoveImageRequest { image: Some(image.into()) };
        let limit = Some(self.request_timeout);
        ask!(self.images, remove_image, Call::REMOVE_IMAGE, limit, request, |_, _| Ok(()))
    }

    async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
        let request = wire::ImageFsInfoRequest {};
        let limit = Some(self.request_timeout);
        ask!(self.images, image_fs_info, Call::IMAGE_FS_INFO, limit, request, |_, answer| {
            Ok(convert::image_fs_info(answer))
        })
    }
}

/// The error of a pull that failed with code Unknown has the runtime's words alone: the code says nothing to the user, and
/// the words may begin with a reason (`RegistryUnavailable`, `SignatureValidationFailed`) that must stand first.
fn plain_words(error: CriError) -> CriError {
    match error {
        CriError::Other { code: code @ "Unknown", .. } => CriError::Other { code, message: error.words().into_owned() },
        other => other,
    }
}
