//! The arguments of the actors that run pods.

use std::sync::Arc;

use super::volumes::node_means;
use crate::actors::agent::Agent;
use crate::actors::pods::offline_pods;
use crate::actors::pods::pod_manager;
use crate::actors::pods::pod_manager::args::{PodManagerAdapters, PodManagerAddresses, PodManagerSettings};
use crate::actors::pods::pod_manager::sweeper::Sweeper;
use crate::actors::pods::pod_worker::tools::{
    ContainerSettings, WorkerAdapters, WorkerAddresses, WorkerNode, WorkerResources, WorkerSettings, WorkerTools,
};
use crate::actors::pods::user_namespaces;
use crate::messages::pods::pod_source::SourceKind;

/// Of `PodManager`.
pub fn pod_manager_args(agent: &Agent) -> pod_manager::Args {
    let adapters = &agent.adapters;
    pod_manager::Args {
        settings: pod_manager_settings(agent),
        adapters: PodManagerAdapters {
            api: adapters.cluster.api.clone(),
            pod_ends: Arc::clone(&adapters.pods.ends),
            chance: Arc::clone(&adapters.chance),
            observer: Arc::clone(&adapters.observer),
        },
        to: pod_manager_addresses(agent),
        trace: Arc::clone(&agent.trace),
        sweeper: Arc::new(sweeper(agent)),
        worker_tools: Arc::new(worker_tools(agent)),
    }
}

fn pod_manager_settings(agent: &Agent) -> PodManagerSettings {
    let (settings, adapters) = (&agent.settings, &agent.adapters);
    let sources = [
        (SourceKind::File, adapters.sources.folder.is_some()),
        (SourceKind::Http, adapters.sources.url.is_some()),
        (SourceKind::Api, adapters.cluster.api.is_some()),
    ];
    let sources = sources.into_iter().filter(|(_, is_there)| *is_there).map(|(source, _)| source.as_str());
    PodManagerSettings {
        sources: sources.collect(),
        node_name: settings.node_name.clone(),
        labels: settings.node.identity.labels.clone(),
        architecture: settings.node.identity.architecture.clone(),
        max_pods: settings.node.status.capacity.max_pods,
        means: node_means(agent),
        declared_features: settings.node.status.declared_features.clone(),
        resources: settings.resources.options,
        resize: settings.resources.resize,
        owns_hardware: !settings.resources.managers.is_idle(),
        restart_gates: settings.pods.restart_gates,
        sysctls: settings.security.sysctls.clone(),
        app_armor: settings.security.app_armor,
        dead_per_container: settings.runtime.garbage.per_container,
        keeps_offline: adapters.cluster.offline.is_some(),
    }
}

fn pod_manager_addresses(agent: &Agent) -> PodManagerAddresses {
    let to = &agent.directory;
    PodManagerAddresses {
        pod_manager: to.pod_manager.clone(),
        status_manager: to.status_manager.clone(),
        mirror_manager: to.mirror_manager.clone(),
        node_status: to.node_status.clone(),
        eviction_manager: to.eviction_manager.clone(),
        shutdown_manager: to.shutdown_manager.clone(),
        pleg: to.pleg.clone(),
        container_gc: to.container_gc.clone(),
        prober: to.prober.clone(),
        resource_manager: to.resource_manager.clone(),
        allocation_manager: to.allocation_manager.clone(),
        user_namespaces: to.user_namespaces.clone(),
        offline_pods: to.offline_pods.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}

/// The hands of `PodManager` on the node itself.
pub fn sweeper(agent: &Agent) -> Sweeper {
    let (settings, adapters) = (&agent.settings, &agent.adapters);
    Sweeper {
        cgroup_tree: settings.resources.cgroup_tree.clone(),
        pod_level: settings.resources.options.pod_level_resources,
        pod_logs_dir: settings.logs.folder.clone(),
        cgroups: Arc::clone(&adapters.cgroups),
        files: Arc::clone(&adapters.pods.files),
        image_host: Arc::clone(&adapters.image_host),
        volume_manager: agent.directory.volume_manager.clone(),
        user_namespaces: agent.directory.user_namespaces.clone(),
    }
}

/// Of each `PodWorker`, beside its pod.
pub fn worker_tools(agent: &Agent) -> WorkerTools {
    let (adapters, to) = (&agent.adapters, &agent.directory);
    WorkerTools {
        settings: worker_settings(agent),
        adapters: WorkerAdapters {
            runtime: Arc::clone(&adapters.runtime),
            cgroups: Arc::clone(&adapters.cgroups),
            files: Arc::clone(&adapters.pods.files),
            volumes: Arc::clone(&adapters.pods.volumes),
            objects: Arc::clone(&adapters.cluster.objects),
            prober: Arc::clone(&adapters.pods.prober),
            pod_ends: Arc::clone(&adapters.pods.ends),
            probe_store: Arc::clone(&adapters.pods.probe_store),
            chance: Arc::clone(&adapters.chance),
            observer: Arc::clone(&adapters.observer),
        },
        to: WorkerAddresses {
            pod_manager: to.pod_manager.clone(),
            pleg: to.pleg.clone(),
            status_manager: to.status_manager.clone(),
            prober: to.prober.clone(),
            event_recorder: to.event_recorder.clone(),
            image_manager: to.image_manager.clone(),
            volume_manager: to.volume_manager.clone(),
            object_cache: to.object_cache.clone(),
            claim_manager: to.claim_manager.clone(),
            allocation_manager: to.allocation_manager.clone(),
            device_plugins: to.device_plugins.clone(),
            user_namespaces: to.user_namespaces.clone(),
            node_status: to.node_status.clone(),
        },
        clock: Arc::clone(agent.trace.clock()),
    }
}

fn worker_settings(agent: &Agent) -> WorkerSettings {
    let settings = &agent.settings;
    WorkerSettings {
        crash_loop: settings.pods.crash_loop,
        dead_age_min: settings.runtime.garbage.age_min,
        sync_period: settings.pods.sync_period,
        resources: WorkerResources {
            options: settings.resources.options,
            resize: settings.resources.resize,
            usage_from_runtime: settings.statistics.from_runtime,
            owns_hardware: !settings.resources.managers.is_idle(),
            cgroup_tree: settings.resources.cgroup_tree.clone(),
            node_memory: settings.resources.node_memory,
            hugepage_sizes: settings.resources.hugepage_sizes.clone(),
            means: node_means(agent),
        },
        containers: ContainerSettings {
            stop_signals: settings.pods.stop_signals,
            env_files: settings.pods.env_files,
            image_handlers: settings.images.by_handler,
            selinux: settings.security.selinux,
            seccomp_default: settings.security.seccomp_default,
            seccomp_root: settings.security.seccomp_root.clone(),
            thermal_throttle_paths: settings.security.thermal_throttle_paths.clone(),
        },
        status: settings.pods.status_gates,
        node: WorkerNode {
            name: settings.node_name.clone(),
            runtime_name: settings.runtime.name.clone(),
            prefer_ipv6: settings.node.status.addresses.prefers_sixth(),
            dns: settings.network.dns.clone(),
            pod_logs_dir: settings.logs.folder.clone(),
        },
    }
}

/// Of `UserNamespaces`.
pub fn user_namespaces_args(agent: &Agent) -> user_namespaces::Args {
    let adapters = &agent.adapters;
    user_namespaces::Args {
        space: agent.settings.pods.user_ids,
        files: Arc::clone(&adapters.pods.user_namespaces),
        chance: Arc::clone(&adapters.chance),
    }
}

/// Of `OfflinePods`.
pub fn offline_pods_args(agent: &Agent) -> offline_pods::Args {
    let (store, pod_manager) = (agent.adapters.cluster.offline.clone(), agent.directory.pod_manager.clone());
    offline_pods::Args { store, pod_manager }
}
