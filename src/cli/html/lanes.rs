//! A lane for each actor: its turns, and the operations between them in rows that do not overlap. Pure.

use std::collections::BTreeMap;

use super::chain::Story;
use super::data::{Actors, Pod, Turn};

/// The most rows of operations in a lane; more share the last one.
const ROWS_MAX: usize = 4;

/// An operation on a lane.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    pub(super) name: String,
    /// Its subject, where it is known: that of open work.
    pub(super) about: String,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) row: usize,
    /// Nothing is under way: a timer, or a wait for something outside.
    pub(super) is_wait: bool,
    /// It has not ended.
    pub(super) is_open: bool,
    /// It is a part of the longest chain.
    pub(super) on_chain: bool,
}

/// The lane of one actor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lane {
    pub(super) actor: String,
    /// Places in the story's turns.
    pub(super) turns: Vec<usize>,
    pub(super) bars: Vec<Bar>,
    /// How many rows its bars have.
    pub(super) rows: usize,
}

/// The lanes in the order in which their actors first took part.
pub(super) fn lanes(story: &Story, actors: &Actors, pod: Option<&Pod>) -> Vec<Lane> {
    let by_id: BTreeMap<u64, &Turn> = story.turns.iter().map(|turn| (turn.id, turn)).collect();
    let mut lanes: Vec<Lane> = vec![];
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, turn) in story.turns.iter().enumerate() {
        let place = *places.entry(&turn.actor).or_insert(lanes.len());
        if place == lanes.len() {
            lanes.push(Lane { actor: turn.actor.clone(), ..Lane::default() });
        }
        lanes[place].turns.push(at);
        let cause = turn.cause.turn.and_then(|id| by_id.get(&id)).filter(|_| turn.ends_operation());
        let Some(cause) = cause.filter(|cause| cause.actor == turn.actor) else { continue };
        let is_link = |pair: &[usize]| story.turns[pair[0]].id == cause.id && pair[1] == at;
        lanes[place].bars.push(Bar {
            name: turn.cause.origin.clone(),
            about: String::new(),
            from: cause.at(),
            to: turn.sent().max(cause.at()),
            row: 0,
            is_wait: turn.cause.is_wait(),
            is_open: false,
            on_chain: story.chain.windows(2).any(is_link),
        });
    }
    let is_shown = |name: &str| !story.is_ready && pod.is_none_or(|pod| name.rsplit('/').next() == Some(&pod.uid));
    for actor in actors.actors.iter().filter(|actor| is_shown(&actor.name)) {
        let Some(lane) = places.get(actor.name.as_str()).and_then(|place| lanes.get_mut(*place)) else { continue };
        lane.bars.extend(actor.operations.iter().map(|open| Bar {
            name: open.name.clone(),
            about: open.about.clone(),
            from: actors.uptime_seconds - open.open_seconds,
            to: actors.uptime_seconds,
            row: 0,
            is_wait: false,
            is_open: true,
            on_chain: false,
        }));
    }
    lanes.iter_mut().for_each(arrange);
    lanes
}

/// Gives each bar the first row that is free; those of the chain first, so that they lie together.
fn arrange(lane: &mut Lane) {
    lane.bars.sort_by(|one, other| other.on_chain.cmp(&one.on_chain).then(one.from.total_cmp(&other.from)));
    let mut rows: Vec<Vec<(f64, f64)>> = vec![];
    for bar in &mut lane.bars {
        let is_free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| bar.to <= *from || bar.from >= *to);
        bar.row = match rows.iter().position(is_free) {
            Some(row) => row,
            None if rows.len() < ROWS_MAX => {
                rows.push(vec![]);
                rows.len() - 1
            }
            None => ROWS_MAX - 1,
        };
        rows[bar.row].push((bar.from, bar.to));
    }
    lane.rows = rows.len();
}
