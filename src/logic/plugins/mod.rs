//! Plugins on the node: programs beside the agent that bring storage, devices or resource claims.
//!
//! Pure. `plugin` says what a plugin is and which answers are refused; `plugin_states` is the machine of registration, a state
//! for each socket; `call_error` is how a call to a plugin fails; `csi_registration` computes what the cluster is told of a
//! CSI driver.
//!
//! May import `formats` and `model`.

pub mod call_error;
pub mod csi_registration;
pub mod plugin;
pub mod plugin_states;
