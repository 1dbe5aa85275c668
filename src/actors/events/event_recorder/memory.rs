//! The last events of each pod, equal ones counted, for whoever asks the agent itself. Owned by `EventRecorder`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::logic::events::PodEvent;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::messages::event_recorder::CountedEvent;

/// Events kept of a pod.
pub const EVENTS_PER_POD_MAX: usize = 32;
/// Pods whose events are kept; the one that was silent the longest goes first.
pub const PODS_MAX: usize = 2048;

/// See the module.
#[derive(Default)]
pub(super) struct Memory {
    pods: BTreeMap<PodUid, VecDeque<CountedEvent>>,
}

impl Memory {
    pub(super) fn record(&mut self, event: Arc<PodEvent>, now: Moment) {
        if !self.pods.contains_key(&event.uid) && self.pods.len() >= PODS_MAX {
            let silent = self.pods.iter().min_by_key(|(_, events)| events.back().map(|last| last.last_seen));
            if let Some(uid) = silent.map(|(uid, _)| uid.clone()) {
                self.pods.remove(&uid);
            }
        }
        let events = self.pods.entry(event.uid.clone()).or_default();
        if let Some(place) = events.iter().position(|known| known.event == event) {
            let mut known = events.remove(place).expect("found there");
            known.count = known.count.saturating_add(1);
            known.last_seen = now;
            events.push_back(known);
            return;
        }
        if events.len() >= EVENTS_PER_POD_MAX {
            events.pop_front();
        }
        events.push_back(CountedEvent { event, count: 1, first_seen: now, last_seen: now });
    }

    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
    }

    /// The oldest first.
    pub(super) fn of_pod(&self, uid: &PodUid) -> Vec<CountedEvent> {
        self.pods.get(uid).map(|events| events.iter().cloned().collect()).unwrap_or_default()
    }
}
