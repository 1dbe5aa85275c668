//! `ImageGc` over a played runtime, under paused time: whom a pass answers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::*;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::cri::{AuthConfig, CriError, CriResult, Image, ImageFsInfo, ImageSpec, PodSandboxConfig};
use crate::messages::root::Child;

/// A runtime with some images, which takes a second to list them.
#[derive(Default)]
struct Shelf {
    images: Mutex<Vec<String>>,
    /// The runtime does not know its disk.
    is_blind: AtomicBool,
    /// Each handler has images of its own.
    by_handler: bool,
    /// The handlers of images that were removed.
    handlers: Mutex<Vec<String>>,
}

impl Shelf {
    fn images(&self) -> Vec<String> {
        self.images.lock().expect("not poisoned").clone()
    }

    fn put(&self, id: &str) {
        self.images.lock().expect("not poisoned").push(id.to_owned());
    }
}

#[async_trait]
impl ImageService for Shelf {
    async fn list_images(&self, _: Option<&ImageSpec>) -> CriResult<Vec<Image>> {
        let image = |id| Image { id, size: 7, runtime_handler: "gvisor".to_owned(), ..Image::default() };
        let listed = self.images().into_iter().map(image).collect();
        seconds(1.0).await;
        Ok(listed)
    }
    async fn image_status(&self, _: &ImageSpec) -> CriResult<Option<Image>> {
        Ok(None)
    }
    async fn pull_image(&self, spec: &ImageSpec, _: Option<&AuthConfig>, _: &PodSandboxConfig) -> CriResult<String> {
        Ok(spec.image.clone())
    }
    async fn remove_image(&self, spec: &ImageSpec) -> CriResult<()> {
        self.handlers.lock().expect("not poisoned").push(spec.runtime_handler.clone());
        self.images.lock().expect("not poisoned").retain(|id| *id != spec.image);
        Ok(())
    }
    async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
        if self.is_blind.load(Ordering::SeqCst) {
            return Err(CriError::Unimplemented { message: "not played".to_owned() });
        }
        Ok(ImageFsInfo::default())
    }
}

/// Images may go as soon as they are seen. With `high_percent` of 100 no pass comes by itself.
fn played(shelf: &Arc<Shelf>, high_percent: u64) -> PlayedAgent {
    let played = played_agent(ObjectServer::default().api(), |settings, adapters| {
        let gc = &mut settings.images.gc;
        (gc.high_percent, gc.age_min, gc.age_max) = (high_percent, Duration::ZERO, None);
        settings.images.by_handler = shelf.by_handler;
        adapters.images = shelf.clone();
    });
    start_alone(Child::ImageGc, &played.agent);
    played
}

async fn ask(played: &PlayedAgent) -> Result<(), String> {
    let gc = played.agent.directory.image_gc.clone();
    gc.ask(Cause::outside("test"), Duration::from_secs(60), ImageGcMsg::RemoveAllUnused).await.expect("answered")
}

/// EVI-30: a pod would be evicted though unused images were never tried.
#[tokio::test(start_paused = true)]
async fn evi_30_a_pass_for_space_that_fails_does_not_answer_for_unused_images() {
    let shelf = Arc::new(Shelf::default());
    shelf.put("unused");
    shelf.is_blind.store(true, Ordering::SeqCst);
    let played = played(&shelf, 85);
    seconds(0.5).await; // The pass at the start is under way, and fails for want of the disk's use.
    assert_eq!(ask(&played).await, Ok(()));
    assert_eq!(shelf.images(), [""; 0]);
}

/// EVI-30: the list that a pass works by may lack images that came since.
#[tokio::test(start_paused = true)]
async fn evi_30_an_asker_is_answered_by_a_pass_that_began_after_the_question() {
    let shelf = Arc::new(Shelf::default());
    shelf.put("old");
    let played = played(&shelf, 100);
    let first = ask(&played);
    let second = async {
        seconds(0.5).await;
        shelf.put("new");
        let answer = ask(&played).await;
        (answer, shelf.images())
    };
    let (first, second) = futures_util::future::join(first, second).await;
    assert_eq!((first, second), (Ok(()), (Ok(()), vec![])));
}

/// CRI-37.
#[tokio::test(start_paused = true)]
async fn an_image_is_removed_for_its_handler_where_each_has_its_own() {
    for (by_handler, told) in [(true, "gvisor"), (false, "")] {
        let shelf = Arc::new(Shelf { by_handler, ..Shelf::default() });
        shelf.put("unused");
        let played = played(&shelf, 100);
        assert_eq!(ask(&played).await, Ok(()));
        assert_eq!(*shelf.handlers.lock().expect("not poisoned"), [told]);
    }
}
