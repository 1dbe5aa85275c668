//! The arguments of the actor that records Events.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::events::event_recorder;

/// Of `EventRecorder`.
pub fn event_recorder_args(agent: &Agent) -> event_recorder::Args {
    event_recorder::Args {
        node_name: agent.settings.node_name.clone(),
        api: agent.adapters.cluster.api.clone(),
        chance: Arc::clone(&agent.adapters.chance),
    }
}
