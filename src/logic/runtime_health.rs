//! Whether the runtime can be worked with, as the agent last saw it.

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize)]
pub struct RuntimeHealth {
    /// Why the runtime cannot be used; `None` when it can.
    pub runtime_problem: Option<String>,
    /// Why pods have no network; `None` when they have. As upstream words it after `network is not ready: `.
    pub network_problem: Option<String>,
}
