//! To `Root`.

use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use super::{Lost, describe};
use crate::logic::eviction::EvictionSettings;
use crate::logic::images::image_garbage::ImageGcPolicy;
use crate::logic::images::pull_queue::PullLimits;
use crate::logic::logs::log_rotation::RotationPolicy;

/// Root's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::EnumIter)]
pub enum Child {
    /// Certificates that the cluster signs for the agent.
    CertificateManager,
    /// Kubernetes Events: aggregation, recent ones for whoever asks.
    EventRecorder,
    /// The newest status of every pod.
    StatusManager,
    /// The objects that pods refer to in the API server: ConfigMaps, Secrets, services.
    ObjectCache,
    /// ConfigMaps and Secrets of a standalone node, from a folder.
    LocalObjects,
    /// The Node object: registers it, keeps its status.
    NodeStatus,
    /// The node's heartbeat.
    NodeLease,
    /// Has pods end in their order when the machine goes down.
    ShutdownManager,
    /// Whether the runtime can be worked with.
    RuntimeMonitor,
    /// The cgroups above the pods'.
    ResourceManager,
    /// Images: policy, back-off, queue, rate.
    ImageManager,
    /// Keeps the node alive: has pods end when it runs short.
    EvictionManager,
    /// Volumes: mounted before a pod's containers, gone after them.
    VolumeManager,
    /// Plugins in their registry: who they are, and who uses them.
    PluginWatcher,
    /// Storage drivers: what the cluster knows of them, and what they have staged.
    CsiManager,
    /// Device plugins: their registration, their devices, the calls to them.
    DevicePlugins,
    /// Claims of resources: prepared by drivers before a pod, released after it.
    ClaimManager,
    /// Probes.
    Prober,
    /// The runtime's truth, by event stream and relist.
    Pleg,
    /// Which pods should be here; one worker each.
    PodManager,
    /// Dead containers and sandboxes.
    ContainerGc,
    /// Images that nobody uses any more.
    ImageGc,
    /// Logs of running containers, kept within their bound.
    LogRotator,
    /// Static pods from a folder.
    FileSource,
    /// Static pods from a URL.
    HttpSource,
    /// Pods from the API server.
    ApiSource,
    /// Stand-ins of static pods in the API server.
    MirrorManager,
    /// The allocations of pods, on the disk.
    AllocationManager,
    /// Ranges of IDs of pods with user namespaces of their own.
    UserNamespaces,
    /// The pods of the API server, on the disk.
    OfflinePods,
    /// Statistics, for whoever asks.
    StatsCollector,
    /// Packet filter rules that others expect of a node.
    NetworkRules,
    /// Cgroups of the agent itself and of the machine's daemons.
    ProcessPlacement,
    /// Listening sockets.
    Server,
}

/// The settings that may change while the agent runs, in the words of those that act on them.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveSettings {
    /// When images that nobody uses go.
    pub image_gc: ImageGcPolicy,
    /// How pulls are limited.
    pub pulls: PullLimits,
    /// Thresholds of eviction, and its periods.
    pub eviction: EvictionSettings,
    /// How logs of containers are rotated; `None` when they are not.
    pub log_rotation: Option<RotationPolicy>,
    /// `nodeStatusUpdateFrequency`.
    pub update_period: Duration,
    /// `nodeStatusReportFrequency`.
    pub report_period: Duration,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum RootMsg {
    /// From itself: a child's delay is over.
    Restart(Child),
    /// From `main`: stop all children in order, then answer. Pods go on.
    Shutdown(RpcReplyPort<()>),
    /// From itself: all children have stopped.
    AllStopped(Result<(), Lost>),
    /// From `main`: these settings hold from now on. Answered once Root keeps them: children
    /// start with them from then on, and a child without room hears of them a little later.
    Reload(Arc<LiveSettings>, RpcReplyPort<()>),
    /// From itself: tell settings to children that had no room for them.
    TellDue,
    /// From itself: look for stuck turns, and feed the watchdog if there are none.
    WatchDue,
}

describe!(RootMsg);
