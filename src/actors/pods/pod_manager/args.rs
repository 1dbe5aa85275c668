//! The arguments of `PodManager`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sweeper::Sweeper;
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Trace;
use crate::actors::pods::pod_worker::tools::WorkerTools;
use crate::logic::manifest::restart_gates::RestartGates;
use crate::logic::pods::pod_admission::SysctlAllowList;
use crate::logic::pods::pod_resize::ResizeGates;
use crate::logic::resources::ResourceOptions;
use crate::logic::volumes::plan::NodeMeans;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::eviction_manager::EvictionManagerMsg;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::node::shutdown_manager::ShutdownManagerMsg;
use crate::messages::pods::offline_pods::OfflinePodsMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::user_namespaces::UserNamespacesMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::resources::allocation_manager::AllocationManagerMsg;
use crate::messages::resources::resource_manager::ResourceManagerMsg;
use crate::messages::runtime::container_gc::ContainerGcMsg;
use crate::messages::runtime::pleg::PlegMsg;
use crate::messages::status::mirror_manager::MirrorManagerMsg;
use crate::messages::status::status_manager::StatusManagerMsg;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::host::chance::Chance;
use crate::platform::observer::{Observation, Observer};
use crate::platform::pods::pod_end_store::PodEndStore;

/// See the module.
pub struct Args {
    /// The settings from the configuration and the host.
    pub settings: PodManagerSettings,
    /// The outside.
    pub adapters: PodManagerAdapters,
    /// Other actors.
    pub to: PodManagerAddresses,
    /// Records and restarts of its workers.
    pub trace: Arc<Trace>,
    /// Its hands on the node itself.
    pub sweeper: Arc<Sweeper>,
    /// For its workers.
    pub worker_tools: Arc<WorkerTools>,
}

impl Args {
    /// Tells whoever counts that something happened.
    pub fn observe(&self, what: Observation<'_>) {
        self.adapters.observer.observe(what);
    }
}

/// The settings, from the configuration and the host, of pods that are to run here.
pub struct PodManagerSettings {
    /// The names of the sources that tell pods.
    pub sources: Vec<&'static str>,
    /// The node's name.
    pub node_name: String,
    /// The node's labels, for static pods where there is no Node.
    pub labels: BTreeMap<String, String>,
    /// The machine's architecture, as the API calls it.
    pub architecture: String,
    /// The most pods.
    pub max_pods: i64,
    /// The node's resources for pods while no Node says them.
    pub means: NodeMeans,
    /// Features that the node declares; `None` where it declares nothing at all.
    pub declared_features: Option<Vec<String>>,
    /// How resources become figures.
    pub resources: ResourceOptions,
    /// Which resizes are made.
    pub resize: ResizeGates,
    /// Some policy gives pods CPUs or memory of their own: admission asks for them.
    pub owns_hardware: bool,
    /// Gates about the restart policies of containers.
    pub restart_gates: RestartGates,
    /// Which kernel parameters pods may set.
    pub sysctls: SysctlAllowList,
    /// Whether the host enforces AppArmor profiles.
    pub app_armor: bool,
    /// Dead containers kept for each container of a pod.
    pub dead_per_container: i32,
    /// Whether pods are kept for a boot without the API server.
    pub keeps_offline: bool,
}

/// The outside, as `PodManager` uses it.
pub struct PodManagerAdapters {
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// How pods ended, for workers that begin anew.
    pub pod_ends: Arc<PodEndStore>,
    /// Chance.
    pub chance: Arc<dyn Chance>,
    /// Counts events of the node.
    pub observer: Arc<dyn Observer>,
}

/// The actors that `PodManager` tells.
pub struct PodManagerAddresses {
    /// Itself.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears of statuses that no worker tells.
    pub status_manager: Address<StatusManagerMsg>,
    /// Hears of static pods.
    pub mirror_manager: Address<MirrorManagerMsg>,
    /// Looks at the host's addresses.
    pub node_status: Address<NodeStatusMsg>,
    /// Hears of evicted pods that are over.
    pub eviction_manager: Address<EvictionManagerMsg>,
    /// Hears of pods that are over while the machine goes down.
    pub shutdown_manager: Address<ShutdownManagerMsg>,
    /// Looks at pods.
    pub pleg: Address<PlegMsg>,
    /// Hears of pods with more dead containers than are kept.
    pub container_gc: Address<ContainerGcMsg>,
    /// Hears which pods there are.
    pub prober: Address<ProberMsg>,
    /// Hears what the pods that count ask for.
    pub resource_manager: Address<ResourceManagerMsg>,
    /// Keeps what pods are given.
    pub allocation_manager: Address<AllocationManagerMsg>,
    /// Hears which pods there are.
    pub user_namespaces: Address<UserNamespacesMsg>,
    /// Keeps admitted pods for a boot without the API server.
    pub offline_pods: Address<OfflinePodsMsg>,
    /// Hears of Events.
    pub event_recorder: Address<EventRecorderMsg>,
}
