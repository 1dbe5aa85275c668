//! To `Server`.

use super::{Panicked, describe};

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ServerMsg {
    /// From itself: a listener ended, and why.
    ListenerEnded {
        /// Which one.
        listener: usize,
        /// Why.
        why: Result<String, Panicked>,
    },
    /// From itself: open the listener again.
    ListenDue(usize),
}

describe!(ServerMsg);
