//! Pods whose news may be sent and wait for room: only so many calls are under way at once.

use std::collections::BTreeMap;

use crate::logic::model::ids::PodUid;

/// News that others wait for goes first (PAIN-32): where traffic goes, then which pod may take the place of an ended one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// The pod became ready or unready, or is in another phase.
    Turn,
    /// It may go.
    End,
    /// Anything else that is new here. Of a pod that is being deleted it waits a moment for what comes next.
    Detail,
    /// Of a pod that is being deleted, only that the agent has seen it. It waits for what comes next.
    Generation,
    /// Of a pod that starts, only that its sandbox is there. It waits a moment: most containers start at once.
    Sandbox,
    /// A change by somebody else is put right.
    Repair,
}

/// See the module. The most urgent go first, and of those who has waited longest. The news themselves are not kept: they are
/// made once more when it is their turn, and else each place that becomes free would cost the news of all who wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By urgency and number.
    waiting: BTreeMap<(Urgency, u64), PodUid>,
    places: BTreeMap<PodUid, (Urgency, u64)>,
    /// The number of whoever comes next.
    next: u64,
}

impl Queue {
    /// The pod's news wait. They keep their place as long as they are as urgent as before.
    pub(super) fn join(&mut self, uid: &PodUid, urgency: Urgency) {
        if self.places.get(uid).is_some_and(|(known, _)| *known == urgency) {
            return;
        }
        self.leave(uid);
        self.places.insert(uid.clone(), (urgency, self.next));
        self.waiting.insert((urgency, self.next), uid.clone());
        self.next += 1;
    }

    /// The pod has no news to send now.
    pub(super) fn leave(&mut self, uid: &PodUid) {
        if let Some(place) = self.places.remove(uid) {
            self.waiting.remove(&place);
        }
    }

    /// Takes the pod whose turn it is out.
    pub(super) fn pop(&mut self) -> Option<PodUid> {
        let (_, uid) = self.waiting.pop_first()?;
        self.places.remove(&uid);
        Some(uid)
    }

    /// Whether the pod's news wait.
    pub(super) fn has(&self, uid: &PodUid) -> bool {
        self.places.contains_key(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_go_first_and_then_who_has_waited_longest() {
        let mut queue = Queue::default();
        let uid = |name: &str| PodUid::from(name);
        for (name, urgency) in [
            ("a", Urgency::Detail),
            ("b", Urgency::Repair),
            ("c", Urgency::Detail),
            ("b", Urgency::Turn),
            ("a", Urgency::Detail),
            ("d", Urgency::End),
        ] {
            queue.join(&uid(name), urgency);
        }
        queue.leave(&uid("d"));
        queue.leave(&uid("e"));
        assert!(queue.has(&uid("c")) && !queue.has(&uid("d")));
        let order: Vec<PodUid> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["b", "a", "c"].map(uid));
        assert!(!queue.has(&uid("c")));
    }
}
