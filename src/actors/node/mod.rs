//! Node: the Node object, its Lease, the agent's certificates, and the packet filter rules of the host.

pub mod certificate_manager;
#[cfg(test)]
mod certificate_tests;
pub mod network_rules;
pub mod node_lease;
pub mod node_status;
#[cfg(test)]
pub(crate) mod node_tests;
pub mod shutdown_manager;
