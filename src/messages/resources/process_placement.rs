//! To `ProcessPlacement`.

use crate::messages::{Lost, describe};

/// The faults in the places of processes; none where all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misplaced {
    /// Of the agent itself.
    pub agent: Option<String>,
    /// Of the system's processes.
    pub system: Option<String>,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ProcessPlacementMsg {
    /// From itself: processes were put where they belong, but for these.
    Placed(Result<Misplaced, Lost>),
    /// From itself: time to look again.
    LookDue,
}

describe!(ProcessPlacementMsg);
