//! Looks at the runtime: when one is needed, and which of them is new enough to decide by.

use super::{Action, Now, PodLifecycle};

impl PodLifecycle {
    /// A job did something that only an observation from now on shows.
    pub(super) fn outdate(&mut self, now: Now) {
        self.fresh_after = now.stamp;
        self.asked = false; // An answer on its way may be from before.
    }

    /// Whether the observation has all that this pod's own jobs did.
    pub(super) fn is_fresh(&self) -> bool {
        self.observed.as_ref().is_some_and(|seen| seen.taken >= self.fresh_after)
    }

    /// Asks for an observation, unless one is on its way.
    pub(super) fn ask(&mut self) -> Vec<Action> {
        self.waits.push(("the runtime's account of the pod".to_owned(), None));
        self.ask_for(Action::Inspect)
    }

    /// The same, for what waits for nothing.
    pub(super) fn ask_for(&mut self, look: Action) -> Vec<Action> {
        if std::mem::replace(&mut self.asked, true) { vec![] } else { vec![look] }
    }
}
