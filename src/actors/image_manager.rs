//! `ImageManager`: has images there when containers need them: policy, back-off, queue and rate for the whole node.
//!
//! Parent: Root. Restarted: after a failure; who asked hears that there is no answer, and asks again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use super::desk::{Desk, Panicked};
use super::role::Role;
use super::settings::{Agent, EventSubject};
use crate::cri::{AuthConfig, CriResult, Image, ImageService, ImageSpec, PodSandboxConfig};
use crate::logic::backoff::go_duration;
use crate::logic::image_name;
use crate::logic::image_policy::{ImageDecision, ImageFailure, ImageInUse, PullPolicy, decide, pull_failure};
use crate::logic::pull_queue::{PullLimits, PullQueue, Verdict};
use crate::messages::image_manager::{ImageManagerMsg, ImageRequest, ImageStep};

type Reply = RpcReplyPort<Result<ImageInUse, ImageFailure>>;

struct Pending {
    request: Arc<ImageRequest>,
    /// With its default tag.
    image: String,
    reply: Reply,
    asked: Duration,
    pull_began: Option<Duration>,
}

impl Pending {
    fn key(&self) -> String {
        format!("{}_{}", self.request.uid, self.image)
    }

    fn spec(&self) -> ImageSpec {
        ImageSpec {
            image: self.image.clone(),
            annotations: self.request.sandbox_config.annotations.clone(),
            user_specified_image: self.request.image.clone(),
            ..ImageSpec::default()
        }
    }

    fn subject(&self) -> EventSubject {
        EventSubject {
            uid: self.request.uid.clone(),
            full_name: self.request.full_name.clone(),
            field_path: self.request.field_path.clone(),
        }
    }
}

/// See the module.
pub struct ImageManager {
    agent: Arc<Agent>,
    queue: PullQueue,
    pending: BTreeMap<u64, Pending>,
    next_number: u64,
}

impl Role for ImageManager {
    const KIND: &'static str = "ImageManager";
    type Msg = ImageManagerMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, _: &mut Desk<ImageManagerMsg>) -> Self {
        let settings = &agent.settings;
        let limits =
            PullLimits { parallel_max: settings.pulls_max, rate: settings.pull_rate, burst: settings.pull_burst };
        Self { agent, queue: PullQueue::new(limits), pending: BTreeMap::new(), next_number: 0 }
    }

    fn receive(&mut self, message: ImageManagerMsg, desk: &mut Desk<ImageManagerMsg>) {
        match message {
            ImageManagerMsg::Ensure(request, reply) => self.ensure(request, reply, desk),
            ImageManagerMsg::StepEnded { number, step } => match step {
                Ok(ImageStep::LookedUp(found)) => self.looked_up(number, found, desk),
                Ok(ImageStep::Pulled(outcome)) => self.pulled(number, outcome, desk),
                Err(panicked) => self.lose(number, &panicked),
            },
        }
        self.start_pulls(desk);
    }
}

impl ImageManager {
    fn ensure(&mut self, request: Arc<ImageRequest>, reply: Reply, desk: &mut Desk<ImageManagerMsg>) {
        self.queue.collect_garbage(desk.now());
        self.next_number += 1;
        let number = self.next_number;
        let named = image_name::with_default_tag(&request.image);
        let image = named.clone().unwrap_or_default();
        let policy = request.policy;
        let pending = Pending { request, image, reply, asked: desk.clock().uptime(), pull_began: None };
        if let Err(error) = named {
            let message = format!("Failed to apply default image tag \"{}\": {error}", pending.request.image);
            desk.tell(
                &self.agent.directory.event_recorder,
                pending.subject().warning("InspectFailed", message.clone()),
            );
            answer(pending, Err(ImageFailure { reason: "InvalidImageName", message, retry_after: None }));
            return;
        }
        let spec = pending.spec();
        let about = pending.image.clone();
        self.pending.insert(number, pending);
        if policy == PullPolicy::Always {
            self.want_pull(number, desk);
            return;
        }
        let images = Arc::clone(&self.agent.adapters.images);
        let work = async move { ImageStep::LookedUp(images.image_status(&spec).await) };
        desk.start("image status", about, work, move |step| ImageManagerMsg::StepEnded { number, step });
    }

    fn looked_up(&mut self, number: u64, found: CriResult<Option<Image>>, desk: &Desk<ImageManagerMsg>) {
        let Some(pending) = self.pending.get(&number) else { return };
        let to = &self.agent.directory.event_recorder;
        let (image, subject) = (pending.request.image.clone(), pending.subject());
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let message = format!("Failed to inspect image \"{image}\": {error}");
                desk.tell(to, subject.warning("InspectFailed", message.clone()));
                self.fail(number, "ImageInspectError", message, None);
                return;
            }
        };
        match decide(pending.request.policy, Some(found.is_some())) {
            ImageDecision::Use => {
                let message =
                    format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
                desk.tell(to, subject.normal("Pulled", message));
                let found = found.expect("decided for its presence");
                let reference = found.id.clone();
                self.succeed(number, reference, Some(found));
            }
            ImageDecision::Refuse => {
                let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                desk.tell(to, subject.warning("ErrImageNeverPull", message.clone()));
                self.fail(number, "ErrImageNeverPull", message, None);
            }
            ImageDecision::Pull => self.want_pull(number, desk),
        }
    }

    fn want_pull(&mut self, number: u64, desk: &Desk<ImageManagerMsg>) {
        let pending = &self.pending[&number];
        let (now, uptime) = (desk.now(), desk.clock().uptime());
        match self.queue.want(number, &pending.key(), now, uptime) {
            Verdict::Queued => {}
            Verdict::BackingOff(wait, why) => {
                let short = format!("Back-off pulling image \"{}\"", pending.request.image);
                desk.tell(&self.agent.directory.event_recorder, pending.subject().normal("BackOff", short.clone()));
                let message = why.map_or(short.clone(), |(reason, message)| format!("{short}: {reason}: {message}"));
                self.fail(number, "ImagePullBackOff", message, Some(wait.until.since(now)));
            }
            Verdict::RateExceeded => self.fail_pull(number, "pull QPS exceeded", desk),
        }
    }

    fn start_pulls(&mut self, desk: &mut Desk<ImageManagerMsg>) {
        while let Some(number) = self.queue.take_next() {
            let Some(pending) = self.pending.get_mut(&number) else {
                self.queue.done(number, "");
                continue;
            };
            if pending.reply.is_closed() {
                let key = pending.key();
                self.queue.done(number, &key);
                self.pending.remove(&number);
                continue;
            }
            pending.pull_began = Some(desk.clock().uptime());
            let (spec, image) = (pending.spec(), pending.image.clone());
            let event = pending.subject().normal("Pulling", format!("Pulling image \"{}\"", pending.request.image));
            let (images, config) =
                (Arc::clone(&self.agent.adapters.images), Arc::clone(&pending.request.sandbox_config));
            let credentials = pending.request.credentials.clone();
            desk.tell(&self.agent.directory.event_recorder, event);
            let work = async move {
                ImageStep::Pulled(match pull(&*images, &spec, &credentials, &config).await {
                    Ok(reference) => {
                        let status = images.image_status(&spec).await;
                        status.map(|image| (reference, image)).map_err(|error| error.to_string())
                    }
                    Err(error) => Err(error),
                })
            };
            desk.start("pull image", image, work, move |step| ImageManagerMsg::StepEnded { number, step });
        }
    }

    fn pulled(&mut self, number: u64, outcome: Result<(String, Option<Image>), String>, desk: &Desk<ImageManagerMsg>) {
        let Some(pending) = self.pending.get(&number) else { return };
        match outcome {
            Ok((reference, image)) => {
                let uptime = desk.clock().uptime();
                let pull = uptime.saturating_sub(pending.pull_began.unwrap_or(uptime));
                let whole = uptime.saturating_sub(pending.asked);
                let message = format!(
                    "Successfully pulled image \"{}\" in {} ({} including waiting). Image size: {} bytes.",
                    pending.request.image,
                    go_duration(pull),
                    go_duration(whole),
                    image.as_ref().map_or(0, |image| image.size)
                );
                desk.tell(&self.agent.directory.event_recorder, pending.subject().normal("Pulled", message));
                self.queue.done(number, &pending.key());
                self.succeed(number, reference, image);
            }
            Err(error) => self.fail_pull(number, &error, desk),
        }
    }

    fn fail_pull(&mut self, number: u64, error: &str, desk: &Desk<ImageManagerMsg>) {
        let pending = &self.pending[&number];
        let (reason, message) = pull_failure(&pending.request.image, error);
        let (to, subject) = (&self.agent.directory.event_recorder, pending.subject());
        let said = format!("Failed to pull image \"{}\": {error}", pending.request.image);
        desk.tell(to, subject.warning("Failed", said));
        desk.tell(to, subject.warning("Failed", format!("Error: {reason}")));
        self.queue.failed(number, &pending.key(), (reason.to_owned(), message.clone()), desk.now());
        self.fail(number, reason, message, None);
    }

    fn lose(&mut self, number: u64, panicked: &Panicked) {
        if let Some(pending) = self.pending.get(&number) {
            self.queue.done(number, &pending.key());
        }
        self.fail(number, "ErrImagePull", panicked.to_string(), None);
    }

    fn succeed(&mut self, number: u64, reference: String, image: Option<Image>) {
        let Some(pending) = self.pending.remove(&number) else { return };
        let image = image.unwrap_or_default();
        answer(
            pending,
            Ok(ImageInUse { reference, user_uid: image.uid, username: image.username, volumes: BTreeMap::new() }),
        );
    }

    fn fail(&mut self, number: u64, reason: &'static str, message: String, retry_after: Option<Duration>) {
        let Some(pending) = self.pending.remove(&number) else { return };
        answer(pending, Err(ImageFailure { reason, message, retry_after }));
    }
}

/// Tries the credentials one after another; the first that the registry accepts counts (CRI-23).
async fn pull(
    images: &dyn ImageService,
    spec: &ImageSpec,
    credentials: &[AuthConfig],
    config: &PodSandboxConfig,
) -> Result<String, String> {
    if credentials.is_empty() {
        return images.pull_image(spec, None, config).await.map_err(|error| error.to_string());
    }
    let mut errors = vec![];
    for credential in credentials {
        match images.pull_image(spec, Some(credential), config).await {
            Ok(reference) => return Ok(reference),
            Err(error) => errors.push(error.to_string()),
        }
    }
    Err(together(errors))
}

/// Several errors as upstream's aggregate prints them: each text once, in brackets where there are several.
fn together(errors: Vec<String>) -> String {
    let mut texts: Vec<String> = vec![];
    for error in errors {
        if !texts.contains(&error) {
            texts.push(error);
        }
    }
    if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) }
}

fn answer(pending: Pending, outcome: Result<ImageInUse, ImageFailure>) {
    let _ = pending.reply.send(outcome); // The asker may have been cancelled.
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::cri::{CriError, ImageFsInfo};

    /// A registry that knows one user; refuses others with a text of their own, and those without credentials.
    struct Registry(&'static str);

    fn refused<T>(why: &str) -> CriResult<T> {
        Err(CriError::Unavailable { message: why.to_owned() })
    }

    #[async_trait]
    impl ImageService for Registry {
        async fn list_images(&self, _: Option<&ImageSpec>) -> CriResult<Vec<Image>> {
            refused("not played")
        }
        async fn image_status(&self, _: &ImageSpec) -> CriResult<Option<Image>> {
            refused("not played")
        }
        async fn pull_image(
            &self,
            _: &ImageSpec,
            auth: Option<&AuthConfig>,
            _: &PodSandboxConfig,
        ) -> CriResult<String> {
            match auth.map(|auth| auth.username.as_str()) {
                Some(user) if user == self.0 => Ok(format!("pulled as {user}")),
                Some(user) => refused(&format!("{} is denied", user.trim_end_matches('2'))),
                None => refused("anonymous is denied"),
            }
        }
        async fn remove_image(&self, _: &ImageSpec) -> CriResult<()> {
            refused("not played")
        }
        async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
            refused("not played")
        }
    }

    #[tokio::test]
    async fn credentials_are_tried_in_order_until_one_is_accepted() {
        let cases: [(&[&str], Result<&str, &str>); 5] = [
            (&[], Err("anonymous is denied")),
            (&["c"], Ok("pulled as c")),
            (&["a", "c", "b"], Ok("pulled as c")),
            (&["a", "a2"], Err("a is denied")),
            (&["a", "b", "a2"], Err("[a is denied, b is denied]")),
        ];
        for (users, expected) in cases {
            let credentials = users.iter().map(|user| AuthConfig { username: (*user).into(), ..AuthConfig::default() });
            let credentials: Vec<AuthConfig> = credentials.collect();
            let found = pull(&Registry("c"), &ImageSpec::default(), &credentials, &PodSandboxConfig::default()).await;
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{users:?}");
        }
    }
}
