//! Reads the figures of the node: control groups of either generation, `/proc`, file systems, directories.
//!
//! The trait and its Linux form. It keeps open the roots of the hierarchies and nothing of what it read but how many files
//! processes had open; each look reads anew, and only what is wanted. A figure that cannot be read is absent from the
//! answer.

mod alarm;
mod disks;
mod files;
mod fixed;
mod groups;
mod host;
mod layers;
mod linux;
mod open_files;
mod processes;
mod tools;
mod v1;
mod v2;
mod walk;

use std::time::Duration;

use async_trait::async_trait;

pub use alarm::AlarmError;
pub use fixed::FixedStatistics;
pub use linux::{LinuxStatistics, Places};

use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::model::ids::ContainerId;
use crate::logic::statistics::figures::Usage;
use crate::logic::statistics::sample::{PodSample, RawSample, RuntimeDisk, Wanted};
use crate::logic::statistics::volumes::{Measure, Space};
use crate::logic::statistics::walks::WalkKey;

/// A file system that the runtime told of.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeDiskAt {
    /// A path on it.
    pub path: String,
    /// The runtime's word on it.
    pub told: RuntimeDisk,
}

/// The subjects of a look.
#[derive(Clone, Debug)]
pub struct LookOrder {
    /// How much.
    pub wanted: Wanted,
    /// The pods, with nothing read of them yet.
    pub pods: Vec<PodSample>,
    /// Where images are.
    pub images: Option<RuntimeDiskAt>,
    /// Where writable layers are, if that is elsewhere.
    pub containers: Option<RuntimeDiskAt>,
}

/// The directory to walk through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkPlace {
    /// The writable layer of a container.
    Layer(ContainerId),
    /// A volume at this path.
    Volume(String, Measure),
}

/// The end of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkOutcome {
    /// A writable layer.
    Layer(Usage),
    /// A volume.
    Volume(Space),
    /// There is nothing that could be walked through: the runtime keeps the layer in a way of its own.
    NotHere,
    /// It took longer than the time that was given.
    Unfinished,
    /// Something could not be read.
    Failed(String),
}

/// A walk that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Which.
    pub key: WalkKey,
    /// How long it took.
    pub took: Duration,
    /// Processor time that it took.
    pub cpu: Duration,
    /// Its end.
    pub outcome: WalkOutcome,
}

/// How long walks may take, and how they go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// Somebody waits for them.
    AtOnce(Duration),
    /// Nobody does: they leave the processor to others between small parts.
    Beside(Duration),
}

impl Haste {
    /// How long they may take.
    pub fn limit(self) -> Duration {
        match self {
            Self::AtOnce(limit) | Self::Beside(limit) => limit,
        }
    }
}

/// Why there are no figures at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// The kernel's folder of processes is not mounted.
    #[error("/proc is not there")]
    NoProc,
    /// The node's own group cannot be read.
    #[error("read the node's control group: it is not there")]
    NoRootGroup,
    /// The kernel does not answer, or an earlier look has not ended.
    #[error("read the figures of the node: no answer within {}s", .0.as_secs())]
    Silent(Duration),
}

/// See the module.
#[async_trait]
pub trait Statistics: Send + Sync {
    /// Looks once at everything that is wanted.
    ///
    /// # Errors
    /// When not even the node's own group can be read in time.
    async fn look(&self, order: LookOrder) -> Result<RawSample, SampleError>;

    /// Waits until one of these groups may have reached its level: its use has, or tasks wait for memory, or the group is at
    /// its limit. How much is left then only a look can tell.
    ///
    /// # Errors
    /// When the kernel can tell of none of them.
    async fn memory_runs_short(&self, watched: Vec<WatchedGroup>) -> Result<(), AlarmError>;

    /// Walks through these one after the other, until the limit is over; those that were not begun are not in the answer.
    async fn walk(&self, places: Vec<(WalkKey, WalkPlace)>, haste: Haste) -> Vec<Walked>;
}
