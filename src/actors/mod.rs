//! The tree. Actors move messages and start work; what to do is decided in `logic`.
//!
//! [`TREE`] is Root's children, in start order; `PodManager` has one `PodWorker` for each pod UID. Shutdown runs the
//! order backwards.
//!
//! A folder is a domain, a file in it an actor (or a folder once the actor has helpers). [`kit`] is the actor runtime.

pub mod events;
pub mod images;
pub mod kit;
pub mod node;
pub mod objects;
#[cfg(test)]
pub(crate) mod played_api;
pub mod pods;
pub mod probes;
pub mod resources;
pub mod root;
pub mod runtime;
pub mod server;
pub mod settings;
pub mod sources;
pub mod statistics;
pub mod status;
pub mod volumes;

use std::time::Duration;

/// Root's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::EnumIter)]
pub enum Child {
    /// Certificates that the cluster signs for the agent.
    CertificateManager,
    /// Kubernetes Events: aggregation, recent ones for whoever asks.
    EventRecorder,
    /// The newest status of every pod.
    StatusManager,
    /// What pods refer to in the API server: ConfigMaps, Secrets, services.
    ObjectCache,
    /// The Node object: registers it, keeps its status.
    NodeStatus,
    /// The node's heartbeat.
    NodeLease,
    /// Whether the runtime can be worked with.
    RuntimeMonitor,
    /// The cgroups above the pods'.
    ResourceManager,
    /// Images: policy, back-off, queue, rate.
    ImageManager,
    /// Volumes: mounted before a pod's containers, gone after them.
    VolumeManager,
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
    /// What pods were given, on the disk.
    AllocationManager,
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

/// How one of Root's children is looked after.
#[derive(Clone, Copy, Debug)]
pub struct ChildSpec {
    /// Who.
    pub child: Child,
    /// Failures within [`FAILURE_WINDOW`] before Root gives up and the process ends.
    pub failures_max: u32,
    /// Messages that may wait.
    pub capacity: usize,
    /// How long its end may take.
    pub shutdown: Duration,
    /// Who has to tell it everything once more after a restart; it knows the rest from the runtime and the disk.
    pub learns_from: &'static [Child],
}

/// The window of [`ChildSpec::failures_max`].
pub const FAILURE_WINDOW: Duration = Duration::from_secs(60);

const fn spec(
    child: Child,
    failures_max: u32,
    capacity: usize,
    shutdown_secs: u64,
    learns_from: &'static [Child],
) -> ChildSpec {
    ChildSpec { child, failures_max, capacity, shutdown: Duration::from_secs(shutdown_secs), learns_from }
}

/// First level, in start order; shutdown runs it backwards, waiting for each. `PodManager` comes before those it learns
/// from: what they tell first must find it there.
pub const TREE: &[ChildSpec] = &[
    spec(Child::CertificateManager, 5, 64, 1, &[Child::NodeStatus]),
    spec(Child::EventRecorder, 5, 4096, 1, &[]),
    spec(
        Child::StatusManager,
        5,
        8192,
        2,
        &[Child::PodManager, Child::FileSource, Child::HttpSource, Child::ApiSource],
    ),
    spec(Child::MirrorManager, 5, 256, 2, &[Child::PodManager, Child::ApiSource]),
    spec(Child::ObjectCache, 5, 4096, 1, &[Child::PodManager]),
    spec(Child::NodeStatus, 5, 256, 2, &[Child::RuntimeMonitor]),
    spec(Child::NodeLease, 5, 64, 1, &[]),
    spec(
        Child::PodManager,
        5,
        8192,
        5,
        &[
            Child::NodeStatus,
            Child::RuntimeMonitor,
            Child::Pleg,
            Child::FileSource,
            Child::HttpSource,
            Child::ApiSource,
            Child::OfflinePods,
            Child::AllocationManager,
        ],
    ),
    spec(Child::AllocationManager, 5, 4096, 2, &[]),
    spec(Child::OfflinePods, 5, 64, 2, &[Child::PodManager]),
    spec(Child::RuntimeMonitor, 5, 64, 1, &[Child::Pleg]),
    spec(Child::ResourceManager, 5, 64, 2, &[Child::PodManager]),
    spec(Child::ImageManager, 5, 4096, 2, &[]),
    spec(Child::VolumeManager, 5, 4096, 2, &[]),
    spec(Child::Prober, 5, 4096, 1, &[Child::PodManager]),
    spec(Child::Pleg, 5, 8192, 1, &[]),
    spec(Child::ContainerGc, 5, 64, 1, &[]),
    spec(Child::ImageGc, 5, 1024, 1, &[]),
    spec(Child::LogRotator, 5, 8192, 1, &[Child::Pleg]),
    spec(Child::FileSource, 5, 64, 1, &[]),
    spec(Child::HttpSource, 5, 64, 1, &[]),
    spec(Child::ApiSource, 5, 8192, 1, &[]),
    spec(Child::StatsCollector, 5, 1024, 1, &[]),
    spec(Child::NetworkRules, 5, 64, 1, &[]),
    spec(Child::ProcessPlacement, 5, 64, 1, &[]),
    spec(Child::Server, 5, 64, 2, &[]),
];
