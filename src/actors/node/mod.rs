//! Node: the Node object, its Lease, the agent's certificates, and the packet filter rules of the host.

pub mod certificate_manager;
pub mod network_rules;
pub mod node_lease;
pub mod node_status;
pub mod shutdown_manager;
#[cfg(test)]
pub(crate) mod tests;
