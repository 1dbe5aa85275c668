//! The arguments of the sources of pods.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::settings::Settings;
use crate::actors::sources::{api, file, http};
use crate::logic::manifest::gates::ManifestGates;

/// Of `ApiSource`.
pub fn api_source_args(agent: &Agent) -> api::Args {
    let to = &agent.directory;
    api::Args {
        node_name: agent.settings.node_name.clone(),
        api: agent.adapters.cluster.api.clone(),
        has_extended_claims: agent.settings.resources.claim_gates.extended_resources,
        chance: Arc::clone(&agent.adapters.chance),
        pod_manager: to.pod_manager.clone(),
        status_manager: to.status_manager.clone(),
        mirror_manager: to.mirror_manager.clone(),
        offline_pods: to.offline_pods.clone(),
    }
}

/// Of `FileSource`.
pub fn file_source_args(agent: &Agent) -> file::Args {
    let settings = &agent.settings;
    file::Args {
        node_name: settings.node_name.clone(),
        folder: agent.adapters.sources.folder.clone(),
        check_period: settings.sources.file_check_period,
        gates: manifest_gates(settings),
        references: settings.sources.references,
        pod_manager: agent.directory.pod_manager.clone(),
        status_manager: agent.directory.status_manager.clone(),
    }
}

/// Of `HttpSource`.
pub fn http_source_args(agent: &Agent) -> http::Args {
    let (settings, to) = (&agent.settings, &agent.directory);
    http::Args {
        node_name: settings.node_name.clone(),
        url: agent.adapters.sources.url.clone(),
        url_text: settings.sources.url.clone(),
        check_period: settings.sources.http_check_period,
        gates: manifest_gates(settings),
        references: settings.sources.references,
        pod_manager: to.pod_manager.clone(),
        status_manager: to.status_manager.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}

fn manifest_gates(settings: &Settings) -> ManifestGates {
    let host_network_users = settings.sources.host_network_users;
    ManifestGates { restarts: settings.pods.restart_gates, host_network_users }
}
