//! Node: the agent as a process and as actors, its start and its health, certificates, and figures of the node.

pub(super) mod actor_metrics;
pub(super) mod certificate_metrics;
#[cfg(any(test, feature = "profiling"))]
pub(super) mod cpu_profile;
pub(super) mod node_metrics;
pub(super) mod plugin_metrics;
pub(super) mod process;
pub(super) mod sli_metrics;
pub(super) mod startup_metrics;
pub(super) mod statistics_metrics;
