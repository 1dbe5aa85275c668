//! The longest chain of causes: from the appearance of a pod to Ready, or the longest one of all turns. Pure.

use std::collections::BTreeMap;

use super::data::{Pod, Turn, unix_seconds};

/// The turns of a page and the chain among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Story {
    /// In the order of their beginnings.
    pub(super) turns: Vec<Turn>,
    /// Places in `turns`, from the first cause to the last effect.
    pub(super) chain: Vec<usize>,
    /// Whether the chain ends where the pod became Ready.
    pub(super) is_ready: bool,
    /// Turns before and after, which the page leaves out.
    pub(super) left_out: usize,
}

/// Time after Ready that a page still has, as a part of the time to it.
const TAIL: f64 = 0.25;
/// And at least so many seconds of it.
const TAIL_SECONDS: f64 = 0.05;

/// Finds the chain; of a pod that is Ready, keeps the turns of its start alone.
pub(super) fn story(mut turns: Vec<Turn>, pod: Option<&Pod>) -> Story {
    turns.sort_by(|one, other| one.at().total_cmp(&other.at()).then(one.id.cmp(&other.id)));
    let goal = pod.and_then(|pod| ready_turn(&turns, pod));
    let Some(goal) = goal else {
        let chain = longest(&turns);
        return Story { turns, chain, is_ready: false, left_out: 0 };
    };
    let first_own = pod.and_then(|pod| turns.iter().position(|turn| is_about(turn, pod))).unwrap_or(goal);
    let chain = causes(&turns, &places(&turns), goal, first_own);
    let (from, ready) = (turns[chain[0]].sent(), turns[goal].end());
    let until = ready + ((ready - from) * TAIL).max(TAIL_SECONDS);
    let all = turns.len();
    let kept: Vec<bool> = turns.iter().map(|turn| turn.at() >= from && turn.at() <= until).collect();
    let before = kept.iter().take_while(|kept| !**kept).count();
    let chain = chain.into_iter().map(|place| place - before).collect();
    let mut keeps = kept.into_iter();
    turns.retain(|_| keeps.next().unwrap_or_default());
    Story { left_out: all - turns.len(), turns, chain, is_ready: true }
}

/// Whether a turn is the pod's own.
fn is_about(turn: &Turn, pod: &Pod) -> bool {
    !pod.uid.is_empty() && (turn.pod == pod.uid || turn.actor.rsplit('/').next() == Some(&pod.uid))
}

/// The turn that took the status in which the pod became Ready. The condition's time has whole seconds, so the turn is the
/// last one up to the end of that second.
fn ready_turn(turns: &[Turn], pod: &Pod) -> Option<usize> {
    let second = pod.ready_at?;
    let is_status = |turn: &Turn| turn.kind() == "StatusManager" && turn.message == "StatusChanged";
    turns.iter().rposition(|turn| {
        is_status(turn) && is_about(turn, pod) && unix_seconds(&turn.began).is_some_and(|began| began == second)
    })
}

fn places(turns: &[Turn]) -> BTreeMap<u64, usize> {
    turns.iter().enumerate().map(|(place, turn)| (turn.id, place)).collect()
}

/// The causes of a turn up to the turn itself, oldest first. Turns before `first_own` are not yet the pod's: there a wait
/// ends the chain.
fn causes(turns: &[Turn], places: &BTreeMap<u64, usize>, goal: usize, first_own: usize) -> Vec<usize> {
    let mut chain = vec![goal];
    let mut at = goal;
    while let Some(cause) = turns[at].cause.turn.and_then(|id| places.get(&id)).copied() {
        // An order of numbers that no agent gives must not lead in circles.
        let is_earlier = turns[cause].id < turns[at].id;
        if !is_earlier || (at <= first_own && turns[at].cause.is_wait()) {
            break;
        }
        chain.push(cause);
        at = cause;
    }
    chain.reverse();
    chain
}

/// The chain with the most turns that crosses no wait; of several, the one that took longest.
fn longest(turns: &[Turn]) -> Vec<usize> {
    let places = places(turns);
    let mut lengths: Vec<(usize, f64)> = vec![];
    for turn in turns {
        let cause = turn.cause.turn.filter(|id| !turn.cause.is_wait() && *id < turn.id);
        // A cause is handled before its effect, so its length is known.
        let before = cause.and_then(|id| lengths.get(*places.get(&id)?)).copied();
        lengths.push(before.map_or((1, turn.at()), |(length, from)| (length + 1, from)));
    }
    let took = |place: usize| turns[place].end() - lengths[place].1;
    let longest = (0..turns.len())
        .max_by(|one, other| lengths[*one].0.cmp(&lengths[*other].0).then(took(*one).total_cmp(&took(*other))));
    longest.map_or_else(Vec::new, |goal| causes(turns, &places, goal, turns.len()))
}

/// On what a part of the chain's time was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spent {
    /// In a handler.
    Turn,
    /// On an operation or a timer.
    Operation,
    /// In a mailbox.
    Mailbox,
}

/// A part of the chain's time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) on: Spent,
    /// The message, or the operation.
    pub(super) name: String,
    pub(super) seconds: f64,
    /// The turn that is handled then, or that ends the wait.
    pub(super) turn: u64,
}

/// The chain's time in parts that follow each other without a gap; parts without time are left out.
pub(super) fn parts(story: &Story) -> Vec<Part> {
    let links: Vec<&Turn> = story.chain.iter().map(|place| &story.turns[*place]).collect();
    let mut parts = vec![];
    let mut add = |on, turn: &Turn, name: &str, seconds: f64| {
        if seconds > 0.0 {
            parts.push(Part { on, name: name.to_owned(), seconds, turn: turn.id });
        }
    };
    for pair in links.windows(2) {
        let (cause, effect) = (pair[0], pair[1]);
        let handled = cause.end().clamp(cause.at(), effect.sent().max(cause.at()));
        let sent = effect.sent().clamp(handled, effect.at().max(handled));
        add(Spent::Turn, cause, &cause.message, handled - cause.at());
        add(Spent::Operation, effect, &effect.cause.origin, sent - handled);
        add(Spent::Mailbox, effect, &effect.message, effect.at() - sent);
    }
    if let Some(last) = links.last() {
        add(Spent::Turn, last, &last.message, last.took_seconds);
    }
    parts
}
