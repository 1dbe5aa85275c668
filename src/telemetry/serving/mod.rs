//! Serving: requests to the agent and by it.

pub(super) mod auth_metrics;
pub(super) mod client_metrics;
pub(super) mod http_metrics;
pub(super) mod rpc_metrics;
