//! `EventRecorder`: what was said about each pod, the last of it, with equal ones counted.
//!
//! Parent: Root. Restarted: after a failure. Keeps nothing that must survive: events are told once, and logged then.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::desk::Desk;
use super::role::Role;
use super::settings::Agent;
use crate::logic::ids::PodUid;
use crate::messages::event_recorder::{CountedEvent, EventRecorderMsg, PodEvent};

/// Events kept of a pod.
pub const EVENTS_PER_POD_MAX: usize = 32;
/// Pods whose events are kept; the one that was silent the longest goes first.
pub const PODS_MAX: usize = 2048;

/// See the module.
pub struct EventRecorder {
    pods: BTreeMap<PodUid, VecDeque<CountedEvent>>,
}

impl Role for EventRecorder {
    const KIND: &'static str = "EventRecorder";
    type Msg = EventRecorderMsg;
    type Args = Arc<Agent>;

    fn begin(_: Arc<Agent>, _: &mut Desk<EventRecorderMsg>) -> Self {
        Self { pods: BTreeMap::new() }
    }

    fn receive(&mut self, message: EventRecorderMsg, desk: &mut Desk<EventRecorderMsg>) {
        match message {
            EventRecorderMsg::Recorded(event) => self.record(event, desk),
            EventRecorderMsg::PodForgotten(uid) => {
                self.pods.remove(&uid);
            }
            EventRecorderMsg::OfPod(uid, reply) => {
                let events = self.pods.get(&uid).map(|events| events.iter().cloned().collect()).unwrap_or_default();
                let _ = reply.send(Arc::new(events)); // The asker may have left.
            }
        }
    }
}

impl EventRecorder {
    fn record(&mut self, event: PodEvent, desk: &Desk<EventRecorderMsg>) {
        let now = desk.now();
        tracing::info!(
            target: "podwright::event",
            pod = %event.full_name, uid = %event.uid, object = event.field_path,
            kind = if event.warning { "Warning" } else { "Normal" }, reason = event.reason, "{}", event.message
        );
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
}
