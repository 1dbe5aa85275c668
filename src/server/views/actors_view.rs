//! `/debug/actors`: every actor as it is now, as JSON and as a tree for people.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::table::{Cell, Mood, clean, span, table};
use crate::actors::kit::trace::{ActorView, Cause, Ending, KindSums, Turn};
use crate::actors::root::STUCK_AFTER;
use crate::actors::tree::{Directory, FAILURE_WINDOW, TREE};
use crate::logic::model::ids::PodUid;
use crate::server::backend::Backend;

/// All actors. Times are in seconds.
#[derive(Serialize)]
pub(in crate::server) struct ActorsShown {
    uptime_seconds: f64,
    actors: Vec<ActorShown>,
    kinds: BTreeMap<&'static str, KindShown>,
}

/// One actor.
#[derive(Serialize)]
pub(super) struct ActorShown {
    name: String,
    kind: &'static str,
    parent: &'static str,
    state: &'static str,
    note: Option<String>,
    mailbox: MailboxShown,
    turns: u64,
    /// Over its last turns.
    waited: SpreadShown,
    /// Over its last turns.
    took: SpreadShown,
    restarts: u64,
    last_failure: Option<String>,
    budget: Option<BudgetShown>,
    open_turn: Option<TurnShown>,
    operations: Vec<OperationShown>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    last_turns: Vec<TurnShown>,
}

#[derive(Serialize)]
struct MailboxShown {
    depth: usize,
    capacity: usize,
    refused: u64,
}

#[derive(Serialize)]
struct SpreadShown {
    mean_seconds: f64,
    max_seconds: f64,
}

/// How its parent looks after it; only Root's children have a fixed budget.
#[derive(Serialize)]
struct BudgetShown {
    failures_max: u32,
    window_seconds: f64,
    shutdown_seconds: f64,
}

#[derive(Serialize)]
struct OperationShown {
    name: &'static str,
    about: String,
    open_seconds: f64,
    /// Whether it should have ended by now.
    late: bool,
}

/// One turn.
#[derive(Serialize)]
pub(super) struct TurnShown {
    id: u64,
    actor: String,
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<PodUid>,
    cause: Cause,
    /// RFC 3339.
    began: String,
    /// After the agent's start.
    began_uptime_seconds: f64,
    waited_seconds: f64,
    /// So far, if it is open.
    took_seconds: f64,
    ending: Ending,
}

#[derive(Serialize)]
struct KindShown {
    messages: BTreeMap<&'static str, u64>,
    restarts: u64,
    waited_seconds: f64,
    took_seconds: f64,
}

impl From<KindSums> for KindShown {
    fn from(sums: KindSums) -> Self {
        let (waited_seconds, took_seconds) = (sums.waited.sum().as_secs_f64(), sums.took.sum().as_secs_f64());
        Self { messages: sums.messages, restarts: sums.restarts, waited_seconds, took_seconds }
    }
}

/// A turn for showing; `uptime` is the agent's now.
pub(super) fn show_turn(turn: Turn, uptime: Duration) -> TurnShown {
    let took = if turn.ending == Ending::Open { uptime.saturating_sub(turn.began) } else { turn.took };
    let began = jiff::Timestamp::from_nanosecond(turn.began_at.0.into()).unwrap_or_default().to_string();
    TurnShown {
        id: turn.id.0,
        actor: turn.actor.to_string(),
        message: turn.message,
        pod: turn.pod,
        cause: turn.cause,
        began,
        began_uptime_seconds: turn.began.as_secs_f64(),
        waited_seconds: turn.waited.as_secs_f64(),
        took_seconds: took.as_secs_f64(),
        ending: turn.ending,
    }
}

/// Whether one of Root's children has an incarnation now; `None` for other actors.
fn is_up(to: &Directory, name: &str) -> Option<bool> {
    let spec = TREE.iter().find(|spec| <&str>::from(spec.child) == name)?;
    Some(to.is_up(spec.child))
}

/// `down`, `stuck`, `busy` (in a turn), `late` (an operation should have ended by now), `working` (one is open) or `idle`.
pub(in crate::server) fn state_of(view: &ActorView, up: Option<bool>) -> &'static str {
    match view.open_for {
        _ if up == Some(false) => "down",
        Some(open) if open > STUCK_AFTER => "stuck",
        Some(_) => "busy",
        None if view.is_late => "late",
        None if !view.operations.is_empty() => "working",
        None => "idle",
    }
}

fn spread(turns: &[Turn], measure: impl Fn(&Turn) -> Duration) -> SpreadShown {
    let sum: Duration = turns.iter().map(&measure).sum();
    let max = turns.iter().map(&measure).max().unwrap_or_default();
    let count = u32::try_from(turns.len()).unwrap_or(u32::MAX).max(1);
    SpreadShown { mean_seconds: (sum / count).as_secs_f64(), max_seconds: max.as_secs_f64() }
}

fn show(view: ActorView, backend: &Backend, uptime: Duration, with_turns: bool) -> ActorShown {
    let budget = TREE.iter().find(|spec| <&str>::from(spec.child) == &*view.name).map(|spec| BudgetShown {
        failures_max: spec.failures_max,
        window_seconds: FAILURE_WINDOW.as_secs_f64(),
        shutdown_seconds: spec.stop_limit.as_secs_f64(),
    });
    let operations = view.operations.iter().map(|operation| {
        let (open, late) = operation.open_for(uptime);
        let (about, open_seconds) = (operation.about.clone(), open.as_secs_f64());
        OperationShown { name: operation.name, about, open_seconds, late }
    });
    ActorShown {
        state: state_of(&view, is_up(&backend.directory, &view.name)),
        name: view.name.to_string(),
        kind: view.kind,
        parent: view.parent,
        mailbox: MailboxShown { depth: view.depth, capacity: view.capacity, refused: view.refused },
        turns: view.turns,
        waited: spread(&view.last_turns, |turn| turn.waited),
        took: spread(&view.last_turns, |turn| turn.took),
        restarts: view.restarts,
        budget,
        operations: operations.collect(),
        note: view.note,
        last_failure: view.last_failure,
        open_turn: view.open_turn.map(|turn| show_turn(turn, uptime)),
        last_turns: match with_turns {
            true => view.last_turns.into_iter().map(|turn| show_turn(turn, uptime)).collect(),
            false => Vec::new(),
        },
    }
}

/// All actors: the tree's first level in start order, each before its children, those by name.
pub(in crate::server) fn all(backend: &Backend, with_turns: bool) -> ActorsShown {
    let uptime = backend.trace.clock().uptime();
    let mut views = backend.trace.actors();
    views.sort_by_key(|view| {
        let place = |name: &str| TREE.iter().position(|spec| <&str>::from(spec.child) == name);
        (place(&view.name).or_else(|| place(view.parent)), place(&view.name).is_none(), view.name.clone())
    });
    let actors = views.into_iter().map(|view| show(view, backend, uptime, with_turns)).collect();
    let kinds = backend.trace.kinds().into_iter().map(|(kind, sums)| (kind, sums.into())).collect();
    ActorsShown { uptime_seconds: uptime.as_secs_f64(), actors, kinds }
}

/// The tree as a table.
pub(in crate::server) fn tree(shown: &ActorsShown, colours: bool) -> String {
    let names: BTreeSet<&str> = shown.actors.iter().map(|actor| actor.name.as_str()).collect();
    let mut rows = Vec::new();
    let tops = shown.actors.iter().filter(|actor| !names.contains(actor.parent));
    for top in tops {
        add_rows(shown, top, 0, &mut rows);
    }
    let head = ["ACTOR", "STATE", "MAILBOX", "TURNS", "WAITED", "TOOK", "RESTARTS", "NOW"];
    let mut out = format!("up {}\n", super::table::age(shown.uptime_seconds));
    out.push_str(&table(&head, &rows, colours));
    for actor in shown.actors.iter().filter(|actor| actor.last_failure.is_some()) {
        let why = actor.last_failure.as_deref().unwrap_or_default();
        out.push_str(&format!("\n{} last failed: {}\n", clean(&actor.name), clean(why)));
    }
    out
}

fn add_rows(shown: &ActorsShown, actor: &ActorShown, level: usize, rows: &mut Vec<Vec<Cell>>) {
    let mood = match actor.state {
        "down" | "stuck" | "late" => Mood::Bad,
        "busy" | "working" => Mood::Good,
        _ => Mood::Plain,
    };
    let restarts = match &actor.budget {
        Some(budget) => format!("{} (budget {} in {}s)", actor.restarts, budget.failures_max, budget.window_seconds),
        None => actor.restarts.to_string(),
    };
    let full = actor.mailbox.refused > 0 || actor.mailbox.depth * 2 > actor.mailbox.capacity;
    let mailbox = match actor.mailbox.refused {
        0 => format!("{}/{}", actor.mailbox.depth, actor.mailbox.capacity),
        refused => format!("{}/{} ({refused} refused)", actor.mailbox.depth, actor.mailbox.capacity),
    };
    let spread = |shown: &SpreadShown| format!("{} max {}", span(shown.mean_seconds), span(shown.max_seconds));
    rows.push(vec![
        format!("{}{}", "  ".repeat(level), actor.name).into(),
        Cell::new(actor.state, mood),
        Cell::new(mailbox, if full { Mood::Pending } else { Mood::Plain }),
        actor.turns.to_string().into(),
        spread(&actor.waited).into(),
        spread(&actor.took).into(),
        Cell::new(restarts, if actor.restarts > 0 { Mood::Pending } else { Mood::Plain }),
        now(actor).into(),
    ]);
    let children = shown.actors.iter().filter(|child| child.parent == actor.name && child.name != actor.name);
    for child in children {
        add_rows(shown, child, level + 1, rows);
    }
}

/// The present work of an actor: its turn, its operations, its own sentence.
fn now(actor: &ActorShown) -> String {
    let turn = actor.open_turn.iter().map(|turn| format!("{} for {}", turn.message, span(turn.took_seconds)));
    let operations = actor.operations.iter().map(|one| {
        let late = if one.late { ", late" } else { "" };
        format!("{} ({}) for {}{late}", one.name, one.about, span(one.open_seconds))
    });
    turn.chain(operations).chain(actor.note.clone()).collect::<Vec<_>>().join("; ")
}
