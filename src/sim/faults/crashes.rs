//! Makes actors fail, at one exact message or now and then, and mailboxes small.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use super::random::Random;
use super::{Fault, Faults};
use crate::actors::kit::trace::{self, lock};
use crate::sim::meter::TurnMeter;
use crate::sim::story::Story;

/// Share of turns that fail while [`Fault::Crashes`] goes on.
const SHARE: f64 = 0.01;

/// One turn that fails: the `index`-th of its kind of actor, counted from 0 over all actors of the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The kind, such as `PodWorker`.
    pub kind: String,
    /// Which turn.
    pub index: u64,
    /// Before or after the message was handled.
    pub after: bool,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.kind, self.index, if self.after { "after" } else { "before" })
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not KIND:INDEX, KIND:INDEX:before or KIND:INDEX:after");
        let parts: Vec<&str> = text.split(':').collect();
        let (kind, index, after) = match parts.as_slice() {
            [kind, index] | [kind, index, "before"] => (kind, index, false),
            [kind, index, "after"] => (kind, index, true),
            _ => return Err(wrong()),
        };
        let index = index.parse().map_err(|_| wrong())?;
        Ok(Self { kind: (*kind).to_owned(), index, after })
    }
}

#[derive(Default)]
struct Counts {
    before: BTreeMap<&'static str, u64>,
    after: BTreeMap<&'static str, u64>,
}

/// See the module. Counts go on over the agent's incarnations.
pub struct Crashes {
    exact: Option<Crash>,
    mailbox: Option<(String, usize)>,
    meter: Option<Arc<TurnMeter>>,
    faults: Arc<Faults>,
    random: Random,
    story: Arc<Story>,
    counts: Mutex<Counts>,
    /// A kind of actor whose next turn fails.
    next: Mutex<Option<&'static str>>,
}

impl Crashes {
    /// With one exact crash, or only those of [`Fault::Crashes`].
    pub fn new(seed: u64, exact: Option<Crash>, faults: Arc<Faults>, story: Arc<Story>) -> Self {
        let random = Random::named(seed, "crashes");
        let (counts, next) = (Mutex::default(), Mutex::default());
        Self { exact, mailbox: None, meter: None, faults, random, story, counts, next }
    }

    /// Bounds the mailboxes of one kind of actor.
    #[must_use]
    pub fn with_mailbox(self, mailbox: Option<(String, usize)>) -> Self {
        Self { mailbox, ..self }
    }

    /// Has turns measured.
    #[must_use]
    pub fn with_meter(self, meter: Option<Arc<TurnMeter>>) -> Self {
        Self { meter, ..self }
    }

    /// The next turn of this kind of actor fails.
    pub fn crash_next(&self, kind: &'static str) {
        *lock(&self.next) = Some(kind);
    }

    /// Turns begun so far, by kind.
    pub fn turns(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.counts).before.clone()
    }

    fn strikes(&self, kind: &'static str, index: u64, after: bool) -> bool {
        let exact = self.exact.as_ref();
        let hit = (!after && lock(&self.next).take_if(|next| *next == kind).is_some())
            || exact.is_some_and(|crash| crash.kind == kind && crash.index == index && crash.after == after)
            || (self.faults.has(Fault::Crashes) && self.random.chance(SHARE / 2.0));
        if hit {
            let when = if after { "after" } else { "before" };
            self.story.tell("fault", format!("{kind} panics {when} its message {index}"));
        }
        hit
    }
}

fn take(counts: &mut BTreeMap<&'static str, u64>, kind: &'static str) -> u64 {
    let count = counts.entry(kind).or_default();
    *count += 1;
    *count - 1
}

impl trace::Faults for Crashes {
    fn strikes_before(&self, kind: &'static str, _: &str, _: u64) -> bool {
        let index = {
            let mut counts = lock(&self.counts);
            let index = take(&mut counts.before, kind);
            counts.after.insert(kind, index);
            index
        };
        let strikes = self.strikes(kind, index, false);
        self.meter.iter().for_each(|meter| meter.begin(kind));
        strikes
    }

    fn strikes_after(&self, kind: &'static str, _: &str, _: u64) -> bool {
        self.meter.iter().for_each(|meter| meter.end(kind));
        let index = lock(&self.counts).after.get(kind).copied().unwrap_or_default();
        self.strikes(kind, index, true)
    }

    fn capacity(&self, kind: &'static str, capacity: usize) -> usize {
        self.mailbox.as_ref().filter(|(small, _)| small == kind).map_or(capacity, |(_, bound)| *bound)
    }
}
