//! The runtime's images: which are there, which a registry has, how long a pull takes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;

use crate::actors::kit::trace::lock;
use crate::cri::{
    AuthConfig, CriError, CriResult, FilesystemUsage, Image, ImageFsInfo, ImageService, ImageSpec, PodSandboxConfig,
};
use crate::logic::eviction::layout::DiskLayout;
use crate::logic::images::credential_plugins::Provider;
use crate::logic::images::credential_tokens::AccountToken;
use crate::logic::images::image_credentials::Keyring;
use crate::logic::images::image_garbage::DiskUse;
use crate::logic::images::image_records::{Evidence, PullIntent, PulledRecord, RecordedAccess, merged, to_prune};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;
use crate::platform::images::{ImageHost, ProviderError, ProviderProblem};
use crate::sim::faults::Fault;
use crate::sim::node::outlet::{Call, Outlet};

/// Images present, and those that cannot be pulled. A registry has every other image.
#[derive(Debug, Default)]
pub struct Images {
    /// On the node, by reference.
    pub present: BTreeMap<String, Image>,
    /// Pulls that began and were not seen to end, by image: how many.
    pub pulling: BTreeMap<String, usize>,
    /// Records of pulls, by the runtime's reference.
    pub pulled: BTreeMap<String, PulledRecord>,
    /// The disk is full of other things.
    pub disk_is_full: bool,
    /// The images that no registry has.
    pub unknown: BTreeSet<String>,
    /// The images that the runtime does not pull, with its words.
    pub refused: BTreeMap<String, String>,
}

impl Images {
    /// Names of what is present under a name or ID.
    fn named(&self, reference: &str) -> Vec<String> {
        let wanted = self.present.iter().filter(|(name, image)| *name == reference || image.id == reference);
        wanted.map(|(name, _)| name.clone()).collect()
    }

    fn pull(&mut self, reference: &str) -> CriResult<String> {
        if self.unknown.contains(reference) {
            let message = format!("failed to pull and unpack image \"{reference}\": {reference}: not found");
            return Err(CriError::NotFound { message });
        }
        if let Some(message) = self.refused.get(reference).cloned() {
            return Err(CriError::Other { code: "Unknown", message });
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
            let pulled = lock(&node.images).pull(&reference);
            let how = if pulled.is_ok() { "pulled" } else { "in no registry" };
            node.story.tell("runtime", format!("image {reference} is {how}"));
            pulled
        })
        .await
    }

    async fn remove_image(&self, image: &ImageSpec) -> CriResult<()> {
        let reference = image.image.clone();
        self.call(Call::changing("RemoveImage"), move |node| {
            // By name or ID, as the runtime takes it.
            let named = lock(&node.images).named(&reference);
            for name in named {
                node.story.tell("runtime", format!("image {name} is removed"));
                node.invariants.image_removed(&lock(&node.containers), &name);
                lock(&node.images).present.remove(&name);
            }
            Ok(())
        })
        .await
    }

    async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
        self.ask("ImageFsInfo", move |node| {
            let layout = lock(&node.beside).layout;
            let at = |mountpoint: &str| FilesystemUsage { mountpoint: mountpoint.to_owned(), ..Default::default() };
            Ok(ImageFsInfo {
                image_filesystems: vec![at("/images")],
                container_filesystems: if layout == DiskLayout::Split { vec![at("/layers")] } else { vec![] },
            })
        })
        .await
    }
}

/// Records of pulls last as long as the node.
#[async_trait]
impl ImageHost for Outlet {
    async fn disk_use(&self, _: &str) -> Result<DiskUse, FileError> {
        let is_full = lock(&self.node().images).disk_is_full;
        // A full one has room for a few images more; to have enough, all that may go have to.
        Ok(DiskUse { capacity: 100 << 30, available: if is_full { 5 << 30 } else { 50 << 30 } })
    }

    async fn node_credentials(&self) -> Keyring {
        Keyring::default()
    }

    async fn ask_provider(
        &self,
        provider: &Provider,
        repository: &str,
        _: Option<&AccountToken>,
    ) -> Result<Vec<u8>, ProviderError> {
        let problem = ProviderProblem::Run("there are no programs here".to_owned());
        Err(ProviderError { provider: provider.name.clone(), repository: repository.to_owned(), problem })
    }

    fn hash(&self, text: &str) -> String {
        text.to_owned()
    }

    async fn evidence(&self, image: &str, image_ref: &str) -> Evidence {
        let node = self.begin_file().await;
        let images = lock(&node.images);
        Evidence {
            record: images.pulled.get(image_ref).cloned(),
            intent: images.pulling.contains_key(image),
            ..Evidence::default()
        }
    }

    async fn begin_pull(&self, image: &str) -> Result<(), FileError> {
        let node = self.begin_file().await;
        *lock(&node.images).pulling.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    async fn end_pull(&self, image: &str) -> Result<(), FileError> {
        let node = self.begin_file().await;
        let mut images = lock(&node.images);
        match images.pulling.get_mut(image) {
            Some(others @ 2..) => *others -= 1,
            _ => drop(images.pulling.remove(image)),
        }
        Ok(())
    }

    async fn record_pulled(
        &self,
        image: &str,
        image_ref: &str,
        access: Option<&RecordedAccess>,
        now: Moment,
    ) -> Result<(), FileError> {
        let node = self.begin_file().await;
        let mut images = lock(&node.images);
        let known = images.pulled.get(image_ref).cloned();
        if let Some(record) = merged(known, image, image_ref, access, now) {
            images.pulled.insert(image_ref.to_owned(), record);
        }
        Ok(())
    }

    async fn interrupted_pulls(&self) -> Vec<PullIntent> {
        let node = self.begin_file().await;
        let images = lock(&node.images);
        images.pulling.keys().map(|image| PullIntent::new(image)).collect()
    }

    async fn prune_records(&self, images: &BTreeSet<String>, began: Moment) -> usize {
        let node = self.begin_file().await;
        let mut known = lock(&node.images);
        let gone = to_prune(known.pulled.values(), images, began);
        gone.iter().filter(|image_ref| known.pulled.remove(*image_ref).is_some()).count()
    }
}
