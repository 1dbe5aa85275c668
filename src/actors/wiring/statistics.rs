//! The arguments of the actor that collects statistics.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::statistics::stats_collector;
use crate::actors::wiring::volumes::csi_volumes;

/// Of `StatsCollector`.
pub fn stats_collector_args(agent: &Agent) -> stats_collector::Args {
    let adapters = &agent.adapters;
    stats_collector::Args {
        volume_period: agent.settings.statistics.volume_period,
        volume_health: agent.settings.statistics.volume_health,
        from_runtime: agent.settings.statistics.from_runtime,
        csi: csi_volumes(agent),
        observer: Arc::clone(&adapters.observer),
        event_recorder: agent.directory.event_recorder.clone(),
        statistics: Arc::clone(&adapters.node.statistics),
        runtime: Arc::clone(&adapters.runtime),
        images: Arc::clone(&adapters.images),
        clock: Arc::clone(agent.trace.clock()),
        chance: Arc::clone(&adapters.chance),
        pleg: agent.directory.pleg.clone(),
        volume_manager: agent.directory.volume_manager.clone(),
    }
}
