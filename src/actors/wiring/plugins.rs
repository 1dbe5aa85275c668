//! The means of the actors of plugins.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::plugins::{claim_manager, csi_manager, device_plugins, plugin_watcher};

/// Of `PluginWatcher`.
pub fn plugin_watcher_args(agent: &Agent) -> plugin_watcher::Args {
    plugin_watcher::Args {
        registry: Arc::clone(&agent.adapters.plugins.registry),
        registration: Arc::clone(&agent.adapters.plugins.registration),
        csi_manager: agent.directory.csi_manager.clone(),
        device_plugins: agent.directory.device_plugins.clone(),
        claim_manager: agent.directory.claim_manager.clone(),
    }
}

/// Of `ClaimManager`.
pub fn claim_manager_args(agent: &Agent) -> claim_manager::Args {
    let (adapters, to) = (&agent.adapters, &agent.directory);
    claim_manager::Args {
        node_name: agent.settings.node_name.clone(),
        api: adapters.cluster.api.clone(),
        gates: agent.settings.resources.claim_gates,
        calls: Arc::clone(&adapters.plugins.dra),
        files: Arc::clone(&adapters.checkpoints),
        plugin_watcher: to.plugin_watcher.clone(),
        pod_manager: to.pod_manager.clone(),
        observer: Arc::clone(&adapters.observer),
    }
}

/// Of `CsiManager`.
pub fn csi_manager_args(agent: &Agent) -> csi_manager::Args {
    let (adapters, to) = (&agent.adapters, &agent.directory);
    csi_manager::Args {
        node_name: agent.settings.node_name.clone(),
        api: adapters.cluster.api.clone(),
        calls: Arc::clone(&adapters.plugins.csi),
        host: Arc::clone(&adapters.plugins.volumes),
        node_status: to.node_status.clone(),
        plugin_watcher: to.plugin_watcher.clone(),
        observer: Arc::clone(&adapters.observer),
        volume_manager: to.volume_manager.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}

/// Of `DevicePlugins`.
pub fn device_plugins_args(agent: &Agent) -> device_plugins::Args {
    let (adapters, to) = (&agent.adapters, &agent.directory);
    device_plugins::Args {
        calls: Arc::clone(&adapters.plugins.devices),
        socket: Arc::clone(&adapters.plugins.device_socket),
        observer: Arc::clone(&adapters.observer),
        plugin_watcher: to.plugin_watcher.clone(),
        allocation_manager: to.allocation_manager.clone(),
    }
}
