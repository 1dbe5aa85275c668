//! `/debug/actors/trace`: the node's last turns and what caused them, as JSON, as Chrome trace events, as a story.
//!
//! Query: `pod` (`NAMESPACE/NAME` or UID), `actor` (a kind, or a whole name), `since` (such as `10s`), `format`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::actors_view::show_turn;
use super::table::{clean, span};
use crate::actors::kit::trace::{Ending, Turn};
use crate::logic::model::time::Stamp;
use crate::server::backend::Backend;
use crate::server::reply::{self, Reply};
use crate::server::sources::static_pod_name;

/// The wishes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// UIDs; `None` for all pods and none.
    pods: Option<BTreeSet<String>>,
    actor: Option<String>,
    /// Turns that began at this uptime or later.
    from: Duration,
}

/// Answers a request.
pub(in crate::server) async fn answer(backend: &Backend, query: Option<&str>) -> Reply {
    let uptime = backend.trace.clock().uptime();
    let since = match reply::query_value(query, "since").as_deref().map(parse_since) {
        None => None,
        Some(Some(since)) => Some(since),
        Some(None) => return reply::text(StatusCode::BAD_REQUEST, "since is a span of time such as 10s, 5m or 1h\n"),
    };
    let pods = match reply::query_value(query, "pod") {
        None => None,
        Some(pod) => match uids(backend, &pod) {
            uids if uids.is_empty() => return reply::text(StatusCode::NOT_FOUND, format!("no trace of pod {pod}\n")),
            uids => Some(uids),
        },
    };
    let from = since.map_or(Duration::ZERO, |since| uptime.saturating_sub(since));
    let wanted = Wanted { pods, actor: reply::query_value(query, "actor"), from };
    let turns = select(backend.trace.turns(|_| true), &wanted);
    match reply::query_value(query, "format").as_deref() {
        None | Some("json") => {
            let shown: Vec<_> = turns.into_iter().map(|turn| show_turn(turn, uptime)).collect();
            reply::json(&json!({ "uptime_seconds": uptime.as_secs_f64(), "turns": shown }))
        }
        Some("chrome") => reply::json(&chrome(&turns)),
        Some("text") => reply::text(StatusCode::OK, story(&turns)),
        Some(_) => reply::text(StatusCode::BAD_REQUEST, "format is one of json, chrome, text\n"),
    }
}

/// The UIDs that `NAMESPACE/NAME` has or had, or the UID itself, as far as actors and turns remember; where there are
/// none, those of static pods of that name.
fn uids(backend: &Backend, pod: &str) -> BTreeSet<String> {
    let exact = uids_exactly(backend, pod);
    if !exact.is_empty() || !pod.contains('/') {
        return exact;
    }
    uids_exactly(backend, &static_pod_name(backend, pod))
}

fn uids_exactly(backend: &Backend, pod: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = backend.trace.actors().iter().map(|actor| actor.name.to_string()).collect();
    let turns = backend.trace.turns(|_| true);
    names.extend(turns.iter().map(|turn| turn.actor.to_string()));
    let mut uids = BTreeSet::new();
    for name in &names {
        let parts: Vec<&str> = name.split('/').collect();
        if let [_, namespace, name, uid] = parts[..]
            && (uid == pod || pod.split_once('/') == Some((namespace, name)))
        {
            uids.insert(uid.to_owned());
        }
    }
    uids.extend(
        turns.iter().filter_map(|turn| turn.pod.as_ref()).filter(|uid| uid.as_str() == pod).map(ToString::to_string),
    );
    uids
}

/// A whole number and one of `ms`, `s`, `m`, `h`; without a unit, seconds.
fn parse_since(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// The wanted turns, oldest first. With a pod: its turns, whatever led to them, and what they led to directly.
fn select(turns: Vec<Turn>, wanted: &Wanted) -> Vec<Turn> {
    let is_wanted = |turn: &Turn| {
        let of_actor = wanted
            .actor
            .as_ref()
            .is_none_or(|actor| *turn.actor == **actor || turn.actor.split('/').next() == Some(actor.as_str()));
        let of_pod = wanted.pods.as_ref().is_none_or(|uids| {
            let worker = turn.actor.rsplit('/').next().is_some_and(|uid| uids.contains(uid));
            worker || turn.pod.as_ref().is_some_and(|uid| uids.contains(uid.as_str()))
        });
        of_actor && of_pod && turn.began >= wanted.from
    };
    let by_id: BTreeMap<Stamp, &Turn> = turns.iter().map(|turn| (turn.id, turn)).collect();
    let mut taken: BTreeSet<Stamp> = turns.iter().filter(|turn| is_wanted(turn)).map(|turn| turn.id).collect();
    if wanted.pods.is_some() && wanted.actor.is_none() {
        let direct: Vec<Stamp> = turns
            .iter()
            .filter(|turn| turn.pod.is_none() && turn.cause.turn.is_some_and(|cause| taken.contains(&cause)))
            .map(|turn| turn.id)
            .collect();
        for id in taken.clone() {
            let mut cause = by_id.get(&id).and_then(|turn| turn.cause.turn);
            while let Some(turn) = cause.and_then(|id| by_id.get(&id)) {
                if !taken.insert(turn.id) {
                    break;
                }
                cause = turn.cause.turn;
            }
        }
        taken.extend(direct);
    }
    turns.into_iter().filter(|turn| taken.contains(&turn.id)).collect()
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Trace events as Perfetto and Chrome read them: a thread per actor, a slice per turn, and an arrow from each cause. An
/// asynchronous slice is for the operation or timer between a turn and the one that took its end.
fn chrome(turns: &[Turn]) -> Value {
    let mut threads: BTreeMap<&str, usize> = BTreeMap::new();
    for turn in turns {
        let next = threads.len() + 1;
        threads.entry(&turn.actor).or_insert(next);
    }
    let by_id: BTreeMap<Stamp, &Turn> = turns.iter().map(|turn| (turn.id, turn)).collect();
    let mut events =
        vec![json!({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "podwright"}})];
    for (actor, thread) in &threads {
        events.push(json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": actor}}));
        events.push(json!({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": thread,
                           "args": {"sort_index": thread}}));
    }
    for turn in turns {
        let thread = threads[&*turn.actor];
        // A slice without length cannot hold an arrow's end.
        let length = micros(turn.took).max(0.1);
        events.push(json!({
            "ph": "X", "cat": "turn", "name": turn.message, "pid": 1, "tid": thread,
            "ts": micros(turn.began), "dur": length,
            "args": {"turn": turn.id, "pod": turn.pod, "cause": turn.cause.origin, "cause_turn": turn.cause.turn,
                     "waited_us": micros(turn.waited), "ending": turn.ending},
        }));
        let Some(cause) = turn.cause.turn.and_then(|id| by_id.get(&id)) else { continue };
        let cause_thread = threads[&*cause.actor];
        let flow = |ph: &str, thread: usize, ts: f64| {
            json!({"ph": ph, "cat": "cause", "name": turn.cause.origin, "id": turn.id, "pid": 1, "tid": thread,
                   "ts": ts, "bp": "e"})
        };
        events.push(flow("s", cause_thread, micros(cause.began)));
        events.push(flow("f", thread, micros(turn.began)));
        if turn.cause.origin != "turn" && *cause.actor == *turn.actor {
            let sent = micros(turn.began.saturating_sub(turn.waited));
            for (ph, ts) in [("b", micros(cause.began)), ("e", sent)] {
                events.push(json!({"ph": ph, "cat": "operation", "name": turn.cause.origin, "id": turn.id, "pid": 1,
                                   "tid": thread, "ts": ts}));
            }
        }
    }
    json!({"displayTimeUnit": "ms", "traceEvents": events})
}

/// The turns as a tree of causes, times relative to the first turn.
fn story(turns: &[Turn]) -> String {
    let Some(first) = turns.first() else { return "no turns\n".to_owned() };
    let known: BTreeSet<Stamp> = turns.iter().map(|turn| turn.id).collect();
    let mut children: BTreeMap<Option<Stamp>, Vec<&Turn>> = BTreeMap::new();
    for turn in turns {
        children.entry(turn.cause.turn.filter(|cause| known.contains(cause))).or_default().push(turn);
    }
    let start = first.began_at.to_timestamp();
    let mut out = format!("{} turns, times after {start}\n", turns.len());
    // A stack instead of recursion: a chain of timers may be as long as the node's memory of turns.
    let mut open: Vec<(usize, &Turn)> =
        children.get(&None).into_iter().flatten().rev().map(|turn| (0, *turn)).collect();
    while let Some((level, turn)) = open.pop() {
        out.push_str(&line(turn, level, first.began));
        let next = children.get(&Some(turn.id)).into_iter().flatten().rev();
        open.extend(next.map(|child| (level + 1, *child)));
    }
    out
}

/// Deeper causes are not indented further, so that long chains stay readable.
const INDENT_MAX: usize = 12;

fn line(turn: &Turn, level: usize, start: Duration) -> String {
    let offset = turn.began.saturating_sub(start).as_secs_f64();
    let indent = "  ".repeat(level.min(INDENT_MAX));
    let cause = match (turn.cause.origin, turn.cause.turn) {
        ("turn", Some(_)) => String::new(),
        (origin, _) => format!("  <- {origin}"),
    };
    let waited = if turn.waited > Duration::from_millis(1) {
        format!(", waited {}", span(turn.waited.as_secs_f64()))
    } else {
        String::new()
    };
    let ending = if turn.ending == Ending::Panicked { "  PANICKED" } else { "" };
    let (actor, took) = (clean(&turn.actor), span(turn.took.as_secs_f64()));
    format!("{offset:>+10.3}s  {indent}{actor} {}{cause}  ({took}{waited}){ending}\n", turn.message)
}

#[cfg(test)]
mod tests;
