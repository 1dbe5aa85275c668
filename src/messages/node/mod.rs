//! Node: to the actors of the Node object, its Lease, its certificates and its packet filter.

pub mod certificate_manager;
pub mod network_rules;
pub mod node_lease;
pub mod node_status;
pub mod shutdown_manager;
