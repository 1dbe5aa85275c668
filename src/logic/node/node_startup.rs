//! How long the node took to become ready, part by part (NODE-62).
//!
//! Pure; owned by `NodeStatus`. Keeps when each step happened for the first time. Only a node that this agent created
//! has a startup worth telling: one that was there before was ready before.

use std::time::Duration;

use crate::logic::model::time::Moment;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStartup {
    booted: Option<Moment>,
    started: Moment,
    tried: Option<Moment>,
    registered: Option<Moment>,
    ready: Option<Moment>,
}

/// How long each part took; `None` for what has not happened, or is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StartupDurations {
    /// From the machine's boot to the agent's start.
    pub pre_kubelet: Option<Duration>,
    /// From the agent's start to its first try to register the node.
    pub pre_registration: Option<Duration>,
    /// From there to the new Node object.
    pub registration: Option<Duration>,
    /// From there to a ready node.
    pub post_registration: Option<Duration>,
    /// From the machine's boot to a ready node.
    pub total: Option<Duration>,
}

impl NodeStartup {
    /// An agent that has started on a machine that has booted then, where that is known.
    pub fn new(booted: Option<Moment>, started: Moment) -> Self {
        Self { booted, started, tried: None, registered: None, ready: None }
    }

    /// The agent tries to register the node.
    pub fn trying(&mut self, now: Moment) {
        self.tried.get_or_insert(now);
    }

    /// The agent has created the Node object.
    pub fn created(&mut self, now: Moment) {
        if self.tried.is_some() {
            self.registered.get_or_insert(now);
        }
    }

    /// The API server has the node as ready.
    pub fn ready(&mut self, now: Moment) {
        if self.registered.is_some() {
            self.ready.get_or_insert(now);
        }
    }

    /// The durations so far.
    pub fn durations(&self) -> StartupDurations {
        let Some(registered) = self.registered else { return StartupDurations::default() };
        let since = |later: Option<Moment>, earlier: Option<Moment>| Some(later?.since(earlier?));
        StartupDurations {
            pre_kubelet: since(Some(self.started), self.booted),
            pre_registration: since(self.tried, Some(self.started)),
            registration: since(Some(registered), self.tried),
            post_registration: since(self.ready, Some(registered)),
            total: since(self.ready, self.booted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn seconds(number: u64) -> Option<Duration> {
        Some(Duration::from_secs(number))
    }

    /// NODE-62.
    #[test]
    fn each_part_has_its_time_and_the_first_counts() {
        let mut startup = NodeStartup::new(Some(at(100)), at(110));
        for later in [0, 50] {
            startup.trying(at(111 + later));
            startup.created(at(113 + later));
            startup.ready(at(117 + later));
        }
        let expected = StartupDurations {
            pre_kubelet: seconds(10),
            pre_registration: seconds(1),
            registration: seconds(2),
            post_registration: seconds(4),
            total: seconds(17),
        };
        assert_eq!(startup.durations(), expected);
    }

    #[test]
    fn a_node_that_was_there_before_has_no_startup() {
        let mut startup = NodeStartup::new(Some(at(100)), at(110));
        startup.trying(at(111));
        startup.ready(at(112));
        assert_eq!(startup.durations(), StartupDurations::default());
    }

    #[test]
    fn without_a_boot_time_the_agents_own_part_is_told() {
        let mut startup = NodeStartup::new(None, at(110));
        startup.trying(at(111));
        startup.created(at(112));
        let told = startup.durations();
        assert_eq!((told.pre_kubelet, told.total, told.post_registration), (None, None, None));
        assert_eq!((told.pre_registration, told.registration), (seconds(1), seconds(1)));
    }
}
