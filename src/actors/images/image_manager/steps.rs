//! The slow work on an image, step by step: looks, pulls, credentials, records. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use super::Args;
use super::tokens::{self, Known, ask_program};
use crate::actors::kit::trace::Cause;
use crate::cri::{AuthConfig, CriResult, Image, ImageService, ImageSpec, PodSandboxConfig};
use crate::logic::images::image_credentials::Credential;
use crate::logic::images::image_records::{Evidence, RecordedAccess, RecordedSecret, needs_proof};
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::images::image_manager::{FoundImage, Gathered, ImageRequest, PulledImage};
use crate::platform::images::ImageHost;

/// For the removal of an image that a pod is to be given: longer than the runtime's deadline for it.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(150);

/// Keeps the image, by ID or name, from being removed while its container is made; false when it was just being removed:
/// whether it is there must be looked at again.
async fn is_kept(args: &Args, cause: &Cause, reference: &str) -> bool {
    if args.settings.gc.is_off() {
        return true;
    }
    let question = |reply| ImageGcMsg::HandOut(reference.to_owned(), reply);
    // Nobody who could say so removes nothing, either.
    args.image_gc.ask(cause.clone(), REMOVAL_PATIENCE, question).await.unwrap_or(true)
}

/// Asks the runtime for the image and, of one that is there, the records for who may use it. Where they name service
/// accounts, the pod's counts if a program gives a credential for it now, as upstream: its name alone proves nothing.
pub(super) async fn look_up(
    args: Arc<Args>,
    spec: ImageSpec,
    repository: String,
    known: Known,
    cause: Cause,
) -> CriResult<Option<Box<FoundImage>>> {
    let image = loop {
        let Some(image) = args.images.image_status(&spec).await? else { return Ok(None) };
        if is_kept(&args, &cause, &image.id).await {
            break image;
        }
    };
    let (policy, request) = (&args.settings.verification, Arc::clone(&known.request));
    let mut evidence = match policy.asks_records() {
        true => args.host.evidence(&request.image, &image.id).await,
        false => Evidence::default(),
    };
    let mut asked = Gathered::default();
    let counts = needs_proof(policy, &request.image, &evidence) && evidence.names_accounts(&request.image);
    if counts && request.credentials.is_ok() {
        let ask = given_tokens(&args, &request, &repository);
        asked = ask_programs(&args, &repository, ask, &known).await;
        let given = asked.answers.iter().filter_map(|(_, given)| given.as_ref().ok()?.as_ref());
        let good = given.filter(|given| !given.answer.of(&repository).is_empty());
        evidence.account = good.filter_map(|given| Some(given.account.as_ref()?.0.clone())).next();
    }
    Ok(Some(Box::new(FoundImage { image, evidence, asked })))
}

/// The programs, by their places in the configuration, that are given tokens of the pod's account for this repository.
pub(super) fn given_tokens(args: &Args, request: &ImageRequest, repository: &str) -> Vec<usize> {
    if request.service_account.is_empty() {
        return vec![];
    }
    let providers = args.settings.credential_providers.iter().enumerate();
    let wanted = providers.filter(|(_, provider)| provider.tokens.is_some() && provider.is_for(repository));
    wanted.map(|(place, _)| place).collect()
}

/// Reads the node's own credentials, and asks the programs at these places of the configuration, all at once.
pub(super) async fn gather(args: Arc<Args>, repository: String, ask: Vec<usize>, known: Known) -> Gathered {
    let asked = ask_programs(&args, &repository, ask, &known).await;
    Gathered { node: args.host.node_credentials().await, ..asked }
}

/// Asks the programs at these places, all at once.
async fn ask_programs(args: &Args, repository: &str, ask: Vec<usize>, known: &Known) -> Gathered {
    let ask_one = |place: usize| async move {
        let provider = &args.settings.credential_providers[place];
        let mut tokens = vec![];
        let given = match (&provider.tokens, known.request.service_account.as_str()) {
            (Some(attributes), "") if attributes.required == Some(true) => Ok(None),
            (None, _) | (Some(_), "") => ask_program(args, provider, repository, None).await.map(Some),
            (Some(attributes), _) => {
                tokens::ask_with_token(args, (provider, attributes), repository, known, &mut tokens).await
            }
        };
        (place, given, tokens)
    };
    let answers = futures_util::future::join_all(ask.into_iter().map(ask_one)).await;
    let mut gathered = Gathered::default();
    for (place, given, tokens) in answers {
        gathered.answers.push((place, given));
        gathered.tokens.extend(tokens);
    }
    gathered
}

/// One pull with its records: begun before, ended after it, and who may use the image.
pub(super) async fn pull_recorded(
    args: Arc<Args>,
    spec: ImageSpec,
    image: String,
    credentials: Vec<Credential>,
    config: Arc<PodSandboxConfig>,
    cause: Cause,
) -> Result<Box<PulledImage>, String> {
    let (images, host) = (&args.images, &args.host);
    let records = args.settings.verification.records();
    if records {
        let begun = host.begin_pull(&image).await;
        begun
            .map_err(|error| format!("Failed to record image pull intent for container image \"{image}\": {error}"))?;
    }
    let pulled = loop {
        let pulled = pull(&**images, &spec, &credentials, &config).await;
        match &pulled {
            Ok((reference, _)) if !is_kept(&args, &cause, reference).await => {}
            _ => break pulled,
        }
    };
    if records {
        let recorded = match &pulled {
            Ok((reference, used)) => {
                let used = used.map(|place| &credentials[place]);
                let access = match used.and_then(|used| used.account.clone()) {
                    Some(account) => RecordedAccess::of_account(account),
                    None => RecordedAccess::of(used.and_then(|used| recorded(&**host, used))),
                };
                host.record_pulled(&image, reference, Some(&access), args.clock.now()).await
            }
            Err(_) => Ok(()),
        };
        // A pull that could not be recorded stays marked as begun: then it still counts as pulled by the kubelet.
        let ended = match recorded {
            Ok(()) => host.end_pull(&image).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::error!(image, %error, "pull of an image is not recorded");
        }
    }
    let (reference, _) = pulled?;
    Ok(Box::new(PulledImage { reference, shown: images.image_status(&spec).await }))
}

/// How a credential of a Secret stands in records; `None` for one of the node's.
pub(super) fn recorded(host: &dyn ImageHost, credential: &Credential) -> Option<RecordedSecret> {
    let source = credential.source.as_ref()?;
    Some(RecordedSecret::new(source, host.hash(&credential.text_to_hash())))
}

/// Makes records of pulls that an earlier agent had begun, and that brought their image all the same: nobody knows with
/// what credentials, so a pod has to show some that the registry accepts (CRI-24).
pub(super) async fn recover(args: Arc<Args>) {
    let host = &args.host;
    let begun = host.interrupted_pulls().await;
    if begun.is_empty() {
        return;
    }
    let images = match args.images.list_images(None).await {
        Ok(images) => images,
        Err(error) => {
            tracing::error!(%error, "failed to list images, interrupted pulls stay recorded as such");
            return;
        }
    };
    let now = args.clock.now();
    for intent in begun {
        let has_name =
            |image: &&Image| image.repo_tags.iter().chain(&image.repo_digests).any(|name| intent.is_of(name));
        let Some(image) = images.iter().find(has_name) else { continue };
        let recorded = host.record_pulled(&intent.image, &image.id, None, now).await;
        let ended = match recorded {
            Ok(()) => host.end_pull(&intent.image).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::error!(image = intent.image, %error, "interrupted pull is not recorded");
        }
    }
}

/// Tries the credentials one after another; the first that the registry accepts counts (CRI-23), and is told by its place.
async fn pull(
    images: &dyn ImageService,
    spec: &ImageSpec,
    credentials: &[Credential],
    config: &PodSandboxConfig,
) -> Result<(String, Option<usize>), String> {
    if credentials.is_empty() {
        let pulled = images.pull_image(spec, None, config).await;
        return pulled.map(|reference| (reference, None)).map_err(|error| error.to_string());
    }
    let mut errors = vec![];
    for (place, credential) in credentials.iter().enumerate() {
        let (username, password) = (credential.username.clone(), credential.password.clone());
        let auth = AuthConfig { username, password, ..AuthConfig::default() };
        match images.pull_image(spec, Some(&auth), config).await {
            Ok(reference) => return Ok((reference, Some(place))),
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
        type Case = (&'static [&'static str], Result<(&'static str, usize), &'static str>);
        let cases: [Case; 5] = [
            (&[], Err("anonymous is denied")),
            (&["c"], Ok(("pulled as c", 0))),
            (&["a", "c", "b"], Ok(("pulled as c", 1))),
            (&["a", "a2"], Err("a is denied")),
            (&["a", "b", "a2"], Err("[a is denied, b is denied]")),
        ];
        for (users, expected) in cases {
            let credentials = users.iter().map(|user| Credential { username: (*user).into(), ..Credential::default() });
            let credentials: Vec<Credential> = credentials.collect();
            let found = pull(&Registry("c"), &ImageSpec::default(), &credentials, &PodSandboxConfig::default()).await;
            let found = found.as_ref().map(|(name, place)| (name.as_str(), place.expect("a credential was used")));
            assert_eq!(found.map_err(String::as_str), expected, "{users:?}");
        }
    }
}
