//! Node: the Node object, its status and its lease, the node's certificates, and the kernel parameters that it needs.
//!
//! May import `formats`, `model`, `resources`, `network` and `events`.

pub mod announced;
pub mod certificate_plan;
pub mod certificate_rotation;
pub mod kernel_tunables;
pub mod known_node;
pub mod node_lease;
pub mod node_object;
pub mod node_registration;
pub mod node_startup;
pub mod node_status;
pub mod pod_ranges;
pub mod shutdown;
