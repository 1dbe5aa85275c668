//! Whether the pod's sandbox is to be replaced, and how far that is.

/// See the module.
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
