//! To `RuntimeMonitor`.

use ractor::RpcReplyPort;

use super::describe;
use crate::actors::desk::Panicked;
use crate::cri::{CriResult, RuntimeStatus};

/// Whether the runtime can be worked with, and why not.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize)]
pub struct RuntimeHealth {
    /// Why the runtime cannot be used; `None` when it can.
    pub runtime_problem: Option<String>,
    /// Why pods have no network; `None` when they have. As upstream words it after `network is not ready: `.
    pub network_problem: Option<String>,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum RuntimeMonitorMsg {
    /// From itself: time to look.
    PollDue,
    /// From itself: what the runtime said.
    Polled(Result<CriResult<RuntimeStatus>, Panicked>),
    /// From `Pleg`: how it sees the runtime; `None` when well.
    PlegProblem(Option<String>),
    /// From Root: someone who learns from here was started again.
    Repeat,
    /// From the server: the newest finding.
    Current(RpcReplyPort<RuntimeHealth>),
}

describe!(RuntimeMonitorMsg);
