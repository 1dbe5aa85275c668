//! The arguments of the actors that send statuses, and keep mirrors.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::status::{mirror_manager, status_manager};

/// Of `StatusManager`.
pub fn status_manager_args(agent: &Agent) -> status_manager::Args {
    status_manager::Args {
        api: agent.adapters.cluster.api.clone(),
        gates: agent.settings.pods.status_gates,
        chance: Arc::clone(&agent.adapters.chance),
        observer: Arc::clone(&agent.adapters.observer),
    }
}

/// Of `MirrorManager`.
pub fn mirror_manager_args(agent: &Agent) -> mirror_manager::Args {
    mirror_manager::Args { api: agent.adapters.cluster.api.clone(), chance: Arc::clone(&agent.adapters.chance) }
}
