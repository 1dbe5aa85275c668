//! The last events of the whole node, equal ones counted, for `podwright events`; and those who watch them. Owned by
//! `EventRecorder`.
//!
//! It has what the API server would have: events of pods, of the node and of claims, for an hour. A pod's events stay when
//! the pod goes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use crate::logic::events::PodEvent;
use crate::logic::model::time::Moment;
use crate::messages::event_recorder::{CountedEvent, EventWatcher};
use crate::messages::status::pod_watch::Told;

/// Events kept.
pub const EVENTS_MAX: usize = 1000;
/// So long after it was seen last, an event goes: the API server's default.
pub const AGE_MAX: Duration = Duration::from_secs(3600);
/// The longest message kept, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// Watchers at once.
const WATCHERS_MAX: usize = 32;

/// See the module.
#[derive(Default)]
pub(super) struct History {
    /// The one seen last at the end.
    events: VecDeque<CountedEvent>,
    watchers: Vec<EventWatcher>,
}

impl History {
    pub(super) fn record(&mut self, event: &Arc<PodEvent>, now: Moment) {
        // Most are kept beside a pod already; only a long one is kept twice.
        let event = match event.message.len() > MESSAGE_BYTES_MAX {
            true => Arc::new(PodEvent::clone(event).shortened(MESSAGE_BYTES_MAX)),
            false => Arc::clone(event),
        };
        self.events.retain(|known| now.since(known.last_seen) < AGE_MAX);
        let place = self.events.iter().position(|known| known.event == event);
        let counted = match place.and_then(|place| self.events.remove(place)) {
            Some(known) => CountedEvent { count: known.count.saturating_add(1), last_seen: now, ..known },
            None => CountedEvent { event, count: 1, first_seen: now, last_seen: now },
        };
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.watchers.retain(|watcher| {
            let told = watcher.tell(counted.clone());
            if told == Told::TooSlow {
                tracing::info!("a watcher of events is too slow, its watch ends");
            }
            told == Told::Waits
        });
        self.events.push_back(counted);
    }

    /// Answers with the events there are; later ones reach the watcher, where there is one.
    pub(super) fn answer(
        &mut self,
        watcher: Option<EventWatcher>,
        now: Moment,
        reply: RpcReplyPort<Option<Vec<CountedEvent>>>,
    ) {
        self.watchers.retain(|watcher| !watcher.is_left());
        let has_room = watcher.is_none() || self.watchers.len() < WATCHERS_MAX;
        let events = || self.events.iter().filter(|known| now.since(known.last_seen) < AGE_MAX).cloned().collect();
        let _ = reply.send(has_room.then(events)); // The asker may have left.
        self.watchers.extend(watcher.filter(|_| has_room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::events::reasons::EventReason;
    use crate::logic::model::ids::FullName;
    use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
    use crate::messages::status::pod_watch::{CHANGES_MAX, WatchEnded, Watcher};

    fn event(pod: &str, message: &str) -> Arc<PodEvent> {
        let subject = EventSubject::pod(&format!("uid-{pod}").into(), &FullName::new(pod, "shop"));
        match subject.warning(EventReason::BackOff, message) {
            EventRecorderMsg::Recorded(event) => Arc::new(event),
            other => panic!("{other:?}"),
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::EPOCH.plus(Duration::from_secs(seconds))
    }

    fn last(history: &History) -> Vec<(String, u32)> {
        let told = |known: &CountedEvent| (known.event.message.clone(), known.count);
        history.events.iter().map(told).collect()
    }

    /// PAIN-37.
    #[test]
    fn equal_events_are_counted_and_come_last() {
        let mut history = History::default();
        for (second, message) in [(1, "a"), (2, "b"), (3, "a"), (4, "c")] {
            history.record(&event("web", message), at(second));
        }
        assert_eq!(last(&history), [("b".into(), 1), ("a".into(), 2), ("c".into(), 1)]);
        assert_eq!((history.events[1].first_seen, history.events[1].last_seen), (at(1), at(3)));
    }

    /// PAIN-37.
    #[test]
    fn events_go_by_number_by_age_and_are_short() {
        let mut history = History::default();
        for number in 0..EVENTS_MAX + 5 {
            history.record(&event("web", &number.to_string()), at(1));
        }
        assert_eq!((history.events.len(), last(&history)[0].0.as_str()), (EVENTS_MAX, "5"));
        history.record(&event("web", &"ü".repeat(MESSAGE_BYTES_MAX)), at(3601));
        let kept = last(&history);
        assert_eq!(kept.len(), 1, "the others are an hour old");
        assert!(kept[0].0.len() <= MESSAGE_BYTES_MAX && kept[0].0.ends_with("..."));
        history.record(&event("web", &"ü".repeat(MESSAGE_BYTES_MAX)), at(3602));
        assert_eq!(last(&history)[0].1, 2, "one that was cut is the same again");
    }

    /// PAIN-37.
    #[tokio::test]
    async fn a_watcher_hears_of_each_event_until_it_is_too_slow() {
        let mut history = History::default();
        history.record(&event("web", "before"), at(1));
        let (watcher, mut changes) = Watcher::new();
        let (send, receive) = tokio::sync::oneshot::channel();
        history.answer(Some(watcher), at(2), send.into());
        let before = receive.await.expect("answered").expect("there is room");
        assert_eq!(before.len(), 1);
        history.record(&event("web", "before"), at(3));
        assert_eq!(changes.next().await.map(|known| known.count), Ok(2));
        for number in 0..=CHANGES_MAX {
            history.record(&event("web", &number.to_string()), at(4));
        }
        assert!(history.watchers.is_empty());
        for _ in 0..CHANGES_MAX {
            changes.next().await.expect("it was sent before");
        }
        assert_eq!(changes.next().await.map(|known| known.count), Err(WatchEnded::TooSlow));
    }

    /// PAIN-37.
    #[tokio::test]
    async fn there_is_a_bound_to_watchers_and_one_that_leaves_makes_room() {
        let mut history = History::default();
        let mut ask = |watcher| {
            let (send, receive) = tokio::sync::oneshot::channel();
            history.answer(watcher, at(1), send.into());
            async move { receive.await.expect("answered").is_some() }
        };
        let mut held = vec![];
        for _ in 0..WATCHERS_MAX {
            let (watcher, changes) = Watcher::new();
            assert!(ask(Some(watcher)).await);
            held.push(changes);
        }
        assert!(!ask(Some(Watcher::new().0)).await);
        assert!(ask(None).await, "one who does not watch is answered all the same");
        held.pop();
        assert!(ask(Some(Watcher::new().0)).await);
    }
}
