//! The arguments of the actor that has objects at hand.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::objects::object_cache;

/// Of `ObjectCache`.
pub fn object_cache_args(agent: &Agent) -> object_cache::Args {
    object_cache::Args {
        change_detection: agent.settings.change_detection,
        sync_period: agent.settings.pods.sync_period,
        api: agent.adapters.cluster.api.clone(),
        chance: Arc::clone(&agent.adapters.chance),
        node_status: agent.directory.node_status.clone(),
        volume_manager: agent.directory.volume_manager.clone(),
    }
}
