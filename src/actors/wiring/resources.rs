//! The arguments of the actors of cgroups and of allocations.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::resources::{allocation_manager, process_placement, resource_manager};

/// Of `AllocationManager`.
pub fn allocation_manager_args(agent: &Agent) -> allocation_manager::Args {
    allocation_manager::Args {
        files: Arc::clone(&agent.adapters.checkpoints),
        device_files: Arc::clone(&agent.adapters.plugins.device_files),
        device_plugins: agent.directory.device_plugins.clone(),
        device_plugin_wait: agent.settings.resources.device_plugin_wait,
        shows_device_health: agent.settings.resources.shows_device_health,
        pod_manager: agent.directory.pod_manager.clone(),
        node_status: agent.directory.node_status.clone(),
        status_manager: agent.directory.status_manager.clone(),
        runtime: Arc::clone(&agent.adapters.runtime),
        managers: Arc::clone(&agent.settings.resources.managers),
        reconcile_period: agent.settings.resources.cpu_reconcile_period,
    }
}

/// Of `ProcessPlacement`.
pub fn process_placement_args(agent: &Agent) -> process_placement::Args {
    process_placement::Args {
        settings: agent.settings.resources.placement.clone(),
        placement: Arc::clone(&agent.adapters.node.placement),
    }
}

/// Of `ResourceManager`.
pub fn resource_manager_args(agent: &Agent) -> resource_manager::Args {
    let settings = &agent.settings;
    resource_manager::Args {
        node_name: settings.node_name.clone(),
        tree: settings.resources.cgroup_tree.clone(),
        node: settings.resources.node_cgroups.clone(),
        options: settings.resources.options,
        cgroups: Arc::clone(&agent.adapters.cgroups),
        observer: Arc::clone(&agent.adapters.observer),
        event_recorder: agent.directory.event_recorder.clone(),
    }
}
