//! How ConfigMaps and Secrets are kept at hand (VOL-50): which are watched, which are read, and who hears of what.
//!
//! Owned by `ObjectCache`. Keeps what pods refer to and the newest state of what was asked for; all of it can be had again
//! from `PodWorker`s and the API server.

mod entry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::object_references::{ObjectKey, ObjectKind};
use crate::logic::model::ids::PodUid;
use entry::{Entry, State};

/// A watch that nobody asked about for this long is ended, if pods are synced more often than a fifth of it.
const IDLE_MIN: Duration = Duration::from_secs(60);
/// How many syncs of a pod a watch outlives without a question.
const IDLE_SYNCS: u32 = 5;
/// How long an object that was read counts as fresh, if the Node does not say otherwise.
pub const TTL: Duration = Duration::from_secs(60);

/// `configMapAndSecretChangeDetectionStrategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeDetection {
    /// Each object is watched from its first use on.
    #[default]
    Watch,
    /// An object is read again once it is too old.
    Cache,
    /// An object is read each time.
    Get,
}

impl ChangeDetection {
    /// From the configuration's word; the default for any other, which the configuration refuses.
    pub fn from_config(word: &str) -> Self {
        match word {
            "Get" => Self::Get,
            "Cache" => Self::Cache,
            _ => Self::Watch,
        }
    }
}

/// A cached object. Its `Debug` names the object and nothing that is in it.
#[derive(Clone, PartialEq)]
pub enum Object {
    /// A ConfigMap.
    ConfigMap(Arc<ConfigMap>),
    /// A Secret.
    Secret(Arc<Secret>),
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, metadata) = match self {
            Self::ConfigMap(object) => (ObjectKind::ConfigMap.word(), &object.metadata),
            Self::Secret(object) => (ObjectKind::Secret.word(), &object.metadata),
        };
        write!(f, "{word} {}", metadata.name.as_deref().unwrap_or_default())
    }
}

impl Object {
    fn is_immutable(&self) -> bool {
        let immutable = match self {
            Self::ConfigMap(object) => object.immutable,
            Self::Secret(object) => object.immutable,
        };
        immutable.unwrap_or(false)
    }

    fn version(&self) -> Option<u64> {
        let metadata = match self {
            Self::ConfigMap(object) => &object.metadata,
            Self::Secret(object) => &object.metadata,
        };
        metadata.resource_version.as_deref()?.parse().ok()
    }
}

/// Why an object could not be had. The texts are the API's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The agent may not read it.
    #[error("{0}")]
    Forbidden(String),
    /// Nobody could be asked, or there was no answer in time.
    #[error("{0}")]
    Unavailable(String),
}

impl ObjectError {
    /// Whether the same question may be answered otherwise later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// The answer to a question.
pub type Answer = Result<Object, ObjectError>;

/// News from a watch of one object.
#[derive(Clone, Debug)]
pub enum Heard {
    /// This is how it is now; `None` when it does not exist.
    Is(Option<Object>),
    /// Nothing can be heard at present. The content so far still stands.
    Trouble(ObjectError),
}

/// Inputs of [`ObjectCache`]. Askers number their questions.
#[derive(Clone, Debug)]
pub enum Input {
    /// A pod is here and refers to these.
    PodChanged(PodUid, BTreeSet<ObjectKey>),
    /// A pod is gone.
    PodGone(PodUid),
    /// Somebody wants an object.
    Asked(u64, ObjectKey),
    /// A question has waited for as long as it may.
    TooLate(u64),
    /// A watch heard something.
    Heard(ObjectKey, Heard),
    /// An object was to be read: how that ended, and for how long it counts as fresh.
    Read(ReadFor, Answer, Duration),
    /// Time to look for watches that nobody needs.
    SweepDue,
}

/// The orders, in sequence.
#[derive(Clone, Debug)]
pub enum Order {
    /// Begin to watch an object, and nothing else.
    Watch(ObjectKey),
    /// End the watch of an object.
    Unwatch(ObjectKey),
    /// Read an object: as the server's own cache has it, or as it is.
    Read {
        /// Which, and for whom.
        read: ReadFor,
        /// The server's cache will do.
        cached: bool,
    },
    /// A question must wait; see [`Input::TooLate`].
    Wait(u64),
    /// A question is answered.
    Answer(u64, Answer),
    /// An object is not as it was: what these pods made of it is old.
    Changed(BTreeSet<PodUid>),
}

/// The purpose of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFor {
    /// Which.
    pub key: ObjectKey,
    /// The only question that it answers; `None` for all that wait for the object.
    pub question: Option<u64>,
}

/// See the module.
pub struct ObjectCache {
    detection: ChangeDetection,
    idle_max: Duration,
    pods: BTreeMap<PodUid, BTreeSet<ObjectKey>>,
    entries: BTreeMap<ObjectKey, Entry>,
    /// The objects of questions that wait.
    open: BTreeMap<u64, ObjectKey>,
}

impl ObjectCache {
    /// An empty cache. Pods are synced every `sync_period`.
    pub fn new(detection: ChangeDetection, sync_period: Duration) -> Self {
        let idle_max = sync_period.saturating_mul(IDLE_SYNCS).max(IDLE_MIN);
        let (pods, entries, open) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { detection, idle_max, pods, entries, open }
    }

    /// Takes one fact; says what to do about it. `now` is the uptime.
    pub fn step(&mut self, input: Input, now: Duration) -> Vec<Order> {
        let asked = match &input {
            Input::Asked(question, key) => Some((*question, key.clone())),
            _ => None,
        };
        let orders = self.take(input, now);
        for order in &orders {
            match order {
                Order::Wait(_) => self.open.extend(asked.clone()),
                Order::Answer(question, _) => drop(self.open.remove(question)),
                _ => {}
            }
        }
        orders
    }

    fn take(&mut self, input: Input, now: Duration) -> Vec<Order> {
        match input {
            Input::PodChanged(uid, references) => self.set_references(uid, references),
            Input::PodGone(uid) => self.set_references(uid, BTreeSet::new()),
            Input::Asked(question, key) => self.ask(question, key, now),
            Input::TooLate(question) => self.give_up(question),
            Input::Heard(key, heard) => self.hear(&key, heard),
            Input::Read(ReadFor { question: Some(question), .. }, answer, _) => vec![Order::Answer(question, answer)],
            Input::Read(ReadFor { key, question: None }, answer, ttl) => self.take_read(&key, answer, now, ttl),
            Input::SweepDue => self.sweep(now),
        }
    }

    /// How many objects are watched.
    pub fn watches(&self) -> usize {
        self.entries.values().filter(|entry| matches!(entry.state, State::Watched(_))).count()
    }

    /// How many objects pods refer to.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no pod refers to any.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The objects that pods refer to, and of each whether it is watched; for the debug views.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, bool)> {
        self.entries.iter().map(|(key, entry)| (key, matches!(entry.state, State::Watched(_))))
    }

    fn set_references(&mut self, uid: PodUid, references: BTreeSet<ObjectKey>) -> Vec<Order> {
        let before = self.pods.remove(&uid).unwrap_or_default();
        for key in references.difference(&before) {
            let entry = self.entries.entry(key.clone()).or_default();
            entry.pods.insert(uid.clone());
            // A new pod is not to see less than whoever made it did.
            entry.outdate();
        }
        let mut orders = vec![];
        for key in before.difference(&references) {
            let entry = self.entries.get_mut(key).expect("every reference has its entry");
            entry.pods.remove(&uid);
            if entry.pods.is_empty() {
                let entry = self.entries.remove(key).expect("found above");
                orders.extend(entry.end(key));
            }
        }
        if !references.is_empty() {
            self.pods.insert(uid, references);
        }
        orders
    }

    fn ask(&mut self, question: u64, key: ObjectKey, now: Duration) -> Vec<Order> {
        let detection = self.detection;
        match (self.entries.get_mut(&key), detection) {
            (_, ChangeDetection::Get) => {
                vec![Order::Read { read: ReadFor { key, question: Some(question) }, cached: false }]
            }
            (None, _) => vec![Order::Answer(question, Err(not_registered(&key)))],
            (Some(entry), ChangeDetection::Watch) => entry.ask_watched(&key, question, now),
            (Some(entry), ChangeDetection::Cache) => entry.ask_read(&key, question, now),
        }
    }

    fn give_up(&mut self, question: u64) -> Vec<Order> {
        // A question that was answered in the meantime waits no longer.
        let Some(key) = self.open.get(&question) else { return vec![] };
        let answer = self.entries.get_mut(key).and_then(|entry| entry.give_up(key, question));
        answer.map(|answer| Order::Answer(question, answer)).into_iter().collect()
    }

    fn hear(&mut self, key: &ObjectKey, heard: Heard) -> Vec<Order> {
        self.entries.get_mut(key).map(|entry| entry.hear(key, heard)).unwrap_or_default()
    }

    fn take_read(&mut self, key: &ObjectKey, answer: Answer, now: Duration, ttl: Duration) -> Vec<Order> {
        self.entries.get_mut(key).map(|entry| entry.take_read(key, answer, now, ttl)).unwrap_or_default()
    }

    fn sweep(&mut self, now: Duration) -> Vec<Order> {
        let idle_max = self.idle_max;
        let swept = self.entries.iter_mut();
        swept.filter_map(|(key, entry)| entry.rest(now, idle_max).then(|| Order::Unwatch(key.clone()))).collect()
    }
}

fn not_registered(key: &ObjectKey) -> ObjectError {
    ObjectError::Unavailable(format!("object \"{}\"/\"{}\" not registered", key.namespace, key.name))
}

/// The API's word for an object that does not exist.
pub fn not_found(key: &ObjectKey) -> ObjectError {
    ObjectError::NotFound(format!("{} \"{}\" not found", key.kind.word(), key.name))
}

/// Upstream's text, with the object before it and the reason behind it (PAIN-21).
fn not_synced(key: &ObjectKey, trouble: Option<&ObjectError>) -> ObjectError {
    let ObjectKey { kind, namespace, name } = key;
    let word = kind.word();
    let text =
        format!("object \"{namespace}\"/\"{name}\": failed to sync {word} cache: timed out waiting for the condition");
    match trouble {
        None => ObjectError::Unavailable(text),
        Some(ObjectError::Forbidden(why)) => ObjectError::Forbidden(format!("{text}: {why}")),
        Some(why) => ObjectError::Unavailable(format!("{text}: {why}")),
    }
}
