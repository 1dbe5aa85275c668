//! Which pod may use an image that is on the node already (CRI-24, SEC-43): records of pulls, and policies.
//!
//! A record says with whose credentials an image was pulled. Names of files, JSON and rules are upstream's
//! (`pkg/kubelet/images/pullmanager`), so that records stay good when the agent is exchanged.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::image_name::{ImageName, with_default_tag};
use crate::logic::model::time::Moment;

/// The version that records are written in.
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The beginning of records of either version.
const API_GROUP: &str = "kubelet.config.k8s.io/";
/// Secrets of one image beyond which a mere match adds none.
const SECRETS_MAX: usize = 100;

/// `imagePullCredentialsVerificationPolicy`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum VerificationPolicy {
    /// The gate is off: nothing is verified and nothing recorded.
    #[default]
    Off,
    /// Any pod may use any image.
    Never,
    /// Images that the kubelet did not pull are free.
    NeverPreloaded,
    /// These are free: exact names without tag and digest, and prefixes that end with `/`.
    NeverAllowlisted(Vec<String>, Vec<String>),
    /// No image is free.
    Always,
}

impl VerificationPolicy {
    /// From the configuration, which was validated.
    pub fn from_config(gate: bool, policy: &str, allowlist: &[String]) -> Self {
        match policy {
            _ if !gate => Self::Off,
            "NeverVerify" => Self::Never,
            "NeverVerifyAllowlistedImages" => {
                let (prefixes, exact): (Vec<&String>, Vec<&String>) =
                    allowlist.iter().partition(|pattern| pattern.ends_with("/*"));
                let prefixes = prefixes.into_iter().map(|prefix| prefix.trim_end_matches('*').to_owned());
                Self::NeverAllowlisted(exact.into_iter().cloned().collect(), prefixes.collect())
            }
            "AlwaysVerify" => Self::Always,
            _ => Self::NeverPreloaded,
        }
    }

    /// Whether pulls are recorded.
    pub fn records(&self) -> bool {
        *self != Self::Off
    }

    /// Whether a look into the records can matter.
    pub fn asks_records(&self) -> bool {
        !matches!(self, Self::Off | Self::Never)
    }

    fn requires(&self, image: &str, pulled_here: bool) -> bool {
        match self {
            Self::Off | Self::Never => false,
            Self::NeverPreloaded => pulled_here,
            Self::NeverAllowlisted(exact, prefixes) => {
                let name = without_tag(image);
                !exact.contains(&name) && !prefixes.iter().any(|prefix| name.starts_with(prefix))
            }
            Self::Always => true,
        }
    }
}

/// A Secret that an image was pulled with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedSecret {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// SHA-256 of the credential, lower hex.
    #[serde(default)]
    pub credential_hash: String,
}

impl RecordedSecret {
    /// A credential of a Secret, by its hash.
    pub fn new(source: &SecretSource, credential_hash: String) -> Self {
        let SecretSource { namespace, name, uid } = source.clone();
        Self { uid, namespace, name, credential_hash }
    }

    fn place(&self) -> (&str, &str, &str) {
        (&self.namespace, &self.name, &self.uid)
    }
}

/// A service account that an image was pulled for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAccount {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The pods that may use an image under one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedAccess {
    /// Pods that have one of these Secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_secrets: Vec<RecordedSecret>,
    /// Pods that run as one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_service_accounts: Vec<RecordedAccount>,
    /// Any pod of the node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub node_pods_accessible: bool,
}

impl RecordedAccess {
    /// The access that a pull with a credential for this service account allows.
    pub fn of_account(account: RecordedAccount) -> Self {
        Self { kubernetes_service_accounts: vec![account], ..Self::default() }
    }

    /// The access that a pull with this credential allows; without one, or with one of the node's, all pods.
    pub fn of(secret: Option<RecordedSecret>) -> Self {
        Self {
            node_pods_accessible: secret.is_none(),
            kubernetes_secrets: secret.into_iter().collect(),
            kubernetes_service_accounts: vec![],
        }
    }
}

/// That the kubelet pulled an image, and with what (`ImagePulledRecord`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PulledRecord {
    kind: String,
    api_version: String,
    /// RFC 3339, whole seconds.
    pub last_updated_time: Option<String>,
    /// The image, as the runtime refers to it.
    pub image_ref: String,
    /// By the image's name without tag and digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credential_mapping: BTreeMap<String, RecordedAccess>,
}

/// That a pull of an image began (`ImagePullIntent`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullIntent {
    kind: String,
    api_version: String,
    /// The image as the pod names it.
    pub image: String,
}

impl PullIntent {
    /// Of this image.
    pub fn new(image: &str) -> Self {
        Self { kind: "ImagePullIntent".to_owned(), api_version: API_VERSION.to_owned(), image: image.to_owned() }
    }

    /// From a file; `None` when it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let found: Self = serde_json::from_slice(bytes).ok()?;
        (found.kind == "ImagePullIntent" && found.api_version.starts_with(API_GROUP)).then_some(found)
    }

    /// As upstream writes it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts have a JSON form") + "\n"
    }

    /// Whether the image has this name, in full or as pods write it.
    pub fn is_of(&self, name: &str) -> bool {
        let full = |text: &str| {
            let tagged = with_default_tag(text).ok()?;
            ImageName::parse(&tagged).ok()
        };
        self.image == name || (full(name).is_some() && full(&self.image) == full(name))
    }
}

impl PulledRecord {
    /// A record that allows nobody yet.
    pub fn new(image_ref: &str, now: Moment) -> Self {
        Self {
            kind: "ImagePulledRecord".to_owned(),
            api_version: API_VERSION.to_owned(),
            last_updated_time: Some(now.to_timestamp().to_string()),
            image_ref: image_ref.to_owned(),
            credential_mapping: BTreeMap::new(),
        }
    }

    /// From a file; `None` when it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let found: Self = serde_json::from_slice(bytes).ok()?;
        (found.kind == "ImagePulledRecord" && found.api_version.starts_with(API_GROUP)).then_some(found)
    }

    /// As upstream writes it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts have a JSON form") + "\n"
    }

    /// When it was written last; the epoch when it does not tell.
    pub fn updated(&self) -> Moment {
        let time = self.last_updated_time.as_deref().and_then(|text| text.parse().ok());
        time.map_or(Moment::EPOCH, Moment::from_timestamp)
    }
}

/// The record once `access` is added for `image`; `None` when it says so already. A pull under unknown circumstances has
/// no `access`: that the kubelet pulled the image is all that is recorded.
pub fn merged(
    record: Option<PulledRecord>,
    image: &str,
    image_ref: &str,
    access: Option<&RecordedAccess>,
    now: Moment,
) -> Option<PulledRecord> {
    let is_new = record.is_none();
    let mut record = record.unwrap_or_else(|| PulledRecord::new(image_ref, now));
    let before = record.credential_mapping.clone();
    if let Some(access) = access.filter(|access| **access != RecordedAccess::default()) {
        let known = record.credential_mapping.entry(without_tag(image)).or_default();
        if access.node_pods_accessible {
            *known = RecordedAccess { node_pods_accessible: true, ..RecordedAccess::default() };
        } else if !known.node_pods_accessible {
            access.kubernetes_secrets.iter().for_each(|secret| add_secret(&mut known.kubernetes_secrets, secret));
            for account in &access.kubernetes_service_accounts {
                if !known.kubernetes_service_accounts.contains(account) {
                    known.kubernetes_service_accounts.push(account.clone());
                }
            }
        }
    }
    if !is_new && record.credential_mapping == before {
        return None;
    }
    record.last_updated_time = Some(now.to_timestamp().to_string());
    Some(record)
}

/// One entry for each Secret, the newest credential of each, in order.
fn add_secret(known: &mut Vec<RecordedSecret>, secret: &RecordedSecret) {
    match known.iter_mut().find(|one| one.place() == secret.place()) {
        Some(one) => one.credential_hash.clone_from(&secret.credential_hash),
        None => known.push(secret.clone()),
    }
    known.sort_by(|left, right| left.place().cmp(&right.place()));
}

/// The record of an image's pulls.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Evidence {
    /// Its record, if there is one that can be read.
    pub record: Option<PulledRecord>,
    /// A pull of it began and was not seen to end.
    pub intent: bool,
    /// The records could not be read: then nothing is taken for granted.
    pub unreadable: bool,
    /// The pod's service account, where a record names such, and a program gives a credential for it.
    pub account: Option<RecordedAccount>,
}

impl Evidence {
    /// Whether it matters as which service account a pod with this image runs.
    pub fn names_accounts(&self, image: &str) -> bool {
        self.recorded(image).is_some_and(|access| !access.kubernetes_service_accounts.is_empty())
    }

    /// The pods that may use it under this name.
    fn recorded(&self, image: &str) -> Option<&RecordedAccess> {
        self.record.as_ref()?.credential_mapping.get(&without_tag(image))
    }
}

/// Whether a pod may use an image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may.
    Allowed,
    /// It may, by a Secret that the record does not have in this form yet.
    AllowedBy(RecordedSecret),
    /// Only the registry can say so.
    MustPull,
}

/// Decides about a pod that has these credentials of Secrets.
pub fn access(policy: &VerificationPolicy, image: &str, evidence: &Evidence, secrets: &[RecordedSecret]) -> Access {
    if evidence.unreadable && policy.asks_records() {
        return Access::MustPull;
    }
    let pulled_here = evidence.record.is_some() || evidence.intent;
    if !policy.requires(image, pulled_here) {
        return Access::Allowed;
    }
    let Some(recorded) = evidence.recorded(image) else { return Access::MustPull };
    if recorded.node_pods_accessible {
        return Access::Allowed;
    }
    if evidence.account.as_ref().is_some_and(|account| recorded.kubernetes_service_accounts.contains(account)) {
        return Access::Allowed;
    }
    let has_room = recorded.kubernetes_secrets.len() < SECRETS_MAX;
    for secret in secrets {
        for known in &recorded.kubernetes_secrets {
            let same_hash = !known.credential_hash.is_empty() && known.credential_hash == secret.credential_hash;
            let same_place = known.place() == secret.place();
            match (same_hash, same_place) {
                (true, true) => return Access::Allowed,
                (true, false) if !has_room => return Access::Allowed,
                (true, false) | (false, true) if has_room => return Access::AllowedBy(secret.clone()),
                _ => {}
            }
        }
    }
    Access::MustPull
}

/// Whether the policy asks for proof that a pod may use the image; without, it may by policy alone.
pub fn needs_proof(policy: &VerificationPolicy, image: &str, evidence: &Evidence) -> bool {
    policy.requires(image, evidence.record.is_some() || evidence.intent)
}

/// Records that may go: of images that are not there any more, if they were written before `began`. Their times have whole
/// seconds: a record of the second in which the look began may be newer, and stays.
pub fn to_prune<'a>(
    records: impl IntoIterator<Item = &'a PulledRecord>,
    images: &BTreeSet<String>,
    began: Moment,
) -> Vec<String> {
    let began = Moment::from_timestamp(began.to_timestamp());
    let gone = records.into_iter().filter(|record| record.updated() < began && !images.contains(&record.image_ref));
    gone.map(|record| record.image_ref.clone()).collect()
}

/// A name as the pod writes it, without its tag and digest.
pub fn without_tag(image: &str) -> String {
    let Ok(parsed) = ImageName::parse(image) else { return image.to_owned() };
    let mut name = image;
    if let Some(digest) = &parsed.digest {
        name = name.strip_suffix(digest.as_str()).and_then(|name| name.strip_suffix('@')).unwrap_or(name);
    }
    if let Some(tag) = &parsed.tag {
        name = name.strip_suffix(tag.as_str()).and_then(|name| name.strip_suffix(':')).unwrap_or(name);
    }
    name.to_owned()
}

#[cfg(test)]
mod tests;

/// A Secret of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretSource {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}
