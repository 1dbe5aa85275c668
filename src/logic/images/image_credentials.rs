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

/// Base64, padded or not, with line ends wherever.
fn decode(text: &str) -> Option<String> {
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
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
    let (host, port) = host.rsplit_once(':').filter(|(host, _)| !host.contains(':')).unwrap_or((host, ""));
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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use k8s_openapi::ByteString;

    use super::*;

    fn secret(kind: &str, key: &str, content: &str) -> Secret {
        Secret {
            type_: Some(kind.to_owned()),
            data: Some(BTreeMap::from([(key.to_owned(), ByteString(content.into()))])),
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                name: Some("pull".into()),
                ..Default::default()
            },
            ..Secret::default()
        }
    }

    fn auths(registries: &Value) -> Secret {
        secret(JSON_FORM.0, JSON_FORM.1, &json!({ "auths": registries }).to_string())
    }

    fn keyring(registries: &[&str]) -> Keyring {
        let mut keyring = Keyring::default();
        for registry in registries {
            keyring.add(&auths(&json!({ *registry: { "username": registry, "password": "p" } }))).unwrap();
        }
        keyring
    }

    fn of_all(registries: serde_json::Map<String, Value>) -> Keyring {
        let mut keyring = Keyring::default();
        keyring.add(&auths(&Value::Object(registries))).unwrap();
        keyring
    }

    #[test]
    fn credentials_match_by_host_port_and_path() {
        let cases: [(&[&str], &str, &[&str]); 22] = [
            (&["reg.example"], "reg.example/team/app", &["reg.example"]),
            (&["https://reg.example"], "reg.example/app", &["https://reg.example"]),
            (&["http://reg.example/"], "reg.example/app", &["http://reg.example/"]),
            (&["https://reg.example/v1/"], "reg.example/app", &["https://reg.example/v1/"]),
            (&["reg.example/v2/team"], "reg.example/team/app", &["reg.example/v2/team"]),
            (&["reg.example/v3/"], "reg.example/app", &[]),
            (&["reg.example:5000"], "reg.example/app", &[]),
            (&["reg.example:5000"], "reg.example:5000/app", &["reg.example:5000"]),
            (&["reg.example"], "reg.example:5000/app", &[]),
            (&["example"], "reg.example/app", &[]),
            (&["*.example"], "reg.example/app", &["*.example"]),
            (&["*.example"], "a.reg.example/app", &[]),
            (&["r*g.example"], "reg.example/app", &["r*g.example"]),
            (&["re[a-h].example", "re[^g].example"], "reg.example/app", &["re[a-h].example"]),
            // The most specific first; a prefix is one of letters, not of parts.
            (
                &["reg.example", "reg.example/te", "reg.example/team", "reg.example/other"],
                "reg.example/team/app",
                &["reg.example/team", "reg.example/te", "reg.example"],
            ),
            (&["https://index.docker.io/v1/"], "docker.io/library/app", &["https://index.docker.io/v1/"]),
            (&["index.docker.io", "docker.io"], "docker.io/library/app", &["docker.io"]),
            (&["index.docker.io"], "reg.example/app", &[]),
            (&["index.docker.io"], "localhost:5000/app", &[]),
            (&["index.docker.io"], "library/app", &["index.docker.io"]),
            (&[""], "reg.example/app", &[]),
            (&["re[.example"], "re[.example/app", &[]),
        ];
        for (registries, repository, expected) in cases {
            let found: Vec<String> =
                keyring(registries).of(repository).into_iter().map(|credential| credential.username).collect();
            assert_eq!(found, expected, "{registries:?} {repository}");
        }
    }

    #[test]
    fn both_forms_of_pull_secrets_are_read() {
        let entry = json!({ "username": "u", "password": "p", "email": "e@example" });
        let cases = [
            (auths(&json!({ "reg.example": entry })), Some(("u", "p"))),
            // `user:pass:word`, padded, not padded, and broken into lines; it counts over the plain fields.
            (auths(&json!({ "reg.example": { "auth": "dXNlcjpwYXNzOndvcmQ=" } })), Some(("user", "pass:word"))),
            (
                auths(&json!({ "reg.example": { "auth": "dXNlcjpwYXNzOndvcmQ", "username": "u" } })),
                Some(("user", "pass:word")),
            ),
            (auths(&json!({ "reg.example": { "auth": "dXNlcjpw\r\nYXNzOndvcmQ=\n" } })), Some(("user", "pass:word"))),
            (secret(JSON_FORM.0, JSON_FORM.1, r#"{"Auths":{"reg.example":{"Username":"u"}}}"#), Some(("u", ""))),
            (secret(OLD_FORM.0, OLD_FORM.1, &json!({ "reg.example": entry }).to_string()), Some(("u", "p"))),
            (secret(JSON_FORM.0, JSON_FORM.1, "{}"), None),
            (secret("Opaque", JSON_FORM.1, &json!({ "auths": { "reg.example": entry } }).to_string()), None),
            (secret(OLD_FORM.0, JSON_FORM.1, &json!({ "auths": { "reg.example": entry } }).to_string()), None),
            (secret(JSON_FORM.0, JSON_FORM.1, ""), None),
            (Secret::default(), None),
        ];
        for (secret, expected) in cases {
            let mut keyring = Keyring::default();
            assert_eq!(keyring.add(&secret), Ok(()));
            let found = keyring.of("reg.example/app");
            let found: Vec<_> = found.iter().map(|one| (one.username.as_str(), one.password.as_str())).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }

    /// CVE-2020-8564, SEC-40.
    #[test]
    fn cve_2020_8564_what_cannot_be_read_is_named_and_not_shown() {
        let form = "pull secret pull: .dockerconfigjson is not a JSON object of registries";
        let auth = "pull secret pull: auth of registry \"reg.example\" is not base64 of username:password";
        let cases = [
            (secret(JSON_FORM.0, JSON_FORM.1, "hunter2"), form),
            (secret(JSON_FORM.0, JSON_FORM.1, r#"{"auths": ["hunter2"]}"#), form),
            (auths(&json!({ "reg.example": { "auth": "hunter2!" } })), auth),
            (auths(&json!({ "reg.example": { "auth": "aHVudGVyMg==" } })), auth),
            (auths(&json!({ "https://user:hunter2@reg.example": { "auth": 7 } })), auth),
            (auths(&json!({ "reg.example": "hunter2" })), auth),
        ];
        for (secret, expected) in cases {
            let mut keyring = keyring(&["reg.example"]);
            assert_eq!(keyring.add(&secret).unwrap_err().to_string(), expected);
            assert_eq!(keyring.of("reg.example/app").len(), 1, "what was there stays");
        }
    }

    /// CRI-23: pods write both the registries of a Secret and the image.
    #[test]
    fn a_large_secret_is_searched_at_once_for_a_long_name() {
        let part = "a".repeat(63);
        let registries = (0..4000).map(|one| (format!("{}{one}.example", "*a".repeat(120)), json!({})));
        let keyring = of_all(registries.chain([(format!("{part}.example"), json!({}))]).collect());
        assert_eq!(keyring.of(&format!("{part}.example/app")).len(), 1);
        let longest = format!("{}.example", "a".repeat(REGISTRY_MAX - 8));
        let keyring =
            of_all([&*longest, &format!("a{longest}")].map(|one| (one.to_owned(), json!({}))).into_iter().collect());
        assert_eq!(keyring.of(&format!("{longest}/app")).len(), 1);
        assert!(keyring.of(&format!("a{longest}/app")).is_empty());
        let keyring = of_all((0..4000).map(|one| (format!("*.{one}"), json!({}))).collect());
        assert!(keyring.of(&format!("{}/app", "a.".repeat(500_000))).is_empty());
    }

    #[test]
    fn all_credentials_of_one_place_are_kept_in_their_order() {
        let mut keyring = Keyring::default();
        for user in ["b", "a"] {
            keyring.add(&auths(&json!({ "reg.example": { "username": user, "password": "p" } }))).unwrap();
        }
        let users: Vec<String> = keyring.of("reg.example/app").into_iter().map(|one| one.username).collect();
        assert_eq!(users, ["b", "a"]);
    }

    proptest! {
        #[test]
        fn credentials_of_one_host_never_go_to_another(
            host in "[a-z]{1,5}\\.[a-z]{1,5}", other in "[a-z]{1,5}\\.[a-z]{1,5}", path in "[a-z/]{0,8}",
        ) {
            let found = keyring(&[&host, &format!("https://{host}/{path}")]).of(&format!("{other}/app"));
            prop_assert!(found.is_empty() || host == other);
        }

        #[test]
        fn a_secret_of_any_content_is_read_or_refused(content in ".{0,64}", registry in ".{0,16}", auth in ".{0,16}") {
            let mut keyring = Keyring::default();
            let _ = keyring.add(&secret(JSON_FORM.0, JSON_FORM.1, &content));
            let _ = keyring.add(&auths(&json!({ registry: { "auth": auth } })));
            keyring.of("reg.example/app");
        }
    }
}
