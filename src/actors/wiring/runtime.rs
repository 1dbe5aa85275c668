//! The arguments of the actors that watch the runtime, and clean up after it.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::runtime::{container_gc, log_rotator, pleg, runtime_monitor};

/// Of `RuntimeMonitor`.
pub fn runtime_monitor_args(agent: &Agent) -> runtime_monitor::Args {
    runtime_monitor::Args {
        runtime: Arc::clone(&agent.adapters.runtime),
        node_status: agent.directory.node_status.clone(),
        pod_manager: agent.directory.pod_manager.clone(),
    }
}

/// Of `Pleg`.
pub fn pleg_args(agent: &Agent) -> pleg::Args {
    let (settings, adapters, to) = (&agent.settings, &agent.adapters, &agent.directory);
    pleg::Args {
        evented: settings.runtime.evented,
        on_demand: settings.runtime.on_demand,
        stop_signals: settings.pods.stop_signals,
        runtime: Arc::clone(&adapters.runtime),
        files: Arc::clone(&adapters.pods.files),
        observer: Arc::clone(&adapters.observer),
        pod_manager: to.pod_manager.clone(),
        log_rotator: to.log_rotator.clone(),
        runtime_monitor: to.runtime_monitor.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}

/// Of `ContainerGc`.
pub fn container_gc_args(agent: &Agent) -> container_gc::Args {
    let (settings, adapters, to) = (&agent.settings, &agent.adapters, &agent.directory);
    container_gc::Args {
        node_name: settings.node_name.clone(),
        policy: settings.runtime.garbage,
        runtime: Arc::clone(&adapters.runtime),
        files: Arc::clone(&adapters.pods.files),
        pleg: to.pleg.clone(),
        pod_manager: to.pod_manager.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}

/// Of `LogRotator`.
pub fn log_rotator_args(agent: &Agent) -> log_rotator::Args {
    log_rotator::Args {
        policy: agent.settings.logs.rotation,
        agent_started: agent.settings.agent_started,
        logs: Arc::clone(&agent.adapters.logs.containers),
        runtime: Arc::clone(&agent.adapters.runtime),
    }
}
