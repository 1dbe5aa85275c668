//! The last turns of an actor or of the node, in as little room as they need: most of what the agent remembers is turns.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::{Cause, Ending, Turn};
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::{Moment, Stamp};

/// Room is made for so many turns at a time, or for a quarter more: most rings are never full.
const GROWTH: usize = 8;

/// A [`Turn`], with times in nanoseconds: 584 years of them.
#[derive(Clone)]
struct Kept {
    id: Stamp,
    actor: Arc<str>,
    message: &'static str,
    pod: Option<PodUid>,
    cause: Option<NonZeroU64>,
    origin: &'static str,
    began_at: Moment,
    began: u64,
    waited: u64,
    took: u64,
    ending: Ending,
}

impl From<Turn> for Kept {
    fn from(turn: Turn) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            id: turn.id,
            actor: turn.actor,
            message: turn.message,
            pod: turn.pod,
            cause: turn.cause.turn.and_then(|cause| NonZeroU64::new(cause.0)),
            origin: turn.cause.origin,
            began_at: turn.began_at,
            began: nanos(turn.began),
            waited: nanos(turn.waited),
            took: nanos(turn.took),
            ending: turn.ending,
        }
    }
}

impl From<&Kept> for Turn {
    fn from(kept: &Kept) -> Self {
        Self {
            id: kept.id,
            actor: Arc::clone(&kept.actor),
            message: kept.message,
            pod: kept.pod.clone(),
            cause: Cause { turn: kept.cause.map(|cause| Stamp(cause.get())), origin: kept.origin },
            began_at: kept.began_at,
            began: Duration::from_nanos(kept.began),
            waited: Duration::from_nanos(kept.waited),
            took: Duration::from_nanos(kept.took),
            ending: kept.ending,
        }
    }
}

/// At most `MAX` turns; the oldest gives way.
#[derive(Default)]
pub(super) struct TurnRing<const MAX: usize>(VecDeque<Kept>);

impl<const MAX: usize> TurnRing<MAX> {
    pub(super) fn push(&mut self, turn: Turn) {
        let length = self.0.len();
        if length >= MAX {
            self.0.pop_front();
        } else if length == self.0.capacity() {
            self.0.reserve_exact(GROWTH.max(length / 4).min(MAX - length));
        }
        self.0.push_back(turn.into());
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Turn> {
        self.0.iter().map(Turn::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(id: u64, cause: Option<u64>) -> Turn {
        Turn {
            id: Stamp(id),
            actor: "Pleg".into(),
            message: "RelistDue",
            pod: Some(PodUid::from("u")),
            cause: Cause { turn: cause.map(Stamp), origin: "timer" },
            began_at: Moment(i64::MAX - 1),
            began: Duration::new(1_000_000_000, 999_999_999),
            waited: Duration::from_nanos(1),
            took: Duration::from_micros(3),
            ending: Ending::Panicked,
        }
    }

    #[test]
    fn turns_come_back_as_they_were() {
        let mut ring = TurnRing::<4>::default();
        let turns = [turn(1, None), turn(2, Some(1))];
        turns.iter().cloned().for_each(|turn| ring.push(turn));
        let text = |turn: &Turn| serde_json::to_string(turn).expect("plain data");
        assert_eq!(ring.iter().map(|turn| text(&turn)).collect::<Vec<_>>(), turns.each_ref().map(text));
    }

    #[test]
    fn the_oldest_gives_way_and_there_is_little_room_that_is_not_used() {
        let mut ring = TurnRing::<24>::default();
        for id in 1..=100 {
            ring.push(turn(id, None));
            assert!(ring.0.capacity() < ring.0.len() + GROWTH && ring.0.capacity() <= 24, "{}", ring.0.capacity());
        }
        assert_eq!(ring.iter().map(|turn| turn.id.0).collect::<Vec<_>>(), (77..=100).collect::<Vec<_>>());
        assert!(size_of::<Kept>() <= 120, "{}", size_of::<Kept>());
    }
}
