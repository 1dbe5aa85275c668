//! Asks programs for credentials, also with a token of the pod's service account (KEP-4412). Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use super::Args;
use crate::logic::images::credential_plugins::{AnswerCache, Provider, parse_answer};
use crate::logic::images::credential_tokens::{Account, AccountToken, KnownToken, TokenAttributes};
use crate::logic::images::image_records::RecordedAccount;
use crate::logic::volumes::content::token::{EXPIRATION_SECONDS, TokenKey};
use crate::messages::images::image_manager::{Given, ImageRequest};
use crate::platform::cluster::objects::patiently;
use crate::platform::observer::Observation;

/// The facts when credentials are looked for.
pub(super) struct Known {
    /// For whom.
    pub request: Arc<ImageRequest>,
    /// Earlier answers of programs; only where one is given tokens.
    pub answers: AnswerCache,
    /// Tokens of the pod that are still good.
    pub tokens: Vec<(TokenKey, KnownToken)>,
    /// Since the agent's start.
    pub uptime: Duration,
}

/// Asks one program.
pub(super) async fn ask_program(
    args: &Args,
    provider: &Provider,
    repository: &str,
    token: Option<&AccountToken>,
) -> Result<Given, String> {
    let began = args.clock.uptime();
    let printed = args.host.ask_provider(provider, repository, token).await;
    let printed = printed.map_err(|error| error.to_string());
    let answer =
        printed.and_then(|printed| parse_answer(provider, &printed)).and_then(|answer| provider.accept(answer, token));
    let took = args.clock.uptime().saturating_sub(began);
    args.observer.observe(Observation::ProviderAsked { name: &provider.name, took, failed: answer.is_err() });
    Ok(Given { answer: answer?, account: None, is_new: true })
}

/// Asks the program with a token, unless it has answered about the account before; `None` where it is not for this pod.
/// The token goes to `used`, so that it is not asked for again while it is good.
pub(super) async fn ask_with_token(
    args: &Args,
    (provider, attributes): (&Provider, &TokenAttributes),
    repository: &str,
    known: &Known,
    used: &mut Vec<(TokenKey, KnownToken)>,
) -> Result<Option<Given>, String> {
    let (objects, request) = (&args.objects, &known.request);
    let (namespace, name) = (&*request.full_name.namespace, &request.service_account);
    let found = patiently("serviceaccount", name, objects.service_account(namespace, name)).await;
    let found = found.map_err(|error| format!("failed to get service account: {error}"))?;
    let Some(account) = attributes.account(&found) else { return Ok(None) };
    let key = TokenKey {
        namespace: namespace.to_owned(),
        service_account: name.clone(),
        service_account_uid: account.uid.clone(),
        audience: attributes.audience.clone(),
        expiration_seconds: EXPIRATION_SECONDS,
        pod_name: request.full_name.name.to_string(),
        pod_uid: request.uid.clone(),
    };
    let token = match known.tokens.iter().find(|(one, _)| *one == key) {
        Some((_, token)) => token.clone(),
        None => {
            let asked = patiently("token of serviceaccount", name, objects.token(&key)).await;
            let token = asked.map_err(|error| format!("failed to get service account token: {error}"))?;
            KnownToken { text: token.text, life: token.life }
        }
    };
    used.push((key, token.clone()));
    let token = AccountToken { account, token: token.text };
    let hash = attributes.per_token().then(|| args.host.hash(&token.token));
    let kept_under = token.account.cache_key(hash.as_deref());
    let Account { namespace, name, uid, .. } = token.account.clone();
    let account = Some((RecordedAccount { uid, namespace, name }, kept_under.clone()));
    if let Some(answer) = known.answers.find(provider, &kept_under, repository, known.uptime) {
        return Ok(Some(Given { answer: answer.clone(), account, is_new: false }));
    }
    let given = ask_program(args, provider, repository, Some(&token)).await?;
    Ok(Some(Given { account, ..given }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use async_trait::async_trait;
    use serde_json::{Value, json};

    use super::super::steps::{gather, look_up};
    use super::*;
    use crate::actors::kit::trace::Cause;
    use crate::actors::node::tests::{PlayedAgent, played_agent};
    use crate::actors::played_api::ObjectServer;
    use crate::actors::wiring::images::image_manager_args;
    use crate::cri::{AuthConfig, CriResult, Image, ImageFsInfo, ImageService, ImageSpec, PodSandboxConfig};
    use crate::logic::images::credential_plugins::{parse_config, validate};
    use crate::logic::images::image_policy::PullPolicy;
    use crate::logic::images::image_records::{Access, RecordedAccess, VerificationPolicy, access};
    use crate::logic::model::ids::{FullName, PodUid};
    use crate::messages::images::image_manager::Gathered;
    use crate::platform::images::LinuxImageHost;

    const CONFIG: &str = "
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: helper
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [reg.example]
  defaultCacheDuration: 1h
  tokenAttributes:
    serviceAccountTokenAudience: reg.example
    requireServiceAccount: REQUIRED
    cacheType: ServiceAccount
    requiredServiceAccountAnnotationKeys: [KEYS]
";

    /// A program that notes what it is asked, and answers.
    fn write_program(folder: &Path) {
        let answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Image",
            "auth": { "reg.example": { "username": "u", "password": "p" } },
        });
        let path = folder.join("helper");
        let script = format!("#!/bin/sh\ncat >>\"$0.asked\"\necho '{answer}'\n");
        crate::platform::host::played_program::write_program(&path, &script);
    }

    struct Setup {
        played: PlayedAgent,
        server: ObjectServer,
        folder: tempfile::TempDir,
    }

    fn setup(required: &str, keys: &str) -> Setup {
        let folder = tempfile::tempdir().expect("a folder");
        write_program(folder.path());
        let providers = parse_config(&CONFIG.replace("REQUIRED", required).replace("KEYS", keys)).expect("of its form");
        assert_eq!(validate(&providers, true), Ok(()));
        let server = ObjectServer::default();
        let account =
            json!({ "metadata": { "name": "robot", "namespace": "ns", "uid": "su", "annotations": { "a": "b" } } });
        server.put("/api/v1/namespaces/ns/serviceaccounts/robot", account);
        let played = played_agent(server.api(), |settings, adapters| {
            settings.images.credential_providers = providers.into();
            settings.images.verification = VerificationPolicy::NeverPreloaded;
            adapters.images = Arc::new(Store);
            adapters.image_host = Arc::new(LinuxImageHost::new(folder.path(), folder.path()));
        });
        Setup { played, server, folder }
    }

    /// A runtime that has every image.
    struct Store;

    #[async_trait]
    impl ImageService for Store {
        async fn list_images(&self, _: Option<&ImageSpec>) -> CriResult<Vec<Image>> {
            Ok(vec![])
        }
        async fn image_status(&self, _: &ImageSpec) -> CriResult<Option<Image>> {
            Ok(Some(Image { id: "sha256:1".to_owned(), ..Image::default() }))
        }
        async fn pull_image(&self, _: &ImageSpec, _: Option<&AuthConfig>, _: &PodSandboxConfig) -> CriResult<String> {
            Ok(String::new())
        }
        async fn remove_image(&self, _: &ImageSpec) -> CriResult<()> {
            Ok(())
        }
        async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
            Ok(ImageFsInfo::default())
        }
    }

    impl Setup {
        fn args(&self) -> Arc<Args> {
            Arc::new(image_manager_args(&self.played.agent))
        }

        fn known(&self, account: &str, answers: AnswerCache, tokens: Vec<(TokenKey, KnownToken)>) -> Known {
            let request = ImageRequest {
                uid: PodUid::from("pu"),
                full_name: FullName::new("web", "ns"),
                field_path: String::new(),
                image: "reg.example/app".to_owned(),
                policy: PullPolicy::Always,
                runtime_handler: String::new(),
                sandbox_config: Arc::new(PodSandboxConfig::default()),
                credentials: Ok(vec![]),
                service_account: account.to_owned(),
            };
            Known { request: Arc::new(request), answers, tokens, uptime: Duration::ZERO }
        }

        async fn gather(&self, account: &str, answers: AnswerCache, tokens: Vec<(TokenKey, KnownToken)>) -> Gathered {
            let known = self.known(account, answers, tokens);
            gather(self.args(), "reg.example/app".to_owned(), vec![0], known).await
        }

        /// The access of a pod that runs as this to an image that was pulled for `robot` under this name.
        async fn access(&self, account: &str, name: &str) -> Access {
            let agent = &self.played.agent;
            let (uid, namespace, of) = ("su".to_owned(), "ns".to_owned(), "robot".to_owned());
            let allowed = RecordedAccess::of_account(RecordedAccount { uid, namespace, name: of });
            let (host, now) = (&agent.adapters.image_host, agent.trace.clock().now());
            host.record_pulled(name, "sha256:1", Some(&allowed), now).await.expect("recorded");
            let mut known = self.known(account, AnswerCache::default(), vec![]);
            known.request = Arc::new(ImageRequest { image: name.to_owned(), ..(*known.request).clone() });
            let found =
                look_up(self.args(), ImageSpec::default(), name.to_owned(), known, Cause::outside("test")).await;
            let found = found.expect("answered").expect("it is there");
            access(&agent.settings.images.verification, name, &found.evidence, &[])
        }

        /// The requests to the program.
        fn asked(&self) -> Vec<Value> {
            let text = std::fs::read_to_string(self.folder.path().join("helper.asked")).unwrap_or_default();
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        }
    }

    /// KEP-4412: token, annotations, and what is remembered of both.
    #[tokio::test]
    async fn a_program_is_asked_with_a_token_of_the_pods_account() {
        let setup = setup("true", "a");
        let mut first = setup.gather("robot", AnswerCache::default(), vec![]).await;
        let given = first.answers.remove(0).1.expect("an answer").expect("for this pod");
        let (account, kept_under) = given.account.clone().expect("an account");
        assert_eq!((account.uid.as_str(), given.is_new), ("su", true));
        let asked = setup.asked();
        assert_eq!(
            (&asked[0]["serviceAccountToken"], &asked[0]["image"]),
            (&json!("a-token"), &json!("reg.example/app"))
        );
        assert_eq!(asked[0]["serviceAccountAnnotations"], json!({ "a": "b" }));
        let spec = setup.server.sent("/token")["spec"].clone();
        assert_eq!(spec["audiences"], json!(["reg.example"]));
        assert_eq!(spec["boundObjectRef"]["uid"], "pu");
        assert_eq!(setup.server.sent("/token")["metadata"]["uid"], "su", "not for another account of this name");
        // The token is used again, and so is the answer, for this account alone.
        let mut answers = AnswerCache::default();
        let provider = &setup.played.agent.settings.images.credential_providers[0];
        answers.keep(provider, &kept_under, "reg.example/app", &given.answer, Duration::ZERO);
        let second = setup.gather("robot", answers, first.tokens).await;
        let given = second.answers[0].1.as_ref().expect("an answer").as_ref().expect("for this pod");
        assert!(!given.is_new);
        assert_eq!((setup.asked().len(), setup.server.calls("/token").len()), (1, 1));
    }

    /// CRI-24, SEC-43: the account that an image was pulled for has to be good for a credential now.
    #[tokio::test]
    async fn an_accounts_name_alone_gives_no_image() {
        let good = setup("true", "a");
        assert_eq!(good.access("robot", "reg.example/app").await, Access::Allowed);
        assert_eq!(good.asked().len(), 1);
        assert_eq!(good.access("", "reg.example/app").await, Access::MustPull);
        assert_eq!(good.access("robot", "other.example/app").await, Access::MustPull, "no program is for it");
        assert_eq!(good.asked().len(), 1);
        let annotated = setup("true", "missing");
        assert_eq!(annotated.access("robot", "reg.example/app").await, Access::MustPull);
        assert!(annotated.asked().is_empty());
        let broken = setup("true", "a");
        std::fs::write(broken.folder.path().join("helper"), "#!/bin/sh\nexit 1\n").expect("written");
        assert_eq!(broken.access("robot", "reg.example/app").await, Access::MustPull);
    }

    #[tokio::test]
    async fn who_has_no_account_or_not_the_annotations_is_not_asked_for() {
        let nothing = |gathered: &Gathered| matches!(gathered.answers[..], [(0, Ok(None))]);
        let strict = setup("true", "a, missing");
        assert!(nothing(&strict.gather("", AnswerCache::default(), vec![]).await));
        assert!(nothing(&strict.gather("robot", AnswerCache::default(), vec![]).await));
        assert_eq!((strict.asked().len(), strict.server.calls("/token").len()), (0, 0));
        let gathered = strict.gather("nobody", AnswerCache::default(), vec![]).await;
        let error = gathered.answers[0].1.as_ref().expect_err("no such account");
        assert!(error.starts_with("failed to get service account: "), "{error}");
        // One that does without: no token goes to it.
        let lenient = setup("false", "");
        let gathered = lenient.gather("", AnswerCache::default(), vec![]).await;
        assert!(matches!(gathered.answers[..], [(0, Ok(Some(_)))]));
        assert!(lenient.asked()[0].get("serviceAccountToken").is_none());
    }
}
