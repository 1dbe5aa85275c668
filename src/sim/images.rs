//! The runtime's images: which are there, which a registry has, how long a pull takes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;

use super::faults::Fault;
use super::outlet::{Call, Outlet};
use crate::actors::ledger::lock;
use crate::cri::{AuthConfig, CriError, CriResult, Image, ImageFsInfo, ImageService, ImageSpec, PodSandboxConfig};

/// Images present, and those that cannot be pulled. A registry has every other image.
#[derive(Debug, Default)]
pub struct Images {
    /// On the node, by reference.
    pub present: BTreeMap<String, Image>,
    /// What no registry has.
    pub unknown: BTreeSet<String>,
}

impl Images {
    fn pull(&mut self, reference: &str) -> CriResult<String> {
        if self.unknown.contains(reference) {
            let message = format!("failed to pull and unpack image \"{reference}\": {reference}: not found");
            return Err(CriError::NotFound { message });
        }
        let id = format!("sha256:{reference}");
        let image =
            Image { id: id.clone(), repo_tags: vec![reference.to_owned()], size: 1_000_000, ..Image::default() };
        self.present.insert(reference.to_owned(), image);
        Ok(id)
    }
}

#[async_trait]
impl ImageService for Outlet {
    async fn list_images(&self, filter: Option<&ImageSpec>) -> CriResult<Vec<Image>> {
        let wanted = filter.map(|filter| filter.image.clone());
        self.ask("ListImages", move |node| {
            let images = lock(&node.images);
            let all = images.present.iter().filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == *name));
            Ok(all.map(|(_, image)| image.clone()).collect())
        })
        .await
    }

    async fn image_status(&self, image: &ImageSpec) -> CriResult<Option<Image>> {
        let reference = image.image.clone();
        self.ask("ImageStatus", move |node| Ok(lock(&node.images).present.get(&reference).cloned())).await
    }

    async fn pull_image(&self, image: &ImageSpec, _: Option<&AuthConfig>, _: &PodSandboxConfig) -> CriResult<String> {
        let reference = image.image.clone();
        let work = self.node().faults.dice().between(Duration::from_millis(200), Duration::from_secs(4));
        let call = Call { work, limit: None, ..Call::changing("PullImage") };
        self.call(call, move |node| {
            if node.faults.strikes(Fault::Pulls, 0.3) {
                node.story.tell("fault", format!("pull of {reference} fails"));
                let message = format!("failed to pull image \"{reference}\": connection reset by peer");
                return Err(CriError::Other { code: "Unknown", message });
            }
            node.story.tell("runtime", format!("image {reference} is pulled"));
            lock(&node.images).pull(&reference)
        })
        .await
    }

    async fn remove_image(&self, image: &ImageSpec) -> CriResult<()> {
        let reference = image.image.clone();
        self.call(Call::changing("RemoveImage"), move |node| {
            lock(&node.images).present.remove(&reference);
            Ok(())
        })
        .await
    }

    async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
        self.ask("ImageFsInfo", |_| Ok(ImageFsInfo::default())).await
    }
}
