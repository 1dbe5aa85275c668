//! The arguments of the actor that probes containers.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::probes::prober;
use crate::logic::model::time::Moment;

/// Of `Prober`.
pub fn prober_args(agent: &Agent) -> prober::Args {
    let (adapters, settings) = (&agent.adapters, &agent.settings);
    let restart_shows = settings.pods.status_gates.restart_shows;
    prober::Args {
        agent_started: if restart_shows { Moment::EPOCH } else { settings.agent_started },
        runtime: Arc::clone(&adapters.runtime),
        network: Arc::clone(&adapters.pods.prober),
        probe_store: Arc::clone(&adapters.pods.probe_store),
        chance: Arc::clone(&adapters.chance),
        event_recorder: agent.directory.event_recorder.clone(),
    }
}
