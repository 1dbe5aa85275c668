//! Which Events reach the API server, and as what: too many about one object are left out, many that differ in their
//! message alone become one, equal ones become a count. As upstream's client does it (client-go, `tools/record`).
//!
//! Owned by `EventRecorder`; keeps what it saw lately, bounded, and may lose it: then an Event is made anew instead of
//! counted up.
//!
//! May import `formats` and `model`.

pub mod field_path;
mod object;
pub mod outbox;
pub mod reasons;
mod recent;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use self::reasons::EventReason;
use self::recent::Recent;
use crate::logic::formats::dns_label::subdomain_problems;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::time::Moment;

/// Objects, groups and Events remembered, of each.
const REMEMBERED_MAX: usize = 4096;
/// Events about one object, of one type, that pass at once.
pub const SPAM_BURST: u32 = 25;
/// After those, one more in so long.
pub const SPAM_PERIOD: Duration = Duration::from_secs(300);
/// From so many different messages on, similar Events become one.
pub const SIMILAR_MAX: usize = 10;
/// So long after the last of them, similar Events are a new group.
pub const SIMILAR_WINDOW: Duration = Duration::from_secs(600);
/// How the message of an Event begins that stands for similar ones.
pub const COMBINED: &str = "(combined from similar events): ";
/// The longest message, in bytes. The API sets no limit for Events of `core/v1` (1024 is that of `events.k8s.io`). A text
/// may come from a runtime or a pod, and the server's storage refuses an object that is too large.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Something worth telling about a pod, or about the node: a Kubernetes Event, before it is one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PodEvent {
    /// Its UID; of the node, its name.
    pub uid: PodUid,
    /// The pod's name and namespace.
    #[serde(skip)]
    pub full_name: FullName,
    /// Such as `spec.containers{web}`; empty for the pod itself.
    pub field_path: String,
    /// Warning, else Normal.
    pub warning: bool,
    /// One word.
    pub reason: EventReason,
    /// A sentence, as upstream says it.
    pub message: String,
    /// Whether it is about a claim, not a pod.
    #[serde(skip)]
    pub is_claim: bool,
    /// The Event object's annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl PodEvent {
    /// Whether it is about the node: of what is in no namespace, it alone has its name for a UID.
    pub fn is_about_node(&self) -> bool {
        self.kind() == "Node"
    }

    /// The kind of what it is about.
    pub fn kind(&self) -> &'static str {
        match self.full_name.namespace.is_empty() {
            false if self.is_claim => "PersistentVolumeClaim",
            false => "Pod",
            true if *self.full_name.name == *self.uid.as_str() => "Node",
            true => "PersistentVolume",
        }
    }

    /// The same, with a message of at most [`MESSAGE_BYTES_MAX`].
    #[must_use]
    pub fn bounded(self) -> Self {
        self.shortened(MESSAGE_BYTES_MAX)
    }

    /// The same, with a message of at most so many bytes.
    #[must_use]
    pub fn shortened(mut self, bytes_max: usize) -> Self {
        const MORE: &str = "...";
        if self.message.len() > bytes_max {
            let room = bytes_max.saturating_sub(MORE.len());
            let end = (0..=room).rev().find(|end| self.message.is_char_boundary(*end)).unwrap_or(0);
            self.message.truncate(end);
            self.message.push_str(MORE);
        }
        self
    }
}

/// An Event as the API server is to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The Event and its pod; the message may stand for similar ones.
    pub event: PodEvent,
    /// The Event object's name: the same for all that is counted in it.
    pub name: String,
    /// How often it was seen.
    pub count: i32,
    /// First time.
    pub first: Moment,
    /// Last time.
    pub last: Moment,
}

/// The object of an Event. The UID alone tells pods apart; with the name, nobody can take another's place.
type Subject = (PodUid, FullName);

/// Events that differ in their message alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Group {
    subject: Subject,
    warning: bool,
    reason: EventReason,
}

/// Equal Events; with `None`, those that stand for similar ones.
type Same = (Group, Option<u128>);

/// The different messages of a group, fewer than [`SIMILAR_MAX`], as hashes: only whether they differ matters, and texts may be long.
#[derive(Debug)]
struct Similar {
    messages: Vec<u128>,
    last: Duration,
}

/// The last report of equal Events.
#[derive(Debug)]
struct Said {
    name: String,
    count: i32,
    first: Moment,
}

/// See the module.
#[derive(Debug)]
pub struct EventCorrelator {
    /// By object and type: when its bucket is full again, on the clock that is never set.
    budgets: Recent<(Subject, bool), Duration>,
    groups: Recent<Group, Similar>,
    said: Recent<Same, Said>,
    /// The moment in the last name that was given.
    named: i64,
}

impl Default for EventCorrelator {
    fn default() -> Self {
        Self::new()
    }
}

impl EventCorrelator {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self {
            budgets: Recent::new(REMEMBERED_MAX),
            groups: Recent::new(REMEMBERED_MAX),
            said: Recent::new(REMEMBERED_MAX),
            named: i64::MIN,
        }
    }

    /// Takes an event that just happened; says what goes to the API server, if anything. `uptime` is time that is never set
    /// back, `now` that of the wall clock.
    pub fn correlate(&mut self, event: PodEvent, now: Moment, uptime: Duration) -> Option<Report> {
        let event = event.bounded();
        let group = Group {
            subject: (event.uid.clone(), event.full_name.clone()),
            warning: event.warning,
            reason: event.reason.clone(),
        };
        let budget = (group.subject.clone(), event.warning);
        let combined = self.is_one_too_many(&group, digest(&[&event.message]), uptime);
        let same = (!combined).then(|| digest(&[&event.field_path, &event.message]));
        let event = if combined { event.combined() } else { event };
        let report = self.count(event, (group, same), now);
        // As upstream, what the budget holds back is counted all the same: the next one that passes tells the sum.
        self.within_budget(budget, uptime).then_some(report)
    }

    /// Whether similar events were so many lately that they become one.
    fn is_one_too_many(&mut self, group: &Group, message: u128, uptime: Duration) -> bool {
        let known = self.groups.take(group).filter(|known| uptime.saturating_sub(known.last) <= SIMILAR_WINDOW);
        let mut similar = known.unwrap_or(Similar { messages: Vec::new(), last: uptime });
        similar.last = uptime;
        let is_known = similar.messages.contains(&message);
        // The first ones keep Events of their own; upstream forgets any of them.
        let combined = !is_known && similar.messages.len() + 1 >= SIMILAR_MAX;
        if !is_known && !combined {
            similar.messages.push(message);
        }
        self.groups.put(group.clone(), similar);
        combined
    }

    fn count(&mut self, event: PodEvent, same: Same, now: Moment) -> Report {
        let said = match self.said.take(&same) {
            Some(said) => Said { count: said.count.saturating_add(1), ..said },
            None => Said { name: self.name(&event, now), count: 1, first: now },
        };
        let report = Report { event, name: said.name.clone(), count: said.count, first: said.first, last: now };
        self.said.put(same, said);
        report
    }

    /// Takes a token out of the object's bucket, if there is one.
    fn within_budget(&mut self, object: (Subject, bool), uptime: Duration) -> bool {
        let full_at = self.budgets.take(&object).unwrap_or(uptime).max(uptime);
        let passes = full_at - uptime <= SPAM_PERIOD * (SPAM_BURST - 1);
        self.budgets.put(object, if passes { full_at + SPAM_PERIOD } else { full_at });
        passes
    }

    /// A name that no other Event has: upstream's form, a nanosecond later where two happen within one.
    fn name(&mut self, event: &PodEvent, now: Moment) -> String {
        self.named = now.0.max(self.named.saturating_add(1));
        let name = format!("{}.{:x}", event.full_name.name, self.named);
        if subdomain_problems(&name).is_empty() {
            return name;
        }
        // As upstream, where the object's name leaves no room: a UUID, here made from what would have been the name.
        let mut bytes = digest(&[event.uid.as_str(), &name]).to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }
}

impl PodEvent {
    fn combined(mut self) -> Self {
        self.message.insert_str(0, COMBINED);
        self.bounded()
    }
}

/// A hash of texts (FNV-1a, 128 bits), each with its length so that no two lists run together. Texts with equal hashes
/// can merge two Events of one object alone: object, type and reason are compared as they are.
fn digest(texts: &[&str]) -> u128 {
    let lengths = texts.iter().map(|text| text.len().to_le_bytes());
    let bytes = texts.iter().zip(lengths).flat_map(|(text, length)| length.into_iter().chain(text.bytes()));
    bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
