//! The means of pods' workers beside their pods: settings, adapters, and the actors that they tell.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::address::Address;
use crate::cri::RuntimeService;
use crate::logic::model::backoff::BackoffPolicy;
use crate::logic::network::dns::DnsSettings;
use crate::logic::pods::pod_resize::ResizeGates;
use crate::logic::resources::cgroup_name::CgroupTree;
use crate::logic::resources::{NodeMemory, ResourceOptions};
use crate::logic::status::status_gates::StatusGates;
use crate::logic::volumes::plan::NodeMeans;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::images::image_manager::ImageManagerMsg;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::object_cache::ObjectCacheMsg;
use crate::messages::plugins::claim_manager::ClaimManagerMsg;
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::user_namespaces::UserNamespacesMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::resources::allocation_manager::AllocationManagerMsg;
use crate::messages::runtime::pleg::PlegMsg;
use crate::messages::status::status_manager::StatusManagerMsg;
use crate::messages::volume_manager::VolumeManagerMsg;
use crate::platform::cgroup::CgroupManager;
use crate::platform::cluster::objects::Objects;
use crate::platform::host::chance::Chance;
use crate::platform::host::clock::Clock;
use crate::platform::network::network_probe::NetworkProber;
use crate::platform::observer::{Observation, Observer};
use crate::platform::pods::pod_end_store::PodEndStore;
use crate::platform::pods::pod_files::PodFiles;
use crate::platform::pods::probe_store::ProbeStore;
use crate::platform::volumes::VolumeHost;

/// See the module. One for all workers.
pub struct WorkerTools {
    /// The settings from the configuration and the host.
    pub settings: WorkerSettings,
    /// The outside.
    pub adapters: WorkerAdapters,
    /// Other actors.
    pub to: WorkerAddresses,
    /// The agent's clock.
    pub clock: Arc<dyn Clock>,
}

impl WorkerTools {
    /// Tells whoever counts that something happened.
    pub fn observe(&self, what: Observation<'_>) {
        self.adapters.observer.observe(what);
    }
}

/// The settings, from the configuration and the host, of pods and their containers.
pub struct WorkerSettings {
    /// Of containers that end again and again.
    pub crash_loop: BackoffPolicy,
    /// Age from which a dead container of a removed pod may go.
    pub dead_age_min: Duration,
    /// `syncFrequency`.
    pub sync_period: Duration,
    /// Figures of CPU and memory.
    pub resources: WorkerResources,
    /// Configurations of containers.
    pub containers: ContainerSettings,
    /// Which parts of statuses the worker tells.
    pub status: StatusGates,
    /// The node's facts for its pods.
    pub node: WorkerNode,
}

/// The settings on which resources of pods depend.
pub struct WorkerResources {
    /// How resources become figures.
    pub options: ResourceOptions,
    /// Which resizes are made.
    pub resize: ResizeGates,
    /// Gate `PodAndContainerStatsFromCRI`: the runtime tells the memory that a pod uses.
    pub usage_from_runtime: bool,
    /// Where the agent's cgroups are.
    pub cgroup_tree: CgroupTree,
    /// The node's memory.
    pub node_memory: NodeMemory,
    /// Sizes of the host's huge pages, in bytes.
    pub hugepage_sizes: Vec<u64>,
    /// The node's resources for pods while no Node says them.
    pub means: NodeMeans,
    /// Some policy gives pods CPUs or memory of their own: their places are asked for.
    pub owns_hardware: bool,
}

/// The settings on which configurations of containers depend.
pub struct ContainerSettings {
    /// Gate `ContainerStopSignals`.
    pub stop_signals: bool,
    /// Gate `EnvFiles`.
    pub env_files: bool,
    /// Gate `RuntimeClassInImageCriApi`: images are for a handler of the runtime.
    pub image_handlers: bool,
    /// Whether SELinux is on.
    pub selinux: bool,
    /// `seccompDefault`.
    pub seccomp_default: bool,
    /// The directory of local seccomp profiles.
    pub seccomp_root: String,
    /// Paths of the host that tell of thermal throttling.
    pub thermal_throttle_paths: Vec<String>,
}

/// The node's facts for its pods.
pub struct WorkerNode {
    /// The node's name.
    pub name: String,
    /// The runtime's name for itself.
    pub runtime_name: String,
    /// Whether IPv6 addresses go before IPv4 addresses.
    pub prefer_ipv6: bool,
    /// The configuration of names.
    pub dns: DnsSettings,
    /// `podLogsDir`.
    pub pod_logs_dir: String,
}

/// The outside, as workers use it.
pub struct WorkerAdapters {
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Cgroups.
    pub cgroups: Arc<dyn CgroupManager>,
    /// Pods' files.
    pub files: Arc<dyn PodFiles>,
    /// Volumes on the node.
    pub volumes: Arc<dyn VolumeHost>,
    /// Objects of the API.
    pub objects: Arc<dyn Objects>,
    /// Hooks over the network.
    pub prober: Arc<dyn NetworkProber>,
    /// How pods ended, for workers that begin anew.
    pub pod_ends: Arc<PodEndStore>,
    /// Memory of probes.
    pub probe_store: Arc<ProbeStore>,
    /// Chance.
    pub chance: Arc<dyn Chance>,
    /// Counts events of the node.
    pub observer: Arc<dyn Observer>,
}

/// The actors that workers tell and ask.
pub struct WorkerAddresses {
    /// Hears when a pod is over, and when nothing is left of it.
    pub pod_manager: Address<PodManagerMsg>,
    /// Looks at pods.
    pub pleg: Address<PlegMsg>,
    /// Hears of statuses.
    pub status_manager: Address<StatusManagerMsg>,
    /// Hears of pods with probes.
    pub prober: Address<ProberMsg>,
    /// Hears of Events.
    pub event_recorder: Address<EventRecorderMsg>,
    /// Has images there.
    pub image_manager: Address<ImageManagerMsg>,
    /// Has volumes there, and gone.
    pub volume_manager: Address<VolumeManagerMsg>,
    /// Keeps objects of the API server at hand.
    pub object_cache: Address<ObjectCacheMsg>,
    /// Has claims of resources prepared and released.
    pub claim_manager: Address<ClaimManagerMsg>,
    /// Keeps the resources that the runtime has from the agent.
    pub allocation_manager: Address<AllocationManagerMsg>,
    /// Hears of containers with devices that are about to start.
    pub device_plugins: Address<DevicePluginsMsg>,
    /// Knows the pod's user namespace.
    pub user_namespaces: Address<UserNamespacesMsg>,
    /// Knows the Node.
    pub node_status: Address<NodeStatusMsg>,
}
