//! To `RuntimeMonitor`.

use ractor::RpcReplyPort;

use crate::cri::{CriError, RuntimeStatus};
use crate::messages::{Ended, describe};

pub use crate::logic::model::runtime_health::RuntimeHealth;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum RuntimeMonitorMsg {
    /// From itself: time to look.
    PollDue,
    /// From itself: what the runtime said.
    Polled(Ended<RuntimeStatus, CriError>),
    /// From itself: nothing was heard of the runtime for as long as that is borne.
    SilenceDue,
    /// From `NodeStatus`: look now, the node is waited for.
    LookNow,
    /// From `Pleg`: how it sees the runtime; `None` when well.
    PlegProblem(Option<String>),
    /// From Root: someone who learns from here was started again.
    Repeat,
    /// From the server: the newest finding.
    Current(RpcReplyPort<RuntimeHealth>),
}

describe!(RuntimeMonitorMsg);
