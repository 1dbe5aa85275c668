//! Which credentials of a pod's pull secrets are for which image (CRI-23).
//!
//! Pure. Rules of matching are upstream's (`pkg/credentialprovider`). Passwords have no `Debug`, and no error holds one.

use std::collections::BTreeMap;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::image_records::RecordedAccount;
use crate::logic::formats::go_text::json_string;
use crate::logic::formats::host_pattern::is_for_part;
use crate::logic::images::image_records::SecretSource;

/// Of credentials of the default registry, as they are commonly written.
const DEFAULT_REGISTRY: &str = "index.docker.io";
/// Longest name of a registry, with its port, in bytes.
const REGISTRY_MAX: usize = 255;
/// Type and key of a Secret with the newer form.
const JSON_FORM: (&str, &str) = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson");
/// Type and key of a Secret with the older form.
const OLD_FORM: (&str, &str) = ("kubernetes.io/dockercfg", ".dockercfg");

/// A user and a password. Its `Debug` says neither: they are secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential {
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
    /// The user's mail address, which older forms have.
    pub email: String,
    /// The Secret it is from; `None` for one that any pod of the node may use.
    pub source: Option<SecretSource>,
    /// The service account that a program gave it for.
    pub account: Option<RecordedAccount>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a credential from {:?}", self.source)
    }
}

impl Credential {
    /// The text whose SHA-256 stands for the credential in records of pulls: upstream's JSON, without what is empty.
    pub fn text_to_hash(&self) -> String {
        let fields = [("username", &self.username), ("password", &self.password), ("email", &self.email)];
        let there = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let shown: Vec<String> =
            there.map(|(name, value)| format!("{}:{}", json_string(name), json_string(value))).collect();
        format!("{{{}}}", shown.join(","))
    }
}

/// How a text of credentials is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigForm {
    /// `config.json`: registries below `auths`.
    Json,
    /// `.dockercfg`: registries alone.
    Old,
}

/// A Secret that no credentials can be read from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// It is not what its type promises.
    #[error("pull secret {name}: {key} is not a JSON object of registries")]
    Form {
        /// The Secret.
        name: String,
        /// Its key.
        key: &'static str,
    },
    /// A registry's `auth` is not `user:password` in base64.
    #[error("pull secret {name}: auth of registry {registry:?} is not base64 of username:password")]
    Auth {
        /// The Secret.
        name: String,
        /// The registry, without a user's name and password that the Secret may write with it, and cut if it is long.
        registry: String,
    },
}

/// Credentials by what they are for: a registry, with a path below it or without.
#[derive(Clone, Default)]
pub struct Keyring {
    credentials: BTreeMap<String, Vec<Credential>>,
}

impl Keyring {
    /// Adds the credentials of a pull secret. One of another type adds none.
    ///
    /// # Errors
    /// Nothing of the Secret was added.
    pub fn add(&mut self, secret: &Secret) -> Result<(), CredentialsError> {
        let kind = secret.type_.as_deref().unwrap_or_default();
        let data = |key: &str| secret.data.as_ref()?.get(key).filter(|bytes| !bytes.0.is_empty());
        let name = || secret.metadata.name.clone().unwrap_or_default();
        let Some((form, bytes)) =
            [JSON_FORM, OLD_FORM].into_iter().find_map(|form| Some((form, data(form.1).filter(|_| form.0 == kind)?)))
        else {
            return Ok(());
        };
        let source = SecretSource {
            namespace: secret.metadata.namespace.clone().unwrap_or_default(),
            name: name(),
            uid: secret.metadata.uid.clone().unwrap_or_default(),
        };
        let written = if form == JSON_FORM { ConfigForm::Json } else { ConfigForm::Old };
        match self.add_text(&bytes.0, written, Some(&source)) {
            Ok(()) => Ok(()),
            Err(None) => Err(CredentialsError::Form { name: name(), key: form.1 }),
            Err(Some(registry)) => {
                let registry = index_of(&registry).chars().take(REGISTRY_MAX).collect();
                Err(CredentialsError::Auth { name: name(), registry })
            }
        }
    }

    /// Adds the credentials of one of the node's own files; says whether it could be read.
    pub fn add_file(&mut self, bytes: &[u8], form: ConfigForm) -> bool {
        self.add_text(bytes, form, None).is_ok()
    }

    /// Adds a credential for what `registry` names, with a path or without.
    pub fn add_one(&mut self, registry: &str, credential: Credential) {
        self.credentials.entry(index_of(registry)).or_default().push(credential);
    }

    /// Nothing was added on an error: of the whole, or of one registry, which is named.
    fn add_text(&mut self, bytes: &[u8], form: ConfigForm, from: Option<&SecretSource>) -> Result<(), Option<String>> {
        let whole: Value = serde_json::from_slice(bytes).map_err(|_| None)?;
        let registries = if form == ConfigForm::Json { field(&whole, "auths") } else { Some(&whole) };
        let entries = match registries {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Object(entries)) => entries,
            Some(_) => return Err(None),
        };
        let mut found = vec![];
        for (registry, entry) in entries {
            let credential = credential(entry).ok_or_else(|| Some(registry.clone()))?;
            found.push((index_of(registry), Credential { source: from.cloned(), ..credential }));
        }
        for (index, credential) in found {
            // Mostly one: a list that makes room for more would be most of what a large Secret takes.
            self.credentials.entry(index).or_insert_with(|| Vec::with_capacity(1)).push(credential);
        }
        Ok(())
    }

    /// Those for an image, in the order in which they are to be tried: the most specific first. `repository` is the
    /// image's full name without tag and digest, such as `docker.io/library/busybox`.
    pub fn of(&self, repository: &str) -> Vec<Credential> {
        let matching = self.credentials.iter().rev().filter(|(index, _)| matches(index, repository));
        let found: Vec<Credential> = matching.flat_map(|(_, credentials)| credentials).cloned().collect();
        if !found.is_empty() || !is_of_default_registry(repository) {
            return found;
        }
        self.credentials.get(DEFAULT_REGISTRY).cloned().unwrap_or_default()
    }
}

/// A field of an object, by its name in any case, as Go reads it.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields.get(name).or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

/// User and password of a registry's entry; `auth` counts over the plain fields. `None` when it cannot be read.
fn credential(entry: &Value) -> Option<Credential> {
    let text = |name: &str| match field(entry, name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(value) => value.as_str().map(str::to_owned),
    };
    if !entry.is_object() && !entry.is_null() {
        return None;
    }
    let auth = text("auth")?;
    if auth.is_empty() {
        let (username, password) = (text("username")?, text("password")?);
        return Some(Credential { username, password, email: text("email")?, ..Credential::default() });
    }
    let both = decode(&auth)?;
    let (username, password) = both.split_once(':')?;
    let (username, password) = (username.to_owned(), password.to_owned());
    Some(Credential { username, password, email: text("email")?, ..Credential::default() })
}

/// Base64, padded or not, with line ends wherever; as in Go, bits behind the last letter do not count.
fn decode(text: &str) -> Option<String> {
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let letters: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    String::from_utf8(ENGINE.decode(letters).ok()?).ok()
}

/// The place that credentials are for: without scheme, without the registry protocol's version, host and path alone.
fn index_of(registry: &str) -> String {
    let rest = ["https://", "http://"].into_iter().find_map(|scheme| registry.strip_prefix(scheme)).unwrap_or(registry);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = if path.starts_with("/v1/") || path.starts_with("/v2/") { &path[3..] } else { path };
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// Whether credentials for `index` are for the image: same number of host parts, each matching, where `*` stands for any
/// letters of one part; same port; the path a prefix.
pub fn matches(index: &str, repository: &str) -> bool {
    let (Some((host, port, path)), Some((image_host, image_port, image_path))) = (split(index), split(repository))
    else {
        return false;
    };
    let (patterns, parts) = (host.split('.'), image_host.split('.'));
    port == image_port
        && image_path.starts_with(path)
        && patterns.clone().count() == parts.clone().count()
        && patterns.zip(parts).all(|(pattern, part)| is_for_part(pattern, part))
}

/// Host, port and path. `None` when there is no host, or one that no registry can have: pods write both sides, and one
/// side is compared with thousands of the other.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.bytes().take(REGISTRY_MAX + 1).position(|letter| letter == b'/').unwrap_or(text.len());
    if end > REGISTRY_MAX {
        return None;
    }
    let (host, path) = text.split_at(end);
    let by_address =
        host.strip_prefix('[').and_then(|rest| rest.split_once("]:")).filter(|(_, port)| !port.contains(':'));
    let by_name = || host.rsplit_once(':').filter(|(host, _)| !host.contains(':'));
    let (host, port) = by_address.or_else(by_name).unwrap_or((host, ""));
    (!host.is_empty()).then_some((host, port, path))
}

/// Whether the image is from the registry that names without one mean.
fn is_of_default_registry(repository: &str) -> bool {
    match repository.split_once('/') {
        None => !repository.is_empty(),
        Some(("docker.io" | DEFAULT_REGISTRY, _)) => true,
        Some((first, _)) => !first.is_empty() && !first.contains(['.', ':']),
    }
}

#[cfg(test)]
mod tests;
