//! Programs that give credentials of registries (CRI-23, SEC-42): their configuration, what they are asked, what they
//! answer, and how long that counts.
//!
//! Owned by `ImageManager`. The protocol is `credentialprovider.kubelet.k8s.io`; texts of errors are upstream's where it
//! has some. No error holds what a program printed: it may be a password.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::credential_tokens::{AccountToken, TokenAttributes};
use super::image_credentials::{Credential, Keyring, matches};
use crate::logic::formats::go_text::duration_nanos;
use crate::logic::formats::yaml::{Duplicates, to_json};
use crate::logic::images::strict_json::{known_fields, texts};

/// Versions of the protocol.
const API_VERSIONS: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
];
/// Versions of the configuration.
const CONFIG_VERSIONS: [&str; 3] =
    ["kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];
/// Under which an answer for all images is kept. No image has such a name.
const GLOBAL: &str = "<global>";
/// Answers kept at most, of all programs; when there are more, those that end first go.
const ANSWERS_MAX: usize = 4096;

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its file's name.
    pub name: String,
    /// Images that it is asked for; `*` stands for letters of one part of a host's name.
    pub match_images: Vec<String>,
    /// How long an answer counts that does not say so.
    pub default_cache: Duration,
    /// The version that it speaks.
    pub api_version: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beside the agent's own.
    pub env: Vec<(String, String)>,
    /// Where it is to be given tokens of service accounts.
    pub tokens: Option<TokenAttributes>,
}

impl Provider {
    /// Whether it is to be asked about this repository: an image's full name without tag and digest.
    pub fn is_for(&self, repository: &str) -> bool {
        self.match_images.iter().any(|pattern| matches(pattern, repository))
    }

    /// The program's request, as JSON.
    pub fn request(&self, repository: &str, token: Option<&AccountToken>) -> String {
        let mut request =
            json!({ "kind": "CredentialProviderRequest", "apiVersion": self.api_version, "image": repository });
        if let Some(token) = token {
            request["serviceAccountToken"] = json!(&*token.token);
            if !token.account.annotations.is_empty() {
                request["serviceAccountAnnotations"] = json!(token.account.annotations);
            }
        }
        format!("{request}\n")
    }

    /// The answer, unless it is one that this program must not give: the token that it was given as a password, where that
    /// would then be kept for other tokens.
    ///
    /// # Errors
    /// In upstream's words.
    pub fn accept(&self, answer: Answer, token: Option<&AccountToken>) -> Result<Answer, String> {
        let per_token = self.tokens.as_ref().is_some_and(TokenAttributes::per_token);
        let echoes = |token: &AccountToken| {
            answer.credentials.iter().any(|(_, credential)| *credential.password == *token.token)
        };
        match token.filter(|token| !per_token && echoes(token)) {
            None => Ok(answer),
            Some(_) => {
                Err("credential provider plugin returned the service account token as the password which is not \
                            allowed when service account cache type is not set to 'Token'"
                    .to_owned())
            }
        }
    }
}

/// Reads one file of a `CredentialProviderConfig`.
///
/// # Errors
/// The fault in the file.
pub fn parse_config(text: &str) -> Result<Vec<Provider>, String> {
    let document = to_json(text, Duplicates::Refuse).map_err(|error| error.to_string())?;
    let of = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
    if of("kind") != "CredentialProviderConfig" {
        return Err(format!("failed to decode {:?} (wrong Kind)", of("kind")));
    }
    if !CONFIG_VERSIONS.contains(&of("apiVersion")) {
        return Err(format!("no kind \"CredentialProviderConfig\" is registered for version {:?}", of("apiVersion")));
    }
    known_fields(&document, &["kind", "apiVersion", "providers"])?;
    let providers = document.get("providers").and_then(Value::as_array).cloned().unwrap_or_default();
    providers.iter().map(parse_provider).collect()
}

fn parse_provider(value: &Value) -> Result<Provider, String> {
    let fields = ["name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env", "tokenAttributes"];
    known_fields(value, &fields)?;
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text("name");
    let tokens = value.get("tokenAttributes").filter(|attributes| !attributes.is_null());
    let Some(cache) = value.get("defaultCacheDuration").and_then(Value::as_str) else {
        return Err("providers.defaultCacheDuration: Required value".to_owned());
    };
    let nanos =
        duration_nanos(cache).ok_or_else(|| format!("providers.defaultCacheDuration: {cache:?} is no duration"))?;
    let Ok(nanos) = u64::try_from(nanos) else {
        return Err(format!(
            "providers.defaultCacheDuration: Invalid value: \"{cache}\": must be greater than or equal to 0"
        ));
    };
    let variable = |one: &Value| {
        let part = |field: &str| Some(one.get(field)?.as_str()?.to_owned());
        Some((part("name")?, part("value").unwrap_or_default()))
    };
    let variables = value.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(Provider {
        name,
        match_images: texts(value, "matchImages")?,
        default_cache: Duration::from_nanos(nanos),
        api_version: text("apiVersion"),
        args: texts(value, "args")?,
        env: variables.iter().map(variable).collect::<Option<_>>().ok_or("providers.env: a variable has no name")?,
        tokens: tokens.map(TokenAttributes::parse).transpose()?,
    })
}

/// Checks all programs of a node; `tokens` is the gate `KubeletServiceAccountTokenForCredentialProviders`.
///
/// # Errors
/// Everything that is wrong, in upstream's words.
pub fn validate(providers: &[Provider], tokens: bool) -> Result<(), String> {
    let mut wrong: Vec<String> = vec![];
    if providers.is_empty() {
        wrong.push("providers: Required value: at least 1 item in plugins is required".to_owned());
    }
    for (index, provider) in providers.iter().enumerate() {
        let name = &provider.name;
        let mut invalid = |why: &str| wrong.push(format!("providers.name: Invalid value: \"{name}\": {why}"));
        if name.contains('/') {
            invalid("provider name cannot contain '/'");
        }
        if name.contains(' ') {
            invalid("provider name cannot contain spaces");
        }
        if name == "." || name == ".." {
            invalid(&format!("provider name cannot be '{name}'"));
        }
        if name.is_empty() || name.contains('\0') {
            invalid("provider name must be the name of a file");
        }
        if providers[..index].iter().any(|other| other.name == *name) {
            wrong.push(format!("providers.name: Duplicate value: \"{name}\""));
        }
        if provider.api_version.is_empty() {
            wrong.push("providers.apiVersion: Required value".to_owned());
        } else if !API_VERSIONS.contains(&provider.api_version.as_str()) {
            let supported = API_VERSIONS.map(|version| format!("{version:?}")).join(", ");
            let version = &provider.api_version;
            wrong
                .push(format!("providers.apiVersion: Unsupported value: \"{version}\": supported values: {supported}"));
        }
        if provider.match_images.is_empty() {
            wrong.push("providers.matchImages: Required value: at least 1 item in matchImages is required".to_owned());
        }
        let attributes = provider.tokens.iter();
        wrong.extend(attributes.flat_map(|attributes| attributes.wrong(&provider.api_version, tokens)));
    }
    match wrong.len() {
        0 => Ok(()),
        1 => Err(wrong.remove(0)),
        _ => Err(format!("[{}]", wrong.join(", "))),
    }
}

/// For which images an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyType {
    Image,
    Registry,
    Global,
}

/// The answer of a program. Its `Debug` says no secret.
#[derive(Clone, Debug)]
pub struct Answer {
    key: KeyType,
    /// How long it counts; `None` for the configured time.
    cache: Option<Duration>,
    credentials: Vec<(String, Credential)>,
}

/// Reads what a program printed.
///
/// # Errors
/// In upstream's words, without what was printed.
pub fn parse_answer(provider: &Provider, printed: &[u8]) -> Result<Answer, String> {
    let undecodable = || "error decoding credential provider plugin response from stdout".to_owned();
    let answer: Value = serde_json::from_slice(printed).map_err(|_| undecodable())?;
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = text(&answer, "apiVersion");
    if version != provider.api_version {
        let shown: String = version.chars().take(64).collect();
        return Err(format!(
            "apiVersion from credential plugin response did not match expected apiVersion:{}, actual apiVersion:{shown}",
            provider.api_version
        ));
    }
    if text(&answer, "kind") != "CredentialProviderResponse" {
        return Err(undecodable());
    }
    let key = match text(&answer, "cacheKeyType").as_str() {
        "Image" => KeyType::Image,
        "Registry" => KeyType::Registry,
        "Global" => KeyType::Global,
        _ => return Err("credential provider plugin did not return a valid cacheKeyType".to_owned()),
    };
    let cache = match answer.get("cacheDuration") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let nanos = value.as_str().and_then(duration_nanos).ok_or_else(undecodable)?;
            Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
        }
    };
    let entries = match answer.get("auth") {
        None | Some(Value::Null) => vec![],
        Some(Value::Object(entries)) => entries.iter().collect(),
        Some(_) => return Err(undecodable()),
    };
    let credential = |entry: &Value| Credential {
        username: text(entry, "username"),
        password: text(entry, "password"),
        ..Credential::default()
    };
    let credentials = entries.into_iter().map(|(registry, entry)| (registry.clone(), credential(entry))).collect();
    Ok(Answer { key, cache, credentials })
}

impl Answer {
    /// The credentials that are for this repository, the most specific first.
    pub fn of(&self, repository: &str) -> Vec<Credential> {
        let mut keyring = Keyring::default();
        for (registry, credential) in &self.credentials {
            keyring.add_one(registry, credential.clone());
        }
        keyring.of(repository)
    }
}

/// Answers that still count.
#[derive(Clone, Debug, Default)]
pub struct AnswerCache {
    /// By program, the account that it was asked for, and what the answer is for; until when, in time since the agent's
    /// start.
    answers: BTreeMap<(String, String, String), (Duration, Answer)>,
}

impl AnswerCache {
    /// The earlier answer of a program about this repository, or about more.
    /// `account` is the key of an account, empty without one.
    pub fn find(&self, provider: &Provider, account: &str, repository: &str, now: Duration) -> Option<&Answer> {
        let keys = [KeyType::Image, KeyType::Registry, KeyType::Global];
        let found = keys.into_iter().filter_map(|key| {
            let key = (provider.name.clone(), account.to_owned(), key_of(key, repository));
            self.answers.get(&key).filter(|(until, _)| now <= *until)
        });
        found.map(|(_, answer)| answer).next()
    }

    /// Keeps an answer for as long as it counts.
    pub fn keep(&mut self, provider: &Provider, account: &str, repository: &str, answer: &Answer, now: Duration) {
        self.answers.retain(|_, (until, _)| now <= *until);
        let lasts = answer.cache.unwrap_or(provider.default_cache);
        if lasts.is_zero() {
            return;
        }
        if self.answers.len() >= ANSWERS_MAX {
            let first = self.answers.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| key.clone());
            first.and_then(|key| self.answers.remove(&key));
        }
        let key = (provider.name.clone(), account.to_owned(), key_of(answer.key, repository));
        self.answers.insert(key, (now.saturating_add(lasts), answer.clone()));
    }
}

fn key_of(key: KeyType, repository: &str) -> String {
    match key {
        KeyType::Image => repository.to_owned(),
        KeyType::Registry => repository.split('/').next().unwrap_or_default().to_owned(),
        KeyType::Global => GLOBAL.to_owned(),
    }
}

#[cfg(test)]
mod tests;
