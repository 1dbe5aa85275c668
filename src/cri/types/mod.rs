//! The messages between the agent and the runtime, in our own plain types.
//!
//! One type for each message of CRI v1 that a Linux node uses; names are the protocol's. Windows' messages have no
//! place on a Linux node and end in `convert`.

mod containers;
mod images;
mod pods;
mod runtime;
mod security;

use std::collections::BTreeMap;

pub use crate::logic::model::runtime_pod::{ContainerState, SandboxState};
pub use containers::*;
pub use images::*;
pub use pods::*;
pub use runtime::*;
pub use security::*;

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;
