//! `ImageManager` over a played registry, under paused time: turns, the rate, and what is known of an image after its pull.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;

use super::*;
use crate::actors::agent::Agent;
use crate::actors::kit::trace::Cause;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::cri::{AuthConfig, CriError, ImageFsInfo, ImageService, ImageSpec, PodSandboxConfig};
use crate::logic::images::image_garbage::ListedImage;
use crate::logic::model::ids::FullName;
use crate::logic::model::start_reason::StartReason;
use crate::messages::Ended;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::images::image_gc::{ImageGcMsg, ImagesRemoved};
use crate::messages::root::Child;

/// A registry with every image, and a runtime that takes a second to pull one.
#[derive(Default)]
struct Registry {
    pulls: AtomicUsize,
    /// The answers of `ImageStatus`, the last one for ever.
    shown: Vec<CriResult<Option<Image>>>,
    looks: AtomicUsize,
    /// The handlers that it was asked for, in order.
    handlers: Mutex<Vec<String>>,
}

impl Registry {
    fn note(&self, spec: &ImageSpec) {
        self.handlers.lock().expect("not poisoned").push(spec.runtime_handler.clone());
    }
}

fn not_played<T>() -> CriResult<T> {
    Err(CriError::Unimplemented { message: "not played".to_owned() })
}

#[async_trait]
impl ImageService for Registry {
    async fn list_images(&self, _: Option<&ImageSpec>) -> CriResult<Vec<Image>> {
        not_played()
    }
    async fn image_status(&self, spec: &ImageSpec) -> CriResult<Option<Image>> {
        self.note(spec);
        let look = self.looks.fetch_add(1, Ordering::SeqCst);
        self.shown.get(look).or(self.shown.last()).cloned().unwrap_or_else(|| Ok(Some(image())))
    }
    async fn pull_image(&self, spec: &ImageSpec, _: Option<&AuthConfig>, _: &PodSandboxConfig) -> CriResult<String> {
        self.note(spec);
        self.pulls.fetch_add(1, Ordering::SeqCst);
        seconds(1.0).await;
        Ok(spec.image.clone())
    }
    async fn remove_image(&self, _: &ImageSpec) -> CriResult<()> {
        not_played()
    }
    async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
        not_played()
    }
}

fn image() -> Image {
    Image { id: "sha256:1".to_owned(), size: 7, username: "www".to_owned(), ..Image::default() }
}

fn played(registry: &Arc<Registry>, pulls_max: Option<usize>) -> PlayedAgent {
    let played = played_agent(ObjectServer::default().api(), |settings, adapters| {
        (settings.images.pulls.parallel_max, settings.images.pulls.rate, settings.images.pulls.burst) =
            (pulls_max, Some(5), 10);
        settings.images.gc.high_percent = 85;
        adapters.images = registry.clone();
    });
    start_alone(Child::ImageManager, &played.agent);
    played
}

fn request(pod: &str, image: &str) -> ImageRequest {
    ImageRequest {
        uid: PodUid::from(pod),
        full_name: FullName::new(pod, "ns"),
        field_path: "spec.containers{main}".to_owned(),
        image: image.to_owned(),
        policy: PullPolicy::Always,
        runtime_handler: String::new(),
        sandbox_config: Arc::new(PodSandboxConfig::default()),
        credentials: Ok(vec![]),
        service_account: String::new(),
    }
}

async fn ensure(agent: &Agent, pod: &str, image: &str) -> Result<ImageInUse, ImageFailure> {
    answer_to(agent, request(pod, image)).await
}

async fn answer_to(agent: &Agent, request: ImageRequest) -> Result<ImageInUse, ImageFailure> {
    let question = |reply| ImageManagerMsg::Ensure(Arc::new(request), reply);
    let manager = &agent.directory.image_manager;
    manager.ask(Cause::outside("test"), Duration::from_secs(60), question).await.expect("answered")
}

/// CRI-22: one pull at a time, of more images than the burst: each is charged to the rate when its turn comes.
#[tokio::test(start_paused = true)]
async fn images_that_wait_for_their_turn_are_not_refused() {
    let registry = Arc::new(Registry::default());
    let played = played(&registry, Some(1));
    let pods: Vec<String> = (1..=15).map(|pod| format!("pod-{pod}")).collect();
    let outcomes = join_all(pods.iter().map(|pod| ensure(&played.agent, pod, pod))).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(registry.pulls.load(Ordering::SeqCst), 15);
}

/// CRI-22: without turns all begin at once, and those that the burst does not cover are refused; but not for a pod whose
/// own pulls are under way.
#[tokio::test(start_paused = true)]
async fn images_that_are_pulled_at_once_are_refused_beyond_the_burst() {
    let registry = Arc::new(Registry::default());
    let several = played(&registry, None);
    let pods: Vec<String> = (1..=15).map(|pod| format!("pod-{pod}")).collect();
    let outcomes = join_all(pods.iter().map(|pod| ensure(&several.agent, pod, pod))).await;
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    let (message, retry_after) = ("pull QPS exceeded".to_owned(), Some(Duration::from_secs(1)));
    let expected = ImageFailure { reason: Some(StartReason::ErrImagePull), message, retry_after };
    assert_eq!(refused, vec![expected; 5]);
    let again = ensure(&several.agent, "pod-15", "pod-15").await.expect_err("it backs off");
    assert_eq!(again.reason, Some(StartReason::ImagePullBackOff));
    let one = played(&registry, None);
    let outcomes = join_all(pods.iter().map(|image| ensure(&one.agent, "pod", image))).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// CVE-2019-11245, SEC-20: whose image it is, the runtime is asked at each start, also when nothing is pulled.
#[tokio::test(start_paused = true)]
async fn cve_2019_11245_an_image_that_is_there_is_looked_at_for_its_user_each_time() {
    let of_user = |uid| Ok(Some(Image { uid: Some(uid), username: String::new(), ..image() }));
    let registry = Arc::new(Registry { shown: vec![of_user(1234), of_user(4321)], ..Registry::default() });
    let played = played(&registry, None);
    let start = async || {
        let request = ImageRequest { policy: PullPolicy::IfNotPresent, ..request("pod", "image") };
        answer_to(&played.agent, request).await.expect("it is there").user_uid
    };
    assert_eq!((start().await, start().await), (Some(1234), Some(4321)));
    assert_eq!(registry.pulls.load(Ordering::SeqCst), 0);
}

/// CRI-37: an image is looked for, pulled and looked at for the handler of the pod's runtime class.
#[tokio::test(start_paused = true)]
async fn an_image_is_asked_for_with_its_handler() {
    let registry = Arc::new(Registry { shown: vec![Ok(None), Ok(Some(image()))], ..Registry::default() });
    let played = played(&registry, None);
    let (policy, runtime_handler) = (PullPolicy::IfNotPresent, "gvisor".to_owned());
    let asked = answer_to(&played.agent, ImageRequest { policy, runtime_handler, ..request("web", "app:1") });
    asked.await.expect("pulled");
    assert_eq!(*registry.handlers.lock().expect("not poisoned"), ["gvisor"; 3]);
}

/// Events of a pod, as `reason: message`.
async fn events(agent: &Agent, pod: &str) -> Vec<String> {
    let question = |reply| EventRecorderMsg::OfPod(PodUid::from(pod), reply);
    let recorder = &agent.directory.event_recorder;
    let events = recorder.ask(Cause::outside("test"), Duration::from_secs(1), question).await.expect("answered");
    events.iter().map(|counted| format!("{}: {}", counted.event.reason, counted.event.message)).collect()
}

/// CRI-22: the worker hears that an image is being pulled when the pull is wanted, however long its turn is to come.
#[tokio::test(start_paused = true)]
async fn a_pull_is_told_of_before_its_turn() {
    let registry = Arc::new(Registry::default());
    let played = played(&registry, Some(1));
    start_alone(Child::EventRecorder, &played.agent);
    let both = join_all(["one", "two"].map(|pod| ensure(&played.agent, pod, pod)));
    let look = async {
        seconds(0.5).await;
        assert_eq!(registry.pulls.load(Ordering::SeqCst), 1);
        for pod in ["one", "two"] {
            assert_eq!(events(&played.agent, pod).await, [format!("Pulling: Pulling image \"{pod}\"")]);
        }
    };
    let (outcomes, ()) = futures_util::future::join(both, look).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let told = events(&played.agent, "two").await;
    assert_eq!(told.iter().filter(|event| event.starts_with("Pulling: ")).count(), 1, "{told:?}");
}

/// CRI-23: with a pull secret that cannot be read nothing is pulled, and what is there is used all the same.
#[tokio::test(start_paused = true)]
async fn a_pull_secret_that_cannot_be_read_keeps_images_from_being_pulled() {
    let registry = Arc::new(Registry::default());
    let played = played(&registry, Some(1));
    start_alone(Child::EventRecorder, &played.agent);
    let with_wrong =
        |policy| ImageRequest { credentials: Err("it is wrong".to_owned()), policy, ..request("web", "app:1") };
    for _ in 0..2 {
        let failure = answer_to(&played.agent, with_wrong(PullPolicy::Always)).await.expect_err("it cannot be read");
        let expected = ImageFailure {
            reason: Some(StartReason::ErrImagePull),
            message: "it is wrong".to_owned(),
            retry_after: None,
        };
        assert_eq!(failure, expected, "and no back-off");
    }
    let told = events(&played.agent, "web").await;
    assert_eq!(told, ["Failed: Failed to pull image \"app:1\": it is wrong", "Failed: Error: ErrImagePull"]);
    let found = answer_to(&played.agent, with_wrong(PullPolicy::IfNotPresent)).await.expect("it is there");
    assert_eq!(found.reference, "sha256:1");
    assert_eq!(registry.pulls.load(Ordering::SeqCst), 0);
}

/// CRI-22, CRI-23: an image that was pulled is no failed pull because nothing is known of it, but nothing is run of it
/// either: its user would be taken for root.
#[tokio::test(start_paused = true)]
async fn a_pulled_image_of_which_nothing_is_known_is_not_backed_off_nor_used() {
    let lost = CriError::Unavailable { message: "connection lost".to_owned() };
    let registry = Registry { shown: vec![Err(lost), Ok(None), Ok(Some(image()))], ..Registry::default() };
    let registry = Arc::new(registry);
    let played = played(&registry, Some(1));
    for problem in ["connection lost", "the runtime does not show it after its pull"] {
        let failure = ensure(&played.agent, "web", "app:1").await.expect_err("nothing is known of it");
        assert_eq!(failure.reason, Some(StartReason::ImageInspectError));
        assert_eq!(failure.message, format!("Failed to inspect image \"app:1\": {problem}"));
    }
    let found = ensure(&played.agent, "web", "app:1").await.expect("no back-off");
    assert_eq!((found.reference.as_str(), found.username.as_str()), ("app:1", "www"));
    assert_eq!(registry.pulls.load(Ordering::SeqCst), 3);
}

/// EVI-40, CRI-22: an image that is being removed just as a pod is given it is looked for again when it is gone; an image
/// that a pod was given is not removed.
#[tokio::test(start_paused = true)]
async fn an_image_that_is_just_being_removed_is_not_handed_out() {
    for (policy, pulls) in [(PullPolicy::IfNotPresent, 1), (PullPolicy::Always, 2)] {
        let shown = match policy {
            PullPolicy::Always => vec![],
            _ => vec![Ok(Some(image())), Ok(None), Ok(Some(image()))],
        };
        let registry = Arc::new(Registry { shown, ..Registry::default() });
        let played = played(&registry, None);
        let gc = &played.agent.directory.image_gc;
        start_alone(Child::ImageGc, &played.agent);
        let may_go = async || {
            let listed =
                ListedImage { id: image().id, names: vec!["app:1".to_owned()], bytes: 7, ..Default::default() };
            let question = |reply| ImageGcMsg::MayGo(Box::new(listed), reply);
            gc.ask(Cause::outside("test"), Duration::from_secs(1), question).await.expect("answered")
        };
        assert!(may_go().await, "nobody has it");
        let asked = answer_to(&played.agent, ImageRequest { policy, ..request("web", "app:1") });
        let removal = async {
            seconds(30.0).await;
            let ended = ImageGcMsg::Removed(Ended::Done(ImagesRemoved::default()));
            gc.tell(Cause::outside("test"), ended).expect("there is room");
        };
        let (found, ()) = futures_util::future::join(asked, removal).await;
        assert_eq!(found.expect("pulled again").reference, "app:1");
        assert_eq!(registry.pulls.load(Ordering::SeqCst), pulls, "{policy:?}");
        assert!(!may_go().await, "it was handed out");
    }
}
