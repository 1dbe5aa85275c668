//! The agent before it runs: settings, adapters, addresses, trace and listeners. Put together by `launch`, the simulator and
//! tests; among actors only `wiring` knows it.

use std::sync::Arc;

use super::server::Listener;
use super::settings::Settings;
use super::tree::Directory;
use crate::actors::kit::trace::Trace;
use crate::cri::{ImageService, RuntimeService};
use crate::platform::cgroup::CgroupManager;
use crate::platform::cgroup::process_placement::ProcessPlacement;
use crate::platform::cluster::certificates::Certificates;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::cluster::objects::Objects;
use crate::platform::cluster::offline_store::OfflineStore;
use crate::platform::files::checkpoints::Checkpoints;
use crate::platform::host::chance::Chance;
use crate::platform::host::kernel_log::KernelLog;
use crate::platform::host::logind::Logind;
use crate::platform::host::node_facts::NodeFacts;
use crate::platform::host::systemd::ServiceManager;
use crate::platform::images::ImageHost;
use crate::platform::logs::container_logs::ContainerLogs;
use crate::platform::logs::log_reader::LogReader;
use crate::platform::logs::node_logs::NodeLogs;
use crate::platform::network::network_probe::NetworkProber;
use crate::platform::network::network_rules::NetworkRules;
use crate::platform::observer::{Observation, Observer};
use crate::platform::plugins::{
    CsiCalls, DeviceCalls, DeviceSocket, DraCalls, NoPlugins, PluginRegistration, PluginRegistry,
};
use crate::platform::pods::local_objects::LocalObjectFolder;
use crate::platform::pods::manifests::{ManifestFolder, ManifestUrl};
use crate::platform::pods::pod_end_store::PodEndStore;
use crate::platform::pods::pod_files::PodFiles;
use crate::platform::pods::probe_store::ProbeStore;
use crate::platform::pods::user_namespace_files::UserNamespaceFiles;
use crate::platform::statistics::Statistics;
use crate::platform::volumes::VolumeHost;
use crate::platform::volumes::csi::CsiHost;

/// The outside, behind traits, by domain. Only `wiring` reads it: an actor is given single adapters.
#[derive(Clone)]
pub struct Adapters {
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// The runtime's images.
    pub images: Arc<dyn ImageService>,
    /// The node's own work with images: records, credentials, space.
    pub image_host: Arc<dyn ImageHost>,
    /// Decisions that are kept for a later run of the agent.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Cgroups.
    pub cgroups: Arc<dyn CgroupManager>,
    /// Chance.
    pub chance: Arc<dyn Chance>,
    /// The service manager.
    pub service_manager: Arc<dyn ServiceManager>,
    /// Counts events of the node.
    pub observer: Arc<dyn Observer>,
    /// Pods on the node.
    pub pods: PodAdapters,
    /// Plugins, and what the disk knows of their volumes.
    pub plugins: PluginAdapters,
    /// Logs.
    pub logs: LogAdapters,
    /// The API server, and what the agent is to it.
    pub cluster: ClusterAdapters,
    /// Where static pods are named.
    pub sources: SourceAdapters,
    /// The machine.
    pub node: NodeAdapters,
}

/// Pods on the node.
#[derive(Clone)]
pub struct PodAdapters {
    /// Pods' files.
    pub files: Arc<dyn PodFiles>,
    /// Ranges of IDs of pods.
    pub user_namespaces: Arc<dyn UserNamespaceFiles>,
    /// Volumes on the node.
    pub volumes: Arc<dyn VolumeHost>,
    /// Probes and hooks over the network.
    pub prober: Arc<dyn NetworkProber>,
    /// How pods ended, for workers that begin anew.
    pub ends: Arc<PodEndStore>,
    /// Memory of probes.
    pub probe_store: Arc<ProbeStore>,
}

/// Plugins.
#[derive(Clone)]
pub struct PluginAdapters {
    /// Where they appear.
    pub registry: Arc<dyn PluginRegistry>,
    /// The handshake with them.
    pub registration: Arc<dyn PluginRegistration>,
    /// Calls to storage drivers.
    pub csi: Arc<dyn CsiCalls>,
    /// Calls to drivers of resource claims.
    pub dra: Arc<dyn DraCalls>,
    /// Drivers' volumes as the disk knows them.
    pub volumes: Arc<dyn CsiHost>,
    /// Where device plugins register.
    pub device_socket: Arc<dyn DeviceSocket>,
    /// Calls to device plugins.
    pub devices: Arc<dyn DeviceCalls>,
    /// The file of the device manager, in the folder of device plugins.
    pub device_files: Arc<dyn Checkpoints>,
}

impl PluginAdapters {
    /// No plugin ever appears.
    pub fn none() -> Self {
        let none = Arc::new(NoPlugins);
        Self {
            registry: none.clone(),
            registration: none.clone(),
            csi: none.clone(),
            dra: none.clone(),
            volumes: none.clone(),
            device_socket: none.clone(),
            devices: none.clone(),
            device_files: none,
        }
    }
}

/// Logs.
#[derive(Clone)]
pub struct LogAdapters {
    /// Logs of containers.
    pub containers: Arc<dyn ContainerLogs>,
    /// The same, for readers.
    pub reader: Arc<dyn LogReader>,
    /// The node's own logs.
    pub node: Arc<dyn NodeLogs>,
}

/// The API server, and what the agent is to it.
#[derive(Clone)]
pub struct ClusterAdapters {
    /// Objects of the API.
    pub objects: Arc<dyn Objects>,
    /// Where pods of the API server are kept for a boot without it; nowhere unless that is asked for.
    pub offline: Option<Arc<dyn OfflineStore>>,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// The agent's own certificates.
    pub certificates: Arc<Certificates>,
    /// Called when heartbeats failed repeatedly: connections to the API server may be dead without having ended.
    pub doubt_connections: Arc<dyn Fn() + Send + Sync>,
}

/// Where static pods are named.
#[derive(Clone)]
pub struct SourceAdapters {
    /// The static pod path, where one is set.
    pub folder: Option<Arc<dyn ManifestFolder>>,
    /// The static pod URL, where one is set.
    pub url: Option<Arc<dyn ManifestUrl>>,
    /// ConfigMaps and Secrets for them, where a folder is named.
    pub objects: Option<Arc<dyn LocalObjectFolder>>,
}

/// The machine.
#[derive(Clone)]
pub struct NodeAdapters {
    /// Figures of the node, its control groups and disks.
    pub statistics: Arc<dyn Statistics>,
    /// The host's facts for the Node's status.
    pub facts: Arc<dyn NodeFacts>,
    /// The machine's packet filter.
    pub network_rules: Arc<dyn NetworkRules>,
    /// Processes of the machine and their cgroups.
    pub placement: Arc<dyn ProcessPlacement>,
    /// Shutdowns of the machine.
    pub logind: Arc<dyn Logind>,
    /// The kernel's log.
    pub kernel_log: Arc<dyn KernelLog>,
}

/// All that the agent is made of. `wiring` gives each actor its own of it.
#[derive(Clone)]
pub struct Agent {
    /// See [`Settings`].
    pub settings: Settings,
    /// See [`Adapters`].
    pub adapters: Adapters,
    /// See [`Directory`].
    pub directory: Directory,
    /// See [`Trace`].
    pub trace: Arc<Trace>,
    /// The listeners, with their answers; started by `Server`.
    pub listeners: Vec<Arc<dyn Listener>>,
}

impl Agent {
    /// Tells whoever counts that something happened.
    pub fn observe(&self, what: Observation<'_>) {
        self.adapters.observer.observe(what);
    }
}
