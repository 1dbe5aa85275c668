//! The adapters that the agent works with on a Linux machine, and the API server's where one is named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::api::Connected;
use crate::actors::agent::{
    Adapters, ClusterAdapters, LogAdapters, NodeAdapters, PluginAdapters, PodAdapters, SourceAdapters,
};
use crate::actors::objects::object_cache::{ApiObjects, CachedLocalObjects};
use crate::actors::settings::Settings;
use crate::actors::tree::Directory;
use crate::config::{Config, Flags, Invocation};
use crate::cri::grpc::GrpcRuntime;
use crate::logic::statistics::sample::System;
use crate::platform::cgroup::process_placement::{LinuxPlacement, ProcessPlacement};
use crate::platform::cgroup::{self, CgroupManager};
use crate::platform::cluster::certificates::Certificates;
use crate::platform::cluster::objects::{Objects, Standalone};
use crate::platform::cluster::offline_store::{DiskStore, OfflineStore, RememberedObjects};
use crate::platform::files::checkpoints::FileCheckpoints;
use crate::platform::files::directories;
use crate::platform::files::project_quotas::{KernelQuotas, ProjectQuotas};
use crate::platform::host::Host as HostFiles;
use crate::platform::host::chance::SystemChance;
use crate::platform::host::clock::Clock;
use crate::platform::host::kernel_log::LinuxKernelLog;
use crate::platform::host::logind::SystemLogind;
use crate::platform::host::node_facts::LinuxNodeFacts;
use crate::platform::host::systemd::Systemd;
use crate::platform::images::LinuxImageHost;
use crate::platform::logs::container_logs::LinuxContainerLogs;
use crate::platform::logs::log_reader::LinuxLogReader;
use crate::platform::logs::node_logs::LinuxNodeLogs;
use crate::platform::network::network_probe::HostProber;
use crate::platform::network::network_rules::Iptables;
use crate::platform::network::tls::Offer;
use crate::platform::plugins::{GrpcCsi, GrpcDevices, GrpcDra, GrpcRegistration, LinuxPluginRegistry, PluginCalls};
use crate::platform::pods::local_objects::{LinuxLocalObjectFolder, LocalObjectFolder};
use crate::platform::pods::manifests::{HttpManifestUrl, LinuxManifestFolder, ManifestFolder, ManifestUrl};
use crate::platform::pods::pod_files::LinuxPodFiles;
use crate::platform::pods::probe_store::ProbeStore;
use crate::platform::pods::user_namespace_files::LinuxUserNamespaceFiles;
use crate::platform::statistics::{LinuxStatistics, Places};
use crate::platform::volumes::LinuxVolumeHost;
use crate::server::rpc::DeviceRegistration;
use crate::telemetry::Metrics;

/// The means from which adapters are made.
pub(super) struct Means<'a> {
    pub(super) invocation: &'a Invocation,
    pub(super) settings: &'a Settings,
    pub(super) directory: &'a Directory,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) runtime: Arc<GrpcRuntime>,
    pub(super) cgroups: Arc<dyn CgroupManager>,
    pub(super) connected: Option<Connected>,
    pub(super) certificates: Certificates,
}

/// All of them.
///
/// # Errors
/// When one cannot be had.
pub(super) fn adapters(means: Means<'_>) -> Result<Adapters, String> {
    let Means { invocation, settings, directory, clock, metrics, runtime, cgroups, connected, certificates } = means;
    let (config, flags) = (&invocation.config, &invocation.flags);
    let (root_dir, device_folder) = (Path::new(&flags.root_dir), Path::new(&flags.device_plugin_dir));
    let offline = offline_store(invocation, connected.is_some())?;
    let quotas = quotas(invocation, root_dir);
    let statistics = statistics(invocation, settings, &*cgroups, Arc::clone(&clock)).with_quotas(quotas.clone());
    let volumes = Arc::new(LinuxVolumeHost::new(root_dir, Arc::clone(&clock)).with_quotas(quotas));
    let plugins = plugin_adapters([root_dir, device_folder], &clock, volumes.clone(), metrics.clone());
    Ok(Adapters {
        runtime: runtime.clone(),
        images: runtime,
        image_host: Arc::new(LinuxImageHost::new(root_dir, Path::new(&flags.image_credential_provider_bin_dir))),
        checkpoints: Arc::new(FileCheckpoints::new(root_dir)),
        cgroups,
        chance: Arc::new(SystemChance::from_kernel()),
        service_manager: Arc::new(Systemd),
        observer: metrics,
        pods: PodAdapters {
            files: Arc::new(LinuxPodFiles::new(
                root_dir,
                PathBuf::from(&config.pod_logs_dir),
                Some(PathBuf::from(directories::CONTAINER_LOG_LINKS)),
            )),
            user_namespaces: Arc::new(LinuxUserNamespaceFiles::new(root_dir)),
            volumes,
            prober: Arc::new(HostProber::new(Offer::from_environment())),
            ends: Arc::default(),
            probe_store: Arc::new(ProbeStore::open(root_dir).beginning(settings.pods.status_gates.restart_shows)),
        },
        plugins,
        logs: LogAdapters {
            containers: Arc::new(LinuxContainerLogs::new(PathBuf::from(&config.pod_logs_dir))),
            reader: Arc::new(LinuxLogReader::new(PathBuf::from(&config.pod_logs_dir))),
            node: Arc::new(LinuxNodeLogs::new("/var/log".into(), "journalctl".into())),
        },
        cluster: ClusterAdapters {
            objects: objects(flags, connected.as_ref(), directory, offline.as_ref(), Arc::clone(&clock)),
            offline,
            api: connected.as_ref().map(|connected| connected.api.clone()),
            certificates: Arc::new(certificates),
            doubt_connections: doubts(connected),
        },
        sources: SourceAdapters {
            folder: (!config.static_pod_path.is_empty()).then(|| manifest_folder(config)),
            url: (!config.static_pod_url.is_empty()).then(|| manifest_url(config)),
            objects: local_objects(flags),
        },
        node: NodeAdapters {
            kernel_log: Arc::new(LinuxKernelLog::default()),
            statistics: Arc::new(statistics),
            facts: Arc::new(LinuxNodeFacts::new(HostFiles::default(), root_dir.to_owned())),
            network_rules: Arc::new(Iptables::default()),
            placement: placement()?,
            logind: Arc::new(SystemLogind::new(Path::new("/"))),
        },
    })
}

/// Plugins of all kinds; `device_folder` is the directory of device plugins.
fn plugin_adapters(
    [root_dir, device_folder]: [&Path; 2],
    clock: &Arc<dyn Clock>,
    volumes: Arc<LinuxVolumeHost>,
    metrics: Arc<Metrics>,
) -> PluginAdapters {
    let calls = PluginCalls::new(Arc::clone(clock));
    PluginAdapters {
        registry: Arc::new(LinuxPluginRegistry::new(root_dir)),
        registration: Arc::new(GrpcRegistration),
        csi: Arc::new(GrpcCsi::new(calls.clone(), metrics)),
        dra: Arc::new(GrpcDra::new(calls)),
        volumes,
        device_socket: Arc::new(DeviceRegistration::new(device_folder, Arc::clone(clock))),
        devices: Arc::new(GrpcDevices::new(device_folder.to_path_buf(), clock)),
        device_files: Arc::new(FileCheckpoints::new(device_folder)),
    }
}

/// The machine's own processes. Their cgroups are folders for any driver, as upstream has it.
fn placement() -> Result<Arc<dyn ProcessPlacement>, String> {
    let entry = cgroup::open_entry().map_err(|error| error.to_string())?;
    Ok(Arc::new(LinuxPlacement::new(PathBuf::from("/proc"), cgroup::detect(), entry)))
}

/// The remedy when heartbeats failed repeatedly.
fn doubts(connected: Option<Connected>) -> Arc<dyn Fn() + Send + Sync> {
    match connected {
        Some(Connected { transport, .. }) => Arc::new(move || transport.heartbeat_failed()),
        None => Arc::new(|| {}),
    }
}

/// Quotas that count what empty directories use; none where nobody wants them.
fn quotas(invocation: &Invocation, root_dir: &Path) -> Option<ProjectQuotas> {
    let is_on = invocation.gates.enabled("LocalStorageCapacityIsolationFSQuotaMonitoring");
    is_on.then(|| ProjectQuotas::new(Arc::new(KernelQuotas), Path::new("/etc"), root_dir))
}

/// Where figures of the node are read.
fn statistics(
    invocation: &Invocation,
    settings: &Settings,
    cgroups: &dyn CgroupManager,
    clock: Arc<dyn Clock>,
) -> LinuxStatistics {
    let (config, flags) = (&invocation.config, &invocation.flags);
    let daemons = [
        (System::Kubelet, &config.kubelet_cgroups),
        (System::Runtime, &flags.runtime_cgroups),
        (System::Misc, &config.system_cgroups),
    ];
    let places = Places {
        root: PathBuf::from("/"),
        version: cgroups.version(),
        driver: cgroups.driver(),
        tree: settings.resources.cgroup_tree.clone(),
        daemons: daemons.map(|(kind, path)| (kind, path.clone())).into(),
        root_dir: PathBuf::from(&flags.root_dir),
        pod_logs: PathBuf::from(&config.pod_logs_dir),
    };
    LinuxStatistics::new(places, clock)
}

/// Where pods' objects come from.
fn objects(
    flags: &Flags,
    connected: Option<&Connected>,
    directory: &Directory,
    offline: Option<&Arc<dyn OfflineStore>>,
    clock: Arc<dyn Clock>,
) -> Arc<dyn Objects> {
    let Some(connected) = connected else {
        return match flags.local_objects.is_empty() {
            false => Arc::new(CachedLocalObjects(directory.object_cache.clone())),
            true => Arc::new(Standalone),
        };
    };
    let objects = Arc::new(ApiObjects::new(connected.api.clone(), directory.object_cache.clone()));
    match offline {
        Some(store) => Arc::new(RememberedObjects::new(objects, Arc::clone(store), clock)),
        None => objects,
    }
}

/// The store for a boot without the API server, where it is asked for and there is an API server.
fn offline_store(invocation: &Invocation, connected: bool) -> Result<Option<Arc<dyn OfflineStore>>, String> {
    let flags = &invocation.flags;
    if !flags.offline_store {
        return Ok(None);
    }
    if !connected {
        tracing::warn!("--offline-store is of no use without --kubeconfig");
        return Ok(None);
    }
    let store = DiskStore::open(Path::new(&flags.root_dir), std::env::var_os("CREDENTIALS_DIRECTORY"));
    let store = store.map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(store)))
}

fn local_objects(flags: &Flags) -> Option<Arc<dyn LocalObjectFolder>> {
    let folder = Path::new(&flags.local_objects);
    (!flags.local_objects.is_empty()).then(|| Arc::new(LinuxLocalObjectFolder::new(folder)) as _)
}

fn manifest_folder(config: &Config) -> Arc<dyn ManifestFolder> {
    Arc::new(LinuxManifestFolder::new(Path::new(&config.static_pod_path)))
}

fn manifest_url(config: &Config) -> Arc<dyn ManifestUrl> {
    let headers = config.static_pod_url_header.0.iter();
    let headers = headers.flat_map(|(name, values)| values.iter().map(move |value| (name.clone(), value.clone())));
    Arc::new(HttpManifestUrl::new(&config.static_pod_url, headers.collect()))
}
