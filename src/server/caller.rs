//! The caller of a request. Each listener with rights puts it into the request, for the records of what was done by whom.

use std::sync::Arc;

/// An authenticated user, or whoever may use the local socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// The user's name, as the cluster knows it.
    pub(super) name: Arc<str>,
}

impl Caller {
    /// Root, or the agent's own user, on the node itself.
    pub(super) fn local() -> Self {
        Self { name: Arc::from("local socket") }
    }
}
