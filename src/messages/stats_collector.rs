//! To `StatsCollector`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use super::{Ended, Lost, describe};
use crate::cri::ImageFsInfo;
use crate::logic::model::ids::FullName;
use crate::logic::statistics::sample::{RawSample, Snapshot, Wanted};
use crate::logic::statistics::summary::{ClaimReference, VolumeStats};
use crate::logic::statistics::told::ToldPods;
use crate::logic::statistics::volumes::{Answer, VolumeFigures};
use crate::logic::statistics::walks::WalkKey;
use crate::logic::volumes::volume_states::DrivenVolume;
use crate::platform::statistics::{WalkPlace, Walked};

/// A volume that is there and that is walked through, as far as its statistics go.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeThere {
    /// Which.
    pub key: WalkKey,
    /// Where, and how it is measured.
    pub place: WalkPlace,
    /// Whether nobody but the pod writes there.
    pub has_own_writers: bool,
    /// The volume, with figures that are still to be measured.
    pub volume: VolumeFigures,
}

/// A volume that is there and whose driver knows its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct DrivenThere {
    /// Which.
    pub key: WalkKey,
    /// The pod's name.
    pub pod: FullName,
    /// As the driver knows it.
    pub at: DrivenVolume,
    /// The volume, with figures that the driver is still to be asked for.
    pub volume: VolumeFigures,
}

/// The volumes that are there, by how their figures are had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumesThere {
    /// The agent looks at them.
    pub walked: Vec<VolumeThere>,
    /// Their drivers are asked.
    pub driven: Vec<DrivenThere>,
}

/// A driver's answer about a volume; `None` where it measures none. With its words about a bad condition.
pub type DriverAnswer = Option<(Answer, Option<String>)>;

/// The runtime's answer about figures of pods (gate `PodAndContainerStatsFromCRI`).
#[derive(Debug, Default)]
pub enum PodFigures {
    /// It was not asked: the gate is off, or nobody wanted them.
    #[default]
    NotAsked,
    /// It has no such call: control groups tell the figures.
    NotTold,
    /// Its figures.
    Told(ToldPods),
    /// It failed, or did not answer in time: with the error, in upstream's words.
    Failed(String),
}

/// The result of a look.
#[derive(Debug)]
pub struct Looked {
    /// The sample.
    pub sample: RawSample,
    /// The runtime's answer about its disks, if it was asked and answered.
    pub disks: Option<ImageFsInfo>,
    /// The runtime's answer about figures of pods.
    pub pods: PodFigures,
    /// The image of sandboxes, if that was asked.
    pub sandbox_image: Option<String>,
    /// The volumes that are there, if that was asked and somebody answered.
    pub volumes: Option<VolumesThere>,
}

/// The cost of statistics so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How often.
    pub count: u64,
    /// How long it took.
    pub took: Duration,
    /// Processor time of the threads that read.
    pub cpu: Duration,
}

/// Figures of statistics in `/metrics`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatsReport {
    /// Volumes that come from claims.
    pub claims: Vec<(ClaimReference, VolumeStats)>,
    /// Looks, by how much was wanted.
    pub looks: BTreeMap<&'static str, Cost>,
    /// Walks through directories.
    pub walks: Cost,
    /// Running containers whose control group is not there.
    pub groupless: usize,
}

/// Walks that were made, and those that there was no time for.
pub type WalksEnded = Result<(Vec<Walked>, Vec<(WalkKey, WalkPlace)>), Lost>;

/// Somebody waits for a snapshot.
pub type SnapshotReply = RpcReplyPort<Result<Arc<Snapshot>, String>>;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StatsCollectorMsg {
    /// From the server, and from whoever decides by statistics: a snapshot that shows this much and is no older.
    Get {
        /// How much.
        wanted: Wanted,
        /// How old it may be; zero for one that was begun after this was asked.
        age_max: Duration,
        /// The asker.
        reply: SnapshotReply,
    },
    /// From the server: what `/metrics` shows. Claims' volumes are measured, if it is time, for the next one who asks.
    Report(RpcReplyPort<StatsReport>),
    /// From itself: the newest snapshot may be too old by now to serve anybody.
    ForgetDue,
    /// From itself: a look ended.
    Looked(Ended<Box<Looked>>),
    /// From itself: the volumes that are there.
    VolumesListed(Result<Option<VolumesThere>, Lost>),
    /// From itself: the driver of this volume answered, or did not.
    Answered(WalkKey, Ended<DriverAnswer>),
    /// From itself: walks ended; with those that there was no time for.
    Walked(WalksEnded),
    /// From itself: a part of the walks that nobody waits for ended.
    WalkedBeside(WalksEnded),
}

describe!(StatsCollectorMsg);
