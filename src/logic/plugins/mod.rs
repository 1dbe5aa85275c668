//! Plugins on the node: programs beside the agent that bring storage, devices or resource claims.
//!
//! Pure. `plugin` says what a plugin is and which answers are refused; `plugin_states` is the machine of registration, a
//! state for each socket; `call_error` is how a call to a plugin fails; `csi_registration` computes what the cluster learns
//! of a CSI driver; `claims` is all about claims of resources. `device_registration` checks registrations of device plugins,
//! and `device_sessions` is the machine of their sessions, one for each resource.
//!
//! May import `formats`, `model` and `resources`.

pub mod call_error;
pub mod claims;
pub mod csi_registration;
pub mod device_registration;
pub mod device_sessions;
pub mod plugin;
pub mod plugin_states;
