//! To `Root`.

use ractor::RpcReplyPort;

use super::describe;
use crate::actors::Child;
use crate::actors::kit::context::Panicked;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum RootMsg {
    /// From itself: a child's delay is over.
    Restart(Child),
    /// From `main`: stop all children in order, then answer. Pods go on.
    Shutdown(RpcReplyPort<()>),
    /// From itself: all children have stopped.
    AllStopped(Result<(), Panicked>),
    /// From itself: look for stuck turns, and feed the watchdog if there are none.
    WatchDue,
}

describe!(RootMsg);
