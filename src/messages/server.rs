//! To `Server`.

use super::{Lost, describe};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ServerMsg {
    /// From itself: a listener ended, and why.
    ListenerEnded {
        /// Which one.
        listener: usize,
        /// Why.
        why: Result<String, Lost>,
    },
    /// From itself: open the listener again.
    ListenDue(usize),
}

describe!(ServerMsg);
