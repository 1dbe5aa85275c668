//! The arguments of the actor that mounts volumes.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::volumes::volume_manager;
use crate::actors::volumes::volume_manager::drivers::CsiVolumes;
use crate::logic::volumes::plan::NodeMeans;

/// The node's resources for pods while no Node says them.
pub fn node_means(agent: &Agent) -> NodeMeans {
    let settings = &agent.settings;
    NodeMeans {
        allocatable: settings.resources.allocatable.clone(),
        memory_bytes: settings.resources.node_memory.capacity_bytes,
        resources: settings.resources.options,
    }
}

/// Of `VolumeManager`.
pub fn volume_manager_args(agent: &Agent) -> volume_manager::Args {
    let (adapters, to) = (&agent.adapters, &agent.directory);
    volume_manager::Args {
        means: node_means(agent),
        volumes: Arc::clone(&adapters.pods.volumes),
        objects: Arc::clone(&adapters.cluster.objects),
        observer: Arc::clone(&adapters.observer),
        chance: Arc::clone(&adapters.chance),
        node_status: to.node_status.clone(),
        event_recorder: to.event_recorder.clone(),
        csi: csi_volumes(agent),
        labelling: agent.settings.security.labelling.clone(),
    }
}

/// The means for volumes of drivers.
pub fn csi_volumes(agent: &Agent) -> CsiVolumes {
    let plugins = &agent.adapters.plugins;
    CsiVolumes {
        node_name: agent.settings.node_name.clone(),
        calls: Arc::clone(&plugins.csi),
        host: Arc::clone(&plugins.volumes),
        manager: agent.directory.csi_manager.clone(),
    }
}
