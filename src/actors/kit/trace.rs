//! `Trace`: what every actor did, kept while it happens.
//!
//! One per agent. Holds a record for each actor (mailbox, open turn, its last turns, open operations, restarts) and sums for
//! each kind of actor. One ring holds the whole node's last turns. Written by `Address` and `Context`; read by the debug
//! endpoints, the metrics and the watchdog. Everything in it is bounded.

mod turn_ring;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use litemap::LiteMap;

use self::turn_ring::TurnRing;
use crate::cri::open_calls::{OpenCall, OpenCalls};
use crate::logic::model::histogram::Histogram;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::{Moment, Stamp};
use crate::platform::host::clock::Clock;

/// Turns that the whole node remembers.
pub const NODE_TURNS_MAX: usize = 4096;
/// Turns that one actor remembers.
pub const ACTOR_TURNS_MAX: usize = 24;
/// Bounds of the histograms of turns.
static TURN_BOUNDS: [Duration; 8] = [
    Duration::from_micros(10),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
];

/// A lock that a panicking holder leaves usable: all the trace's state is plain data, valid after every statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a message was sent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Cause {
    /// The turn that sent it, or that began the operation or timer that did.
    pub turn: Option<Stamp>,
    /// How it came about: `turn`, `timer`, an operation's name, or what outside the tree it was.
    pub origin: &'static str,
}

impl Cause {
    /// Something that no turn began: a request, a file's change, the start.
    pub const fn outside(origin: &'static str) -> Self {
        Self { turn: None, origin }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// Still open.
    Open,
    /// As it should.
    Done,
    /// By a panic.
    Panicked,
}

/// One turn of one actor: the handling of one message.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Turn {
    /// Its place in the order of all turns.
    pub id: Stamp,
    /// The name of the actor.
    pub actor: Arc<str>,
    /// The message's name.
    pub message: &'static str,
    /// The pod that the message is about, where it is about one.
    pub pod: Option<PodUid>,
    /// Why the message was sent.
    pub cause: Cause,
    /// Wall clock at its beginning.
    pub began_at: Moment,
    /// Uptime at its beginning.
    pub began: Duration,
    /// Time in the mailbox.
    pub waited: Duration,
    /// Time in the handler.
    pub took: Duration,
    /// How it ended.
    pub ending: Ending,
}

/// Long work that an actor has under way.
#[derive(Clone, Debug, serde::Serialize)]
pub struct OpenOperation {
    /// Its name, such as `run sandbox`.
    pub name: &'static str,
    /// Its subject, in a few words.
    pub about: String,
    /// Uptime at its beginning.
    pub began: Duration,
    /// It is late once it has been open for longer.
    pub late_after: Option<Duration>,
    /// Its calls to the runtime.
    #[serde(skip)]
    pub calls: Arc<OpenCalls>,
}

impl OpenOperation {
    /// How long it has been open, and whether it should have ended by now.
    pub fn open_for(&self, uptime: Duration) -> (Duration, bool) {
        let open = uptime.saturating_sub(self.began);
        (open, self.late_after.is_some_and(|after| open > after))
    }
}

/// An operation that should have ended by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateOperation {
    /// Tells it from every other of this process.
    pub id: u64,
    /// The actor's name.
    pub actor: Arc<str>,
    /// The kind of actor.
    pub kind: &'static str,
    /// The operation's name.
    pub name: &'static str,
    /// Its subject.
    pub about: String,
    /// How long it has been open.
    pub open: Duration,
    /// The time within which it should have ended.
    pub late_after: Duration,
}

impl fmt::Display for LateOperation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actor, name, about, open, late_after, .. } = self;
        let (open, max) = (open.as_secs(), late_after.as_secs());
        write!(out, "{actor} is late: {name} ({about}) has been under way for {open} s, and should end within {max} s")
    }
}

#[derive(Default)]
struct RecordState {
    open: Option<Turn>,
    last: TurnRing<ACTOR_TURNS_MAX>,
    operations: LiteMap<u64, OpenOperation>,
    last_failure: Option<String>,
    note: Option<String>,
}

/// The record of one actor, over all its incarnations.
pub struct ActorRecord {
    /// Its name: the kind, and for one of many the pod.
    pub name: Arc<str>,
    /// Its kind: the name of its type.
    pub kind: &'static str,
    /// Its parent's name; empty for Root.
    pub parent: &'static str,
    /// The most messages that may wait.
    pub capacity: usize,
    depth: AtomicUsize,
    up: AtomicUsize,
    restarts: AtomicU64,
    refused: AtomicU64,
    turns: AtomicU64,
    state: Mutex<RecordState>,
}

impl ActorRecord {
    /// Messages that wait.
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }

    /// Turns so far, over all incarnations.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// How often a further incarnation began.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self) {
        self.depth.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        // A message of an earlier incarnation may leave after the count was reset.
        let _ = self.depth.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |depth| depth.checked_sub(1));
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn came_up(&self) {
        self.depth.store(0, Ordering::Relaxed);
        if self.up.fetch_add(1, Ordering::Relaxed) > 0 {
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
        lock(&self.state).operations.clear();
    }

    pub(super) fn operation_began(&self, id: u64, operation: OpenOperation) {
        lock(&self.state).operations.insert(id, operation);
    }

    pub(super) fn operation_ended(&self, id: u64) {
        let mut state = lock(&self.state);
        state.operations.remove(&id);
        if state.operations.is_empty() {
            state.operations = LiteMap::new(); // An actor at rest keeps no room for work.
        }
    }

    /// The call to the runtime that an operation of this actor about `about` has open for the longest time; about anything,
    /// where `about` is `None`.
    pub fn oldest_call(&self, about: Option<&str>) -> Option<OpenCall> {
        let state = lock(&self.state);
        let operations = state.operations.values().filter(|one| about.is_none_or(|about| one.about == about));
        operations.filter_map(|one| one.calls.oldest()).max_by_key(|call| call.open)
    }

    /// Keeps one sentence about the actor's own progress, for whoever looks.
    pub fn set_note(&self, note: Option<String>) {
        lock(&self.state).note = note;
    }

    /// Notes the failure that the supervisor heard of.
    pub fn failed(&self, why: String) {
        let mut state = lock(&self.state);
        state.last_failure = Some(why);
        if let Some(mut turn) = state.open.take() {
            turn.ending = Ending::Panicked;
            state.last.push(turn);
        }
        state.operations.clear();
    }
}

/// A copy of an [`ActorRecord`], for showing.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ActorView {
    /// Name.
    pub name: Arc<str>,
    /// Kind.
    pub kind: &'static str,
    /// Parent's name.
    pub parent: &'static str,
    /// Messages that wait.
    pub depth: usize,
    /// The most that may wait.
    pub capacity: usize,
    /// Messages refused because the mailbox was full.
    pub refused: u64,
    /// Turns so far.
    pub turns: u64,
    /// Times it was started again.
    pub restarts: u64,
    /// The turn that is open.
    pub open_turn: Option<Turn>,
    /// How long that turn has been open.
    pub open_for: Option<Duration>,
    /// Work under way.
    pub operations: Vec<OpenOperation>,
    /// Whether some of it should have ended by now.
    pub is_late: bool,
    /// Its own sentence about its progress.
    pub note: Option<String>,
    /// Why it last failed.
    pub last_failure: Option<String>,
    /// Its last turns, oldest first.
    pub last_turns: Vec<Turn>,
}

/// The load of all actors of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct KindLoad {
    /// How many actors.
    pub actors: usize,
    /// Messages that wait.
    pub depth: usize,
    /// Operations under way.
    pub operations: usize,
    /// Those of them that should have ended by now.
    pub late: usize,
    /// How long the longest open turn has been open; zero when none is.
    pub open_longest: Duration,
}

/// Sums over all actors of one kind.
#[derive(Clone, Debug)]
pub struct KindSums {
    /// Messages by name.
    pub messages: BTreeMap<&'static str, u64>,
    /// Turns by time in the handler.
    pub took: Histogram<8>,
    /// Turns by time in the mailbox.
    pub waited: Histogram<8>,
    /// Restarts.
    pub restarts: u64,
    /// Messages refused because a mailbox was full.
    pub refused: u64,
    /// Operations that did not end in time, and were given up.
    pub given_up: u64,
}

impl Default for KindSums {
    fn default() -> Self {
        let empty = Histogram::new(&TURN_BOUNDS);
        Self { messages: BTreeMap::new(), took: empty.clone(), waited: empty, restarts: 0, refused: 0, given_up: 0 }
    }
}

/// Asked before and after each turn, so that a test can make any actor fail at any message; and for the size of each
/// mailbox, so that a test can have them full.
pub trait Faults: Send + Sync {
    /// Whether the actor fails before it handles its `index`-th message (from 0, over all incarnations).
    fn strikes_before(&self, kind: &'static str, actor: &str, index: u64) -> bool;
    /// Whether it fails after it handled that message.
    fn strikes_after(&self, kind: &'static str, actor: &str, index: u64) -> bool;
    /// How many messages may wait for an actor of this kind, where the tree says `capacity`.
    fn capacity(&self, _kind: &'static str, capacity: usize) -> usize {
        capacity
    }
}

/// See the module.
pub struct Trace {
    clock: Arc<dyn Clock>,
    faults: Option<Arc<dyn Faults>>,
    actors: Mutex<BTreeMap<Arc<str>, Arc<ActorRecord>>>,
    kinds: Mutex<BTreeMap<&'static str, KindSums>>,
    turns: Mutex<TurnRing<NODE_TURNS_MAX>>,
    /// See [`Trace::put_off_repairs`].
    repairs: OnceLock<Duration>,
}

impl Trace {
    /// An empty trace.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::with_faults(clock, None)
    }

    /// An empty trace whose turns may be made to fail.
    pub fn with_faults(clock: Arc<dyn Clock>, faults: Option<Arc<dyn Faults>>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            faults,
            actors: Mutex::default(),
            kinds: Mutex::default(),
            turns: Mutex::default(),
            repairs: OnceLock::new(),
        })
    }

    /// Has all passes wait so long that only mend what news have missed: a node on which nothing fails needs none of them.
    /// Counts once, for the simulator.
    pub fn put_off_repairs(&self, wait: Duration) {
        let _ = self.repairs.set(wait); // The first word counts.
    }

    /// The wait before a pass that mends what news have missed, where it is usually `period`.
    pub fn until_repair(&self, period: Duration) -> Duration {
        self.repairs.get().map_or(period, |wait| period.max(*wait))
    }

    /// The agent's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The record of an actor; made at first sight, kept until [`Trace::forget`].
    pub fn record(
        &self,
        name: Arc<str>,
        kind: &'static str,
        parent: &'static str,
        capacity: usize,
    ) -> Arc<ActorRecord> {
        let capacity = self.faults.as_ref().map_or(capacity, |faults| faults.capacity(kind, capacity));
        let mut actors = lock(&self.actors);
        let record = actors.entry(Arc::clone(&name)).or_insert_with(|| {
            Arc::new(ActorRecord {
                name,
                kind,
                parent,
                capacity,
                depth: AtomicUsize::new(0),
                up: AtomicUsize::new(0),
                restarts: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                turns: AtomicU64::new(0),
                state: Mutex::default(),
            })
        });
        Arc::clone(record)
    }

    /// Drops the record of an actor that will not come again.
    pub fn forget(&self, name: &str) {
        lock(&self.actors).remove(name);
    }

    /// How many actors of a kind there are.
    pub fn count(&self, kind: &'static str) -> usize {
        lock(&self.actors).values().filter(|record| record.kind == kind).count()
    }

    /// Work under way on the whole node, by name.
    pub fn open_operations(&self) -> Vec<&'static str> {
        let actors = lock(&self.actors);
        actors
            .values()
            .flat_map(|record| lock(&record.state).operations.values().map(|open| open.name).collect::<Vec<_>>())
            .collect()
    }

    /// Drops the records of actors of a kind that are not among `names`.
    pub fn keep_only(&self, kind: &'static str, names: &BTreeSet<Arc<str>>) {
        lock(&self.actors).retain(|name, record| record.kind != kind || names.contains(name));
    }

    /// Counts a restart.
    pub fn count_restart(&self, kind: &'static str) {
        lock(&self.kinds).entry(kind).or_default().restarts += 1;
    }

    /// Counts an operation that was given up.
    pub(super) fn count_given_up(&self, kind: &'static str) {
        lock(&self.kinds).entry(kind).or_default().given_up += 1;
    }

    /// Counts a message that a full mailbox refused.
    pub(super) fn count_refusal(&self, record: &ActorRecord) {
        record.refuse();
        lock(&self.kinds).entry(record.kind).or_default().refused += 1;
    }

    pub(super) fn strikes_before(&self, record: &ActorRecord) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.strikes_before(record.kind, &record.name, record.turns()))
    }

    /// Asked when the turn is over and counted, hence the step back.
    pub(super) fn strikes_after(&self, record: &ActorRecord) -> bool {
        self.faults
            .as_ref()
            .is_some_and(|faults| faults.strikes_after(record.kind, &record.name, record.turns().saturating_sub(1)))
    }

    pub(super) fn begin(&self, record: &ActorRecord, turn: Turn) {
        lock(&record.state).open = Some(turn);
    }

    pub(super) fn end(&self, record: &ActorRecord, ending: Ending) {
        record.turns.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&record.state);
        let Some(mut turn) = state.open.take() else { return };
        turn.took = self.clock.uptime().saturating_sub(turn.began);
        turn.ending = ending;
        state.last.push(turn.clone());
        drop(state);
        let mut kinds = lock(&self.kinds);
        let sums = kinds.entry(record.kind).or_default();
        *sums.messages.entry(turn.message).or_default() += 1;
        sums.took.add(turn.took);
        sums.waited.add(turn.waited);
        drop(kinds);
        lock(&self.turns).push(turn);
    }

    /// All actors, parents before children, then by name.
    pub fn actors(&self) -> Vec<ActorView> {
        let records: Vec<Arc<ActorRecord>> = lock(&self.actors).values().cloned().collect();
        let uptime = self.clock.uptime();
        records.iter().map(|record| view(record, uptime)).collect()
    }

    /// The load of the actors of each kind, without their turns: cheap to ask for.
    pub fn load(&self) -> BTreeMap<&'static str, KindLoad> {
        let uptime = self.clock.uptime();
        let mut loads: BTreeMap<&'static str, KindLoad> = BTreeMap::new();
        for record in lock(&self.actors).values() {
            let state = lock(&record.state);
            let load = loads.entry(record.kind).or_default();
            load.actors += 1;
            load.depth += record.depth();
            load.operations += state.operations.len();
            load.late += state.operations.values().filter(|one| one.open_for(uptime).1).count();
            let open = state.open.as_ref().map(|turn| uptime.saturating_sub(turn.began));
            load.open_longest = load.open_longest.max(open.unwrap_or_default());
        }
        loads
    }

    /// Sums by kind.
    pub fn kinds(&self) -> BTreeMap<&'static str, KindSums> {
        lock(&self.kinds).clone()
    }

    /// The node's last turns that `wanted` takes, oldest first.
    pub fn turns(&self, wanted: impl Fn(&Turn) -> bool) -> Vec<Turn> {
        lock(&self.turns).iter().filter(wanted).collect()
    }

    /// All operations that should have ended by now, by actor.
    pub fn late(&self) -> Vec<LateOperation> {
        let uptime = self.clock.uptime();
        let records: Vec<Arc<ActorRecord>> = lock(&self.actors).values().cloned().collect();
        records.iter().flat_map(|record| late_of(record, uptime)).collect()
    }

    /// The actor whose turn has been open the longest, if for longer than `limit`.
    pub fn stuck(&self, limit: Duration) -> Option<(Arc<str>, &'static str, Duration)> {
        let uptime = self.clock.uptime();
        let records: Vec<Arc<ActorRecord>> = lock(&self.actors).values().cloned().collect();
        records
            .iter()
            .filter_map(|record| {
                let state = lock(&record.state);
                let turn = state.open.as_ref()?;
                Some((Arc::clone(&record.name), turn.message, uptime.saturating_sub(turn.began)))
            })
            .filter(|(_, _, open)| *open > limit)
            .max_by_key(|(_, _, open)| *open)
    }
}

fn late_of(record: &ActorRecord, uptime: Duration) -> Vec<LateOperation> {
    let state = lock(&record.state);
    let late = state.operations.iter().filter_map(|(id, operation)| {
        let (open, is_late) = operation.open_for(uptime);
        let late_after = operation.late_after.filter(|_| is_late)?;
        let (actor, about) = (Arc::clone(&record.name), operation.about.clone());
        Some(LateOperation { id: *id, actor, kind: record.kind, name: operation.name, about, open, late_after })
    });
    late.collect()
}

fn view(record: &ActorRecord, uptime: Duration) -> ActorView {
    let state = lock(&record.state);
    ActorView {
        name: Arc::clone(&record.name),
        kind: record.kind,
        parent: record.parent,
        depth: record.depth(),
        capacity: record.capacity,
        refused: record.refused.load(Ordering::Relaxed),
        turns: record.turns(),
        restarts: record.restarts.load(Ordering::Relaxed),
        open_for: state.open.as_ref().map(|turn| uptime.saturating_sub(turn.began)),
        open_turn: state.open.clone(),
        operations: state.operations.values().cloned().collect(),
        is_late: state.operations.values().any(|operation| operation.open_for(uptime).1),
        note: state.note.clone(),
        last_failure: state.last_failure.clone(),
        last_turns: state.last.iter().collect(),
    }
}
