//! Stops of the whole pod: the one under way, the sandboxes that the last successful one was for, and whether a new sandbox
//! follows.

use std::time::Duration;

use crate::logic::model::ids::SandboxId;
use crate::logic::model::runtime_pod::RuntimePod;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    /// When the one under way is to be over, in uptime.
    until: Option<Duration>,
    /// The sandboxes that it is for.
    begun: Vec<SandboxId>,
    /// The sandboxes that the runtime said it has stopped.
    done: Vec<SandboxId>,
}

impl Stops {
    /// A stop begins that is to be over by then.
    pub fn begin(&mut self, until: Duration, sandboxes: impl Iterator<Item = SandboxId>) {
        (self.until, self.begun) = (Some(until), sandboxes.collect());
    }

    /// The stop has ended.
    pub fn end(&mut self, well: bool) {
        self.until = None;
        let sandboxes = std::mem::take(&mut self.begun);
        if well {
            self.done = sandboxes;
        }
    }

    /// Whether a stop that is to be over by `until` would be over before the one under way.
    pub fn would_be_sooner(&self, until: Duration) -> bool {
        self.until.is_some_and(|under_way| until < under_way)
    }

    /// Whether there is something to stop: what runs, and each sandbox until the runtime says that it has stopped it. One
    /// whose processes are gone may still have its network, which is given back by nothing else (CRI-19).
    pub fn are_due(&self, seen: &RuntimePod) -> bool {
        seen.is_alive() || seen.sandboxes.iter().any(|sandbox| !self.done.contains(&sandbox.id))
    }
}

/// Whether the pod's sandbox is to be replaced, and how far that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// Nothing of the pod was stopped for a new sandbox.
    #[default]
    None,
    /// Everything of the pod is to be stopped first.
    Due,
    /// Everything was stopped, and the sandbox of this attempt may follow.
    ClearedFor(u32),
}

impl Replacement {
    /// Whether everything is to be stopped first.
    pub fn is_due(self) -> bool {
        self == Self::Due
    }

    /// The attempt for which everything was stopped.
    pub fn cleared_for(self) -> Option<u32> {
        match self {
            Self::ClearedFor(attempt) => Some(attempt),
            Self::None | Self::Due => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::FullName;
    use crate::logic::model::runtime_pod::SandboxState;
    use crate::logic::model::runtime_pod::testing::sandbox;
    use crate::logic::model::time::Stamp;

    #[test]
    fn a_sandbox_is_stopped_until_the_runtime_says_so() {
        let mut seen = RuntimePod::empty("u".into(), FullName::new("web", "default"), Stamp(1));
        let mut stops = Stops::default();
        assert!(!stops.are_due(&seen), "there is nothing");
        seen.sandboxes = vec![sandbox("s0", SandboxState::NotReady)];
        assert!(stops.are_due(&seen), "its network may be left");
        stops.begin(Duration::from_secs(30), ["s0".into()].into_iter());
        stops.end(false);
        assert!(stops.are_due(&seen), "the stop failed");
        stops.begin(Duration::from_secs(30), ["s0".into()].into_iter());
        stops.end(true);
        assert!(!stops.are_due(&seen));
        seen.sandboxes.push(sandbox("s1", SandboxState::NotReady));
        assert!(stops.are_due(&seen), "another one was made late");
    }

    #[test]
    fn only_a_stop_that_ends_sooner_takes_the_place_of_one() {
        let mut stops = Stops::default();
        assert!(!stops.would_be_sooner(Duration::ZERO), "none is under way");
        stops.begin(Duration::from_secs(30), [].into_iter());
        assert!(stops.would_be_sooner(Duration::from_secs(29)) && !stops.would_be_sooner(Duration::from_secs(30)));
    }
}
