//! The configuration in the words of decisions, a part for each domain.

use std::sync::Arc;
use std::time::Duration;

use crate::logic::eviction::EvictionSettings;
use crate::logic::images::ImageSettings;
use crate::logic::logs::log_rotation::RotationPolicy;
use crate::logic::manifest::references::References;
use crate::logic::manifest::restart_gates::RestartGates;
use crate::logic::model::backoff::BackoffPolicy;
use crate::logic::model::time::Moment;
use crate::logic::network::dns::DnsSettings;
use crate::logic::node::node_object::NodeIdentity;
use crate::logic::node::node_status::StatusSettings;
use crate::logic::node::shutdown::ShutdownSettings;
use crate::logic::objects::object_cache::ChangeDetection;
use crate::logic::plugins::claims::ClaimGates;
use crate::logic::pods::container_garbage::GarbagePolicy;
use crate::logic::pods::pod_admission::SysctlAllowList;
use crate::logic::pods::pod_resize::ResizeGates;
use crate::logic::resources::allocations::ResourceManagers;
use crate::logic::resources::cgroup_name::CgroupTree;
use crate::logic::resources::node_cgroups::process_placement::PlacementSettings;
use crate::logic::resources::node_cgroups::{MachineSize, NodeCgroups};
use crate::logic::resources::user_namespaces::space::IdSpace;
use crate::logic::resources::{NodeMemory, ResourceList, ResourceOptions};
use crate::logic::serving::{ServedLogs, StreamSettings};
use crate::logic::status::status_gates::StatusGates;
use crate::logic::volumes::mounting::mount_label::Labelling;
use crate::messages::root::LiveSettings;

/// The configuration, as far as actors act on it: a part for each domain, of which an actor is given its own. Units
/// are in the types.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name: lower case.
    pub node_name: String,
    /// When the agent started.
    pub agent_started: Moment,
    /// How often the watchdog is fed; `None` when nobody watches.
    pub watchdog_period: Option<Duration>,
    /// The Node object and its Lease.
    pub node: NodeSettings,
    /// Pods and their containers.
    pub pods: PodSettings,
    /// The rights of containers on the node.
    pub security: SecuritySettings,
    /// Static pods.
    pub sources: SourceSettings,
    /// `configMapAndSecretChangeDetectionStrategy`.
    pub change_detection: ChangeDetection,
    /// The runtime, and what it holds.
    pub runtime: RuntimeSettings,
    /// Images.
    pub images: ImageSettings,
    /// Cgroups and amounts.
    pub resources: ResourceSettings,
    /// Names and packet filter.
    pub network: NetworkSettings,
    /// Logs of containers.
    pub logs: LogSettings,
    /// Statistics.
    pub statistics: StatisticsSettings,
    /// The endpoints that are answered over HTTP.
    pub serving: ServingSettings,
}

impl Settings {
    /// The part that may change while the agent runs.
    pub fn live(&self) -> LiveSettings {
        LiveSettings {
            image_gc: self.images.gc,
            pulls: self.images.pulls,
            eviction: self.resources.eviction.clone(),
            log_rotation: self.logs.rotation,
            update_period: self.node.update_period,
            report_period: self.node.report_period,
        }
    }

    /// These settings with another such part.
    pub fn with(mut self, live: &LiveSettings) -> Self {
        (self.images.gc, self.images.pulls) = (live.image_gc, live.pulls);
        self.resources.eviction = live.eviction.clone();
        self.logs.rotation = live.log_rotation;
        (self.node.update_period, self.node.report_period) = (live.update_period, live.report_period);
        self
    }
}

/// The configuration of pods and their containers.
#[derive(Clone, Debug)]
pub struct PodSettings {
    /// `syncFrequency`.
    pub sync_period: Duration,
    /// Of containers that end again and again (`crashLoopBackOff`, POD-19).
    pub crash_loop: BackoffPolicy,
    /// Gates about the restart policies of containers.
    pub restart_gates: RestartGates,
    /// Gates about the parts of statuses.
    pub status_gates: StatusGates,
    /// Gate `ContainerStopSignals`: containers name the signal that they are stopped with.
    pub stop_signals: bool,
    /// Gate `EnvFiles`: whether variables may come from files of volumes.
    pub env_files: bool,
    /// The IDs that pods with user namespaces of their own may have.
    pub user_ids: IdSpace,
}

impl Default for PodSettings {
    /// Upstream's defaults, with back-offs of up to five minutes.
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(60),
            crash_loop: BackoffPolicy::crash_loop(Duration::from_secs(300)),
            restart_gates: RestartGates::default(),
            status_gates: StatusGates::default(),
            stop_signals: false,
            env_files: true,
            user_ids: IdSpace::default(),
        }
    }
}

/// The rights of containers on the node, by its kernel and the configuration.
#[derive(Clone, Debug, Default)]
pub struct SecuritySettings {
    /// The directory of local seccomp profiles.
    pub seccomp_root: String,
    /// `seccompDefault`.
    pub seccomp_default: bool,
    /// Which kernel parameters pods may set: the safe ones, and `allowedUnsafeSysctls`.
    pub sysctls: SysctlAllowList,
    /// Whether the host enforces AppArmor profiles.
    pub app_armor: bool,
    /// Whether SELinux is on: files of pods are then labelled by the runtime.
    pub selinux: bool,
    /// How persistent volumes are labelled then, where the policy knows containers.
    pub labelling: Option<Arc<Labelling>>,
    /// `/sys/devices/system/cpu/cpu<N>/thermal_throttle` that exist, in order of N.
    pub thermal_throttle_paths: Vec<String>,
}

/// The configuration of static pods.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// `staticPodURL`, as pods' UIDs take it in.
    pub url: String,
    /// `fileCheckFrequency`.
    pub file_check_period: Duration,
    /// `httpCheckFrequency`.
    pub http_check_period: Duration,
    /// Whether static pods may name ConfigMaps and Secrets.
    pub references: References,
    /// Gate `UserNamespacesHostNetworkSupport`: pods with `hostUsers: false` may be on the host's network.
    pub host_network_users: bool,
}

impl Default for SourceSettings {
    /// Upstream's defaults.
    fn default() -> Self {
        let period = Duration::from_secs(20);
        Self {
            url: String::new(),
            file_check_period: period,
            http_check_period: period,
            references: References::Refused,
            host_network_users: false,
        }
    }
}

/// The facts of the runtime, and the limits within which dead containers are kept.
#[derive(Clone, Debug)]
pub struct RuntimeSettings {
    /// The runtime's name for itself: the prefix of container IDs in the API.
    pub name: String,
    /// Whether the runtime's event stream is used: the default; an explicit `EventedPLEG: false` turns it off.
    pub evented: bool,
    /// Gate `PLEGOnDemandRelist`: a pod is looked at when its worker asks.
    pub on_demand: bool,
    /// `maximum-dead-containers-per-container`, `maximum-dead-containers`, `minimum-container-ttl-duration`.
    pub garbage: GarbagePolicy,
}

impl Default for RuntimeSettings {
    /// Upstream's defaults, of containerd.
    fn default() -> Self {
        let garbage = GarbagePolicy { per_container: 1, total: -1, age_min: Duration::ZERO };
        Self { name: "containerd".to_owned(), evented: true, on_demand: true, garbage }
    }
}

/// Where cgroups are, what pods may use, and how amounts become figures.
#[derive(Clone, Debug)]
pub struct ResourceSettings {
    /// Where the agent's cgroups are.
    pub cgroup_tree: CgroupTree,
    /// The limits of all pods together and of the host's daemons.
    pub node_cgroups: NodeCgroups,
    /// The amounts that pods may use, as the Node would say it: for as long as there is no Node.
    pub allocatable: ResourceList,
    /// How resources become figures.
    pub options: ResourceOptions,
    /// Which resizes of pods are made.
    pub resize: ResizeGates,
    /// The node's memory.
    pub node_memory: NodeMemory,
    /// Sizes of the host's huge pages, in bytes.
    pub hugepage_sizes: Vec<u64>,
    /// `kubeletCgroups`, `systemCgroups`, `oomScoreAdj`.
    pub placement: PlacementSettings,
    /// Thresholds of eviction, and its periods.
    pub eviction: EvictionSettings,
    /// The managers of CPUs and memory, as they are before any pod.
    pub managers: Arc<ResourceManagers>,
    /// `cpuManagerReconcilePeriod`.
    pub cpu_reconcile_period: Duration,
    /// `--device-plugin-wait`: how long a pod waits for a device plugin that is late; zero: it fails at once.
    pub device_plugin_wait: Duration,
    /// Gate `ResourceHealthStatus`: statuses of pods show the health of their devices.
    pub shows_device_health: bool,
    /// Gates of the rules for resource claims.
    pub claim_gates: ClaimGates,
}

/// The configuration of names and the packet filter.
#[derive(Clone, Debug, Default)]
pub struct NetworkSettings {
    /// The names that pods get.
    pub dns: DnsSettings,
    /// `makeIPTablesUtilChains`.
    pub rules: bool,
}

/// The configuration of containers' logs.
#[derive(Clone, Debug, Default)]
pub struct LogSettings {
    /// `podLogsDir`.
    pub folder: String,
    /// How logs of running containers are rotated; `None` when `containerLogMaxSize` is negative.
    pub rotation: Option<RotationPolicy>,
}

/// The configuration of statistics.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatisticsSettings {
    /// Gate `KubeletPSI`: whether statistics show pressure.
    pub pressure: bool,
    /// `volumeStatsAggPeriod`: how often volumes are measured, while somebody asks; `None` when they are not.
    pub volume_period: Option<Duration>,
    /// Gate `CSIVolumeHealth`: whether conditions that drivers tell of volumes count.
    pub volume_health: bool,
    /// Gate `PodAndContainerStatsFromCRI`: whether the figures of pods are those that the runtime tells.
    pub from_runtime: bool,
}

/// The endpoints that are answered over HTTP.
#[derive(Clone, Debug, Default)]
pub struct ServingSettings {
    /// The logs that are answered.
    pub logs: ServedLogs,
    /// Exec, attach, port forward, checkpoints.
    pub streams: StreamSettings,
}

/// The configuration of the Node object and its Lease. Units are in the types.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The identity of the node.
    pub identity: NodeIdentity,
    /// The settings of its status.
    pub status: StatusSettings,
    /// `registerNode`.
    pub register: bool,
    /// Gate `KubeletRegistrationGetOnExistsOnly`.
    pub read_on_exists_only: bool,
    /// `nodeStatusUpdateFrequency`.
    pub update_period: Duration,
    /// `nodeStatusReportFrequency`.
    pub report_period: Duration,
    /// `nodeLeaseDurationSeconds`.
    pub lease_seconds: i32,
    /// Gate `AllowDNSOnlyNodeCSR`: a serving certificate may be for names alone.
    pub names_alone_serve: bool,
    /// When the machine booted, where that is known.
    pub booted: Option<Moment>,
    /// The machine's size at the start; `None`: as it is found first.
    pub size: Option<MachineSize>,
    /// `--follow-machine-size`, ours: changes of that size count.
    pub follows_size: bool,
    /// The folder of device plugins was not there before this start: the machine is a new one. Amounts that the Node
    /// has of extended resources are those of another machine (NODE-13).
    pub devices_lost: bool,
    /// Whether swap is on and the kernel cannot keep volumes in memory from it.
    pub memory_may_be_swapped: bool,
    /// `podCIDR`: the runtime gets it until the Node names one; nothing when it is empty.
    pub pod_cidr: String,
    /// Which pods may take how long when the machine goes down.
    pub shutdown: ShutdownSettings,
}

impl NodeSettings {
    /// The time limit of a heartbeat: one that takes longer is no sign of life.
    pub fn heartbeat_limit(&self) -> Duration {
        self.update_period.min(Duration::from_secs(u64::try_from(self.lease_seconds).unwrap_or(0)))
    }
}

impl Default for NodeSettings {
    /// Upstream's defaults, of a node without a name.
    fn default() -> Self {
        Self {
            identity: NodeIdentity::default(),
            status: StatusSettings::default(),
            register: true,
            read_on_exists_only: false,
            update_period: Duration::from_secs(10),
            report_period: Duration::from_secs(300),
            lease_seconds: 40,
            names_alone_serve: false,
            booted: None,
            size: None,
            follows_size: false,
            devices_lost: false,
            memory_may_be_swapped: false,
            pod_cidr: String::new(),
            shutdown: ShutdownSettings::default(),
        }
    }
}
