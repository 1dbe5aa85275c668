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

use crate::messages::root::Child;

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
