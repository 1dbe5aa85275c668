//! The settings that a run of the simulator begins with.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::actors::settings::Settings;
use crate::sim::faults::Fault;
use crate::sim::faults::crashes::Crash;
use crate::sim::node::machines::Machine;

/// The settings of a run.
#[derive(Clone)]
pub struct Options {
    /// The faults, from the beginning.
    pub faults: BTreeSet<Fault>,
    /// One exact crash.
    pub crash: Option<Crash>,
    /// The agent is killed at this call to the outside: its number, and whether after its effect.
    pub kill_at: Option<(u64, bool)>,
    /// Mailboxes of this kind of actor hold so many messages only.
    pub mailbox: Option<(String, usize)>,
    /// Changes the agent's settings.
    pub settings: fn(&mut Settings),
    /// The machine; its managers give Guaranteed pods CPUs and memory of their own. `None`: a small one without such.
    pub machine: Option<Machine>,
    /// The node is part of a cluster: there is an API server.
    pub cluster: bool,
    /// The node may have drivers beside the agent.
    pub plugins: bool,
    /// The agent keeps what pods need of the API server (`--offline-store`).
    pub offline: bool,
    /// Turns are measured by this clock of the run's thread.
    pub turn_clock: Option<fn() -> Duration>,
    /// Looks that mend what news have missed are put off, and the node has little time.
    pub strict: bool,
    /// The command that shows the run again, for violations.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            faults: BTreeSet::new(),
            crash: None,
            kill_at: None,
            mailbox: None,
            settings: |_| {},
            machine: None,
            cluster: false,
            plugins: false,
            offline: false,
            turn_clock: None,
            strict: false,
            command: String::new(),
        }
    }
}
