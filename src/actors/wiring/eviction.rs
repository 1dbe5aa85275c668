//! Arguments of the actor that evicts pods.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::eviction::eviction_manager;

/// Of `EvictionManager`.
pub fn eviction_manager_args(agent: &Agent) -> eviction_manager::Args {
    let (adapters, to) = (&agent.adapters, &agent.directory);
    eviction_manager::Args {
        settings: agent.settings.resources.eviction.clone(),
        statistics: Arc::clone(&adapters.node.statistics),
        kernel_log: Arc::clone(&adapters.node.kernel_log),
        images: Arc::clone(&adapters.images),
        observer: Arc::clone(&adapters.observer),
        pod_manager: to.pod_manager.clone(),
        node_status: to.node_status.clone(),
        stats_collector: to.stats_collector.clone(),
        container_gc: to.container_gc.clone(),
        image_gc: to.image_gc.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}
