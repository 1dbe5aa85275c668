//! `ImageManager`: has images there when containers need them: policy, back-off, queue and rate for the whole node.
//!
//! Parent: Root. Restarted: after a failure; who asked hears that there is no answer, and asks again. Pulls, and with
//! whose credentials, are recorded on the disk. Keeps what programs answered about credentials, for as long as they said.

mod pending;
mod progress;
mod steps;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::held::Held;
use crate::cri::{CriResult, Image, ImageService};
use crate::logic::events::reasons::EventReason;
use crate::logic::images::ImageSettings;
use crate::logic::images::credential_plugins::{AnswerCache, Provider};
use crate::logic::images::credential_tokens::KnownToken;
use crate::logic::images::image_credentials::Credential;
use crate::logic::images::image_name;
use crate::logic::images::image_policy::{ImageDecision, ImageFailure, ImageInUse, PullPolicy, decide, pull_failure};
use crate::logic::images::image_records::{Access, Evidence, RecordedAccess, access, needs_proof};
use crate::logic::images::pull_queue::{PullQueue, Turn, Verdict};
use crate::logic::model::backoff::{Wait, go_duration};
use crate::logic::model::ids::PodUid;
use crate::logic::model::start_reason::StartReason;
use crate::logic::model::time::Moment;
use crate::logic::volumes::content::token::TokenKey;
use crate::messages::Lost;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::images::image_manager::{
    FoundImage, GatherKey, Gathered, Given, ImageManagerMsg, ImageRequest, ImageStep, PulledImage,
};
use crate::platform::cluster::objects::Objects;
use crate::platform::host::clock::Clock;
use crate::platform::images::ImageHost;
use crate::platform::observer::{Observation, Observer};
use pending::{Pending, Reply, hold, key};
use tokens::Known;

/// From a pull that failed to the next question, which gets the back-off as its answer: as upstream, whose next relist of
/// the runtime wakes the pod.
const BACK_OFF_TOLD: Duration = Duration::from_secs(1);

/// The actor's arguments.
#[derive(Clone)]
pub struct Args {
    /// The configuration of images.
    pub settings: ImageSettings,
    /// The runtime's images.
    pub images: Arc<dyn ImageService>,
    /// Records, credentials and programs on the node.
    pub host: Arc<dyn ImageHost>,
    /// Gives tokens of pods' accounts.
    pub objects: Arc<dyn Objects>,
    /// The agent's clock, for operations.
    pub clock: Arc<dyn Clock>,
    /// Counts pulls.
    pub observer: Arc<dyn Observer>,
    /// Keeps an image that a pod is given.
    pub image_gc: Address<ImageGcMsg>,
    /// Hears pods' Events.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// See the module.
pub struct ImageManager {
    args: Arc<Args>,
    queue: PullQueue,
    pending: BTreeMap<u64, Pending>,
    next_number: u64,
    /// Requests that came before it was known what an earlier agent was pulling; `None` once it is.
    held: Option<Held<(Arc<ImageRequest>, Reply)>>,
    answers: AnswerCache,
    /// The requests that wait for the same credentials: each program is asked once for all of them.
    gathering: BTreeMap<GatherKey, Vec<u64>>,
    /// Tokens that programs were given, while they are good.
    tokens: BTreeMap<TokenKey, KnownToken>,
}

impl Actor for ImageManager {
    const KIND: &'static str = "ImageManager";
    type Msg = ImageManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ImageManagerMsg>) -> Self {
        let args = Arc::new(args);
        let held = args.settings.verification.records().then(Held::default);
        if held.is_some() {
            let work = steps::recover(Arc::clone(&args));
            context.start("read records", "interrupted pulls", work, ImageManagerMsg::Recovered);
        }
        Self {
            queue: PullQueue::new(args.settings.pulls),
            args,
            pending: BTreeMap::new(),
            next_number: 0,
            held,
            answers: AnswerCache::default(),
            gathering: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }

    fn receive(&mut self, message: ImageManagerMsg, context: &mut Context<ImageManagerMsg>) {
        match message {
            ImageManagerMsg::Ensure(request, reply) => match &mut self.held {
                Some(held) => hold(held, request, reply),
                None => self.ensure(request, reply, context),
            },
            ImageManagerMsg::Forgive(uid, images) => {
                for image in images.iter().filter_map(|image| image_name::with_default_tag(image).ok()) {
                    self.queue.forgive(&key(&uid, &image));
                }
            }
            ImageManagerMsg::Recovered(_) => {
                for (request, reply) in self.held.take().map(|mut held| held.take()).unwrap_or_default() {
                    self.ensure(request, reply, context);
                }
            }
            ImageManagerMsg::StepEnded { number, step } => match step {
                Ok(ImageStep::LookedUp(found)) => self.looked_up(number, found, context),
                Ok(ImageStep::Pulled(outcome)) => self.pulled(number, outcome, context),
                Err(loss) => self.lose(number, &loss, context),
            },
            ImageManagerMsg::Gathered(key, outcome) => self.gathered(&key, outcome, context),
            ImageManagerMsg::RecordsWritten(_) => {}
            ImageManagerMsg::LimitsChanged(pulls, gc) => {
                let settings = &mut Arc::make_mut(&mut self.args).settings;
                (settings.pulls, settings.gc) = (pulls, gc);
                self.queue.follow(pulls);
            }
            ImageManagerMsg::ImagesLeft(images, began) => {
                let host = Arc::clone(&self.args.host);
                let work = async move {
                    let removed = host.prune_records(&images, began).await;
                    tracing::debug!(removed, "records of images that are gone removed");
                };
                context.start("prune records", "images that are gone", work, ImageManagerMsg::RecordsWritten);
            }
            ImageManagerMsg::Progress(reply) => {
                let _ = reply.send(self.progress(context.clock().uptime())); // The asker may have left.
            }
        }
        self.start_pulls(context);
    }
}

impl ImageManager {
    fn ensure(&mut self, request: Arc<ImageRequest>, reply: Reply, context: &mut Context<ImageManagerMsg>) {
        self.queue.collect_garbage(context.steady());
        self.next_number += 1;
        let number = self.next_number;
        let named = image_name::with_default_tag(&request.image);
        let image = named.clone().unwrap_or_default();
        let policy = request.policy;
        let asked = context.clock().uptime();
        let pending = Pending {
            request,
            image,
            reply,
            asked,
            pull_began: None,
            present: None,
            pull_required: None,
            credentials: vec![],
        };
        if let Err(error) = named {
            let message = format!("Failed to apply default image tag \"{}\": {error}", pending.request.image);
            context.tell(
                &self.args.event_recorder,
                pending.subject().warning(EventReason::InspectFailed, message.clone()),
            );
            self.pending.insert(number, pending);
            self.fail(number, StartReason::InvalidImageName, message, None, context);
            return;
        }
        let (spec, repository, asked_for) = (pending.spec(), pending.repository(), Arc::clone(&pending.request));
        let about = pending.image.clone();
        self.pending.insert(number, pending);
        if policy == PullPolicy::Always {
            self.prepare_pull(number, context);
            return;
        }
        let (args, known) = (Arc::clone(&self.args), self.known(asked_for, &repository, context));
        let cause = context.cause();
        let work = async move { ImageStep::LookedUp(steps::look_up(args, spec, repository, known, cause).await) };
        context.start("image status", about, work, move |step| ImageManagerMsg::StepEnded { number, step });
    }

    fn looked_up(
        &mut self,
        number: u64,
        found: CriResult<Option<Box<FoundImage>>>,
        context: &mut Context<ImageManagerMsg>,
    ) {
        let Some(pending) = self.pending.get(&number) else { return };
        let repository = pending.repository();
        let (image, subject) = (pending.request.image.clone(), pending.subject());
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.fail_inspection(number, &error.to_string(), context),
        };
        let is_present = found.is_some();
        let usable = found.and_then(|found| {
            let FoundImage { image, evidence, asked } = *found;
            self.remember(asked, &repository, context);
            self.allowed(number, image, &evidence, context)
        });
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.present = Some(is_present);
            // An absent image that may not be pulled is neither.
            pending.pull_required = is_present.then_some(usable.is_none());
        }
        // An image that the pod may not use is as good as absent, and told of in the same words (SEC-44).
        let policy = self.pending[&number].request.policy;
        match decide(policy, Some(usable.is_some())) {
            ImageDecision::Use => {
                let verified =
                    if self.args.settings.verification.records() { " and can be accessed by the pod" } else { "" };
                let message = format!("Container image \"{image}\" already present on machine{verified}");
                context.tell(&self.args.event_recorder, subject.normal(EventReason::Pulled, message));
                let found = usable.expect("invariant: decided for its presence");
                self.succeed(number, found.id.clone(), found);
            }
            ImageDecision::Refuse => {
                let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                context
                    .tell(&self.args.event_recorder, subject.warning(EventReason::ErrImageNeverPull, message.clone()));
                self.fail(number, StartReason::ErrImageNeverPull, message, None, context);
            }
            ImageDecision::Pull => self.prepare_pull(number, context),
        }
    }

    /// The image, if the pod may use it without a pull (CRI-24, SEC-43).
    fn allowed(
        &self,
        number: u64,
        found: Image,
        evidence: &Evidence,
        context: &mut Context<ImageManagerMsg>,
    ) -> Option<Image> {
        let (args, request) = (&self.args, &self.pending[&number].request);
        let policy = &args.settings.verification;
        let secrets: Vec<_> = match (&evidence.record, &request.credentials) {
            (Some(_), Ok(credentials)) => {
                credentials.iter().filter_map(|one| steps::recorded(&*args.host, one)).collect()
            }
            _ => vec![],
        };
        let access = access(policy, &request.image, evidence, &secrets);
        if policy.records() {
            self.args.observer.observe(Observation::ImageChecked {
                result: checked(&access, needs_proof(policy, &request.image, evidence)),
            });
        }
        match access {
            Access::Allowed => Some(found),
            Access::AllowedBy(secret) => {
                let (args, image, reference) = (Arc::clone(args), request.image.clone(), found.id.clone());
                let about = image.clone();
                let work = async move {
                    let (now, access) = (args.clock.now(), RecordedAccess::of(Some(secret)));
                    if let Err(error) = args.host.record_pulled(&image, &reference, Some(&access), now).await {
                        tracing::error!(image, %error, "failed to write an image pulled record");
                    }
                };
                context.start("write record", about, work, ImageManagerMsg::RecordsWritten);
                Some(found)
            }
            Access::MustPull => None,
        }
    }

    /// Has the image pulled: finds credentials, unless the pull has to wait anyhow: no program is asked for a pull that is
    /// not tried. One with a pull secret that cannot be read is not, as upstream: nobody knows what it was meant for.
    fn prepare_pull(&mut self, number: u64, context: &mut Context<ImageManagerMsg>) {
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.pull_required = Some(true);
        }
        let pending = &self.pending[&number];
        if let Err(problem) = &pending.request.credentials {
            let (problem, image) = (problem.clone(), &pending.request.image);
            let said = format!("Failed to pull image \"{image}\": {problem}");
            context.tell(&self.args.event_recorder, pending.subject().warning(EventReason::Failed, said));
            self.fail(number, StartReason::ErrImagePull, problem, None, context);
            return;
        }
        if let Some((wait, why)) = self.queue.back_off(&pending.key(), context.steady()) {
            self.back_off(number, &wait, why, context);
            return;
        }
        let (repository, request) = (pending.repository(), Arc::clone(&pending.request));
        let args = Arc::clone(&self.args);
        let providers = args.settings.credential_providers.iter().enumerate();
        let with_tokens = steps::given_tokens(&args, &request, &repository);
        let key: GatherKey = (repository.clone(), (!with_tokens.is_empty()).then(|| request.uid.clone()));
        if let Some(others) = self.gathering.get_mut(&key) {
            others.push(number);
            return;
        }
        let known = self.known(Arc::clone(&request), &repository, context);
        // Whether an answer of one that is given tokens is known depends on the token.
        let asks = |place: usize, provider: &Provider| {
            with_tokens.contains(&place) || self.answers.find(provider, "", &repository, known.uptime).is_none()
        };
        let ask = providers.filter(|(place, provider)| provider.is_for(&repository) && asks(*place, provider));
        let ask: Vec<usize> = ask.map(|(place, _)| place).collect();
        self.gathering.insert(key.clone(), vec![number]);
        let work = steps::gather(Arc::clone(&args), repository.clone(), ask, known);
        context.start("find credentials", repository, work, move |found| ImageManagerMsg::Gathered(key, found));
    }

    /// The facts for programs that are given tokens of the pod's account.
    fn known(&mut self, request: Arc<ImageRequest>, repository: &str, context: &Context<ImageManagerMsg>) -> Known {
        let now = context.now();
        self.tokens.retain(|_, token| !token.life.is_due(now, 0.5));
        let of_pod = self.tokens.iter().filter(|(key, _)| key.pod_uid == request.uid);
        let tokens = of_pod.map(|(key, token)| (key.clone(), token.clone())).collect();
        let answers = match steps::given_tokens(&self.args, &request, repository)[..] {
            [] => AnswerCache::default(),
            _ => self.answers.clone(),
        };
        Known { request, answers, tokens, uptime: context.clock().uptime() }
    }

    /// Keeps what programs answered; gives it by their places.
    fn remember(
        &mut self,
        asked: Gathered,
        repository: &str,
        context: &Context<ImageManagerMsg>,
    ) -> BTreeMap<usize, Option<Given>> {
        let uptime = context.clock().uptime();
        self.tokens.extend(asked.tokens);
        let providers = Arc::clone(&self.args.settings.credential_providers);
        let mut given: BTreeMap<usize, Option<Given>> = BTreeMap::new();
        for (place, outcome) in asked.answers {
            let outcome = outcome.unwrap_or_else(|error| {
                let provider = &providers[place].name;
                tracing::error!(provider, image = repository, error, "Failed to provide credentials for image");
                None
            });
            if let Some(Given { answer, account, is_new: true }) = &outcome {
                let kept_under = account.as_ref().map_or("", |(_, kept_under)| kept_under);
                self.answers.keep(&providers[place], kept_under, repository, answer, uptime);
            }
            given.insert(place, outcome);
        }
        given
    }

    fn gathered(&mut self, key: &GatherKey, outcome: Result<Gathered, Lost>, context: &mut Context<ImageManagerMsg>) {
        let mut gathered = outcome.unwrap_or_default();
        let (uptime, repository) = (context.clock().uptime(), key.0.as_str());
        let node = std::mem::take(&mut gathered.node);
        let given = self.remember(gathered, repository, context);
        let providers = Arc::clone(&self.args.settings.credential_providers);
        let mut found = node.of(repository);
        for (place, provider) in providers.iter().enumerate().filter(|(_, provider)| provider.is_for(repository)) {
            match given.get(&place) {
                Some(given) => found.extend(given.iter().flat_map(|given| credentials(given, repository))),
                // Not asked, because it has answered before.
                None => {
                    let known = self.answers.find(provider, "", repository, uptime);
                    found.extend(known.into_iter().flat_map(|answer| answer.of(repository)));
                }
            }
        }
        for number in self.gathering.remove(key).unwrap_or_default() {
            if let Some(pending) = self.pending.get_mut(&number) {
                pending.credentials = pending.request.credentials.iter().flatten().chain(&found).cloned().collect();
                self.want_pull(number, context);
            }
        }
    }

    fn want_pull(&mut self, number: u64, context: &Context<ImageManagerMsg>) {
        let pending = &self.pending[&number];
        match self.queue.want(number, &pending.request.uid, &pending.key(), context.steady()) {
            // Upstream tells of the pull when it is wanted, before its turn has come and before the rate is asked.
            Verdict::Queued => {
                let event = pending
                    .subject()
                    .normal(EventReason::Pulling, format!("Pulling image \"{}\"", pending.request.image));
                context.tell(&self.args.event_recorder, event);
            }
            Verdict::BackingOff(wait, why) => self.back_off(number, &wait, why, context),
        }
    }

    fn back_off(
        &mut self,
        number: u64,
        wait: &Wait,
        why: Option<(StartReason, String)>,
        context: &Context<ImageManagerMsg>,
    ) {
        let pending = &self.pending[&number];
        let short = format!("Back-off pulling image \"{}\"", pending.request.image);
        context.tell(&self.args.event_recorder, pending.subject().normal(EventReason::BackOff, short.clone()));
        let message = why.map_or(short.clone(), |(reason, message)| format!("{short}: {reason}: {message}"));
        self.fail(number, StartReason::ImagePullBackOff, message, Some(wait.until.since(context.steady())), context);
    }

    fn start_pulls(&mut self, context: &mut Context<ImageManagerMsg>) {
        while let Some(turn) = self.queue.take_next(context.clock().uptime()) {
            let (Turn::Pull(number) | Turn::RateExceeded(number)) = turn;
            if self.pending.get(&number).is_none_or(|pending| pending.reply.is_closed()) {
                self.queue.withdraw(number);
                self.pending.remove(&number);
                continue;
            }
            match turn {
                Turn::Pull(number) => self.start_pull(number, context),
                Turn::RateExceeded(number) => self.fail_pull(number, "pull QPS exceeded", context),
            }
        }
    }

    fn start_pull(&mut self, number: u64, context: &mut Context<ImageManagerMsg>) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.pull_began = Some(context.clock().uptime());
        let (spec, image) = (pending.spec(), pending.image.clone());
        let (written, credentials) = (pending.request.image.clone(), std::mem::take(&mut pending.credentials));
        let config = Arc::clone(&pending.request.sandbox_config);
        let pull = steps::pull_recorded(Arc::clone(&self.args), spec, written, credentials, config, context.cause());
        let work = async move { ImageStep::Pulled(pull.await) };
        context.start("pull image", image, work, move |step| ImageManagerMsg::StepEnded { number, step });
    }

    fn pulled(&mut self, number: u64, outcome: Result<Box<PulledImage>, String>, context: &Context<ImageManagerMsg>) {
        let Some(pending) = self.pending.get(&number) else { return };
        let PulledImage { reference, shown } = match outcome {
            Ok(pulled) => *pulled,
            Err(error) => return self.fail_pull(number, &error, context),
        };
        let uptime = context.clock().uptime();
        let pull = uptime.saturating_sub(pending.pull_began.unwrap_or(uptime));
        let whole = uptime.saturating_sub(pending.asked);
        let bytes = shown.iter().flatten().next().map_or(0, |image| image.size);
        self.count_pull(&pending.request.uid, bytes, whole, context);
        let message = format!(
            "Successfully pulled image \"{}\" in {} ({} including waiting). Image size: {bytes} bytes.",
            pending.request.image,
            go_duration(whole_millis(pull)),
            go_duration(whole_millis(whole)),
        );
        context.tell(&self.args.event_recorder, pending.subject().normal(EventReason::Pulled, message));
        self.queue.done(number, &pending.key());
        // The pull went well whatever is known of the image; but nobody may be run as its user before that is known.
        match shown {
            Ok(Some(image)) => self.succeed(number, reference, image),
            Ok(None) => self.fail_inspection(number, "the runtime does not show it after its pull", context),
            Err(error) => self.fail_inspection(number, &error.to_string(), context),
        }
    }

    fn fail_inspection(&mut self, number: u64, problem: &str, context: &Context<ImageManagerMsg>) {
        let pending = &self.pending[&number];
        let message = format!("Failed to inspect image \"{}\": {problem}", pending.request.image);
        let event = pending.subject().warning(EventReason::InspectFailed, message.clone());
        context.tell(&self.args.event_recorder, event);
        self.fail(number, StartReason::ImageInspectError, message, None, context);
    }

    fn fail_pull(&mut self, number: u64, error: &str, context: &Context<ImageManagerMsg>) {
        let pending = &self.pending[&number];
        let (reason, message) = pull_failure(&pending.request.image, error);
        let (to, subject) = (&self.args.event_recorder, pending.subject());
        let said = format!("Failed to pull image \"{}\": {error}", pending.request.image);
        context.tell(to, subject.warning(EventReason::Failed, said));
        self.queue.failed(number, &pending.key(), (reason, message.clone()), context.steady());
        self.fail(number, reason, message, Some(BACK_OFF_TOLD), context);
    }

    fn count(&self, pending: &Pending) {
        let policy = match pending.request.policy {
            PullPolicy::Always => "always",
            PullPolicy::Never => "never",
            PullPolicy::IfNotPresent => "ifnotpresent",
        };
        let (present, pull_required) = (pending.present, pending.pull_required);
        self.args.observer.observe(Observation::ImageEnsured { policy, present, pull_required });
    }

    /// Counts a pull with its wait for a turn, as upstream does.
    fn count_pull(&self, uid: &PodUid, bytes: u64, took: Duration, context: &Context<ImageManagerMsg>) {
        let began = Moment(context.now().0.saturating_sub(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX)));
        self.args.observer.observe(Observation::ImagePulled { uid, bytes, began, took: whole_millis(took) });
    }

    fn lose(&mut self, number: u64, loss: &Lost, context: &Context<ImageManagerMsg>) {
        if let Some(pending) = self.pending.get(&number) {
            self.queue.done(number, &pending.key());
        }
        self.fail(number, StartReason::ErrImagePull, loss.to_string(), None, context);
    }

    fn succeed(&mut self, number: u64, reference: String, image: Image) {
        let Some(pending) = self.pending.remove(&number) else { return };
        self.count(&pending);
        answer(
            pending,
            Ok(ImageInUse { reference, user_uid: image.uid, username: image.username, volumes: BTreeMap::new() }),
        );
    }

    fn fail(
        &mut self,
        number: u64,
        reason: StartReason,
        message: String,
        retry_after: Option<Duration>,
        context: &Context<ImageManagerMsg>,
    ) {
        let Some(pending) = self.pending.remove(&number) else { return };
        self.count(&pending);
        // A volume's failure is told of with the container that mounts it, by who asked.
        if !pending.request.field_path.is_empty() {
            let event = pending.subject().warning(EventReason::Failed, format!("Error: {reason}"));
            context.tell(&self.args.event_recorder, event);
        }
        answer(pending, Err(ImageFailure { reason: Some(reason), message, retry_after }));
    }
}

/// The credentials that a program gave, marked with whom they were given for.
fn credentials(given: &Given, repository: &str) -> Vec<Credential> {
    let account = given.account.as_ref().map(|(account, _)| account.clone());
    let found = given.answer.of(repository).into_iter();
    found.map(|credential| Credential { account: account.clone(), ..credential }).collect()
}

/// Upstream's word for what came of a check.
fn checked(access: &Access, proof_needed: bool) -> &'static str {
    match access {
        Access::Allowed if !proof_needed => "credentialPolicyAllowed",
        Access::Allowed | Access::AllowedBy(_) => "credentialRecordFound",
        Access::MustPull => "mustAuthenticate",
    }
}

/// Events tell times of pulls to the millisecond, as upstream.
fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn answer(pending: Pending, outcome: Result<ImageInUse, ImageFailure>) {
    let _ = pending.reply.send(outcome); // The asker may have been cancelled.
}

#[cfg(test)]
mod tests;
