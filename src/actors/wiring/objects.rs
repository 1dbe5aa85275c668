//! The arguments of the actors that have objects at hand.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::objects::{local_objects, object_cache};

/// Of `ObjectCache`.
pub fn object_cache_args(agent: &Agent) -> object_cache::Args {
    object_cache::Args {
        change_detection: agent.settings.change_detection,
        sync_period: agent.settings.pods.sync_period,
        api: agent.adapters.cluster.api.clone(),
        is_local: agent.adapters.sources.objects.is_some(),
        chance: Arc::clone(&agent.adapters.chance),
        node_status: agent.directory.node_status.clone(),
        volume_manager: agent.directory.volume_manager.clone(),
    }
}

/// Of `LocalObjects`.
pub fn local_objects_args(agent: &Agent) -> local_objects::Args {
    local_objects::Args {
        folder: agent.adapters.sources.objects.clone(),
        check_period: agent.settings.sources.file_check_period,
        object_cache: agent.directory.object_cache.clone(),
    }
}
