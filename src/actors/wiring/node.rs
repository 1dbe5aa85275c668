//! The arguments of the actors of the node's object, Lease, certificates and packet filter.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::node::node_status::Listeners;
use crate::actors::node::{certificate_manager, network_rules, node_lease, node_status, shutdown_manager};

/// Of `CertificateManager`.
pub fn certificate_manager_args(agent: &Agent) -> certificate_manager::Args {
    let (settings, adapters) = (&agent.settings, &agent.adapters);
    certificate_manager::Args {
        node_name: settings.node_name.clone(),
        names_alone_serve: settings.node.names_alone_serve,
        certificates: Arc::clone(&adapters.cluster.certificates),
        api: adapters.cluster.api.clone(),
        chance: Arc::clone(&adapters.chance),
    }
}

/// Of `NodeStatus`.
pub fn node_status_args(agent: &Agent) -> node_status::Args {
    let (settings, adapters, to) = (&agent.settings, &agent.adapters, &agent.directory);
    node_status::Args {
        node_name: settings.node_name.clone(),
        settings: settings.node.clone(),
        dns: settings.network.dns.clone(),
        agent_started: settings.agent_started,
        cgroup_version: adapters.cgroups.version(),
        api: adapters.cluster.api.clone(),
        doubt_connections: Arc::clone(&adapters.cluster.doubt_connections),
        facts: Arc::clone(&adapters.node.facts),
        files: Arc::clone(&adapters.pods.files),
        runtime: Arc::clone(&adapters.runtime),
        images: Arc::clone(&adapters.images),
        chance: Arc::clone(&adapters.chance),
        to: Listeners {
            pod_manager: to.pod_manager.clone(),
            certificate_manager: to.certificate_manager.clone(),
            node_lease: to.node_lease.clone(),
            runtime_monitor: to.runtime_monitor.clone(),
            resource_manager: to.resource_manager.clone(),
            csi_manager: to.csi_manager.clone(),
            event_recorder: to.event_recorder.clone(),
        },
    }
}

/// Of `NodeLease`.
pub fn node_lease_args(agent: &Agent) -> node_lease::Args {
    let (settings, adapters) = (&agent.settings, &agent.adapters);
    node_lease::Args {
        node_name: settings.node_name.clone(),
        lease_seconds: settings.node.lease_seconds,
        heartbeat_limit: settings.node.heartbeat_limit(),
        api: adapters.cluster.api.clone(),
        doubt_connections: Arc::clone(&adapters.cluster.doubt_connections),
        chance: Arc::clone(&adapters.chance),
    }
}

/// Of `ShutdownManager`.
pub fn shutdown_manager_args(agent: &Agent) -> shutdown_manager::Args {
    let (settings, adapters, to) = (&agent.settings, &agent.adapters, &agent.directory);
    shutdown_manager::Args {
        settings: settings.node.shutdown.clone(),
        logind: Arc::clone(&adapters.node.logind),
        checkpoints: Arc::clone(&adapters.checkpoints),
        observer: Arc::clone(&adapters.observer),
        pod_manager: to.pod_manager.clone(),
        node_status: to.node_status.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}

/// Of `NetworkRules`.
pub fn network_rules_args(agent: &Agent) -> network_rules::Args {
    network_rules::Args {
        wanted: agent.settings.network.rules,
        network_rules: Arc::clone(&agent.adapters.node.network_rules),
    }
}
