//! To `CsiManager`.

use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use super::PluginNews;
use crate::logic::plugins::csi_registration::CsiNodeInfo;
use crate::logic::plugins::plugin::Plugin;
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::messages::{Ended, describe};

/// Why the cluster could not learn of a driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The node is not registered yet.
    #[error("the node is not registered yet")]
    NoNode,
    /// It is tried again.
    #[error("{0}")]
    Transient(String),
    /// The driver's answer cannot be taken: trying again changes nothing.
    #[error("{0}")]
    Refused(String),
}

/// Where a driver serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEndpoint {
    /// At this path.
    At(String),
    /// Nowhere: its registration failed, for this reason.
    Failed(String),
    /// Nowhere: no driver of the name came.
    Unknown,
}

/// How a driver's registration goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum DriverStep {
    /// The driver said what this node is to it.
    InfoRead {
        /// Which.
        plugin: Arc<Plugin>,
        /// Its words, or why there are none.
        outcome: Ended<CsiNodeInfo>,
    },
    /// The cluster learned of the driver, or could not.
    Published(Ended<(), PublishError>),
    /// Time to tell the cluster again.
    PublishDue,
    /// Those who had no room for news of drivers get them again.
    RetellDue,
    /// The limit of a driver was read, or how often it is to be read.
    LimitRead(String, Ended<LimitNews>),
    /// Time to read a driver's limit again.
    LimitDue(String),
}

/// The limit of a driver's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitNews {
    /// The driver's answer, if it was asked and gave one: how many of its volumes may be attached here.
    pub volumes_max: Option<i64>,
    /// How often the CSIDriver object wants it to be asked; an error where the object cannot be read.
    pub period: Result<Option<Duration>, String>,
}

/// How the unstaging of a volume ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstaging {
    /// It is staged no longer.
    Gone,
    /// A pod has it by now.
    InUse,
}

/// How the search for staged volumes that nobody uses goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum StagedStep {
    /// Those that were found.
    UnusedFound(Ended<Vec<(DevicePlace, VolumeData)>>),
    /// One was unstaged, or could not be.
    Unstaged {
        /// Which.
        device: DevicePlace,
        /// How.
        outcome: Ended<Unstaging>,
    },
    /// Time to look again.
    LookDue,
}

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum CsiManagerMsg {
    /// From `PluginWatcher`: a driver came or is gone.
    Plugin(PluginNews),
    /// From itself: a registration goes on.
    #[strum(transparent)]
    Driver(DriverStep),
    /// From itself: the search for staged volumes goes on.
    #[strum(transparent)]
    Staged(StagedStep),
    /// From `VolumeManager`: a pod may have used a staged volume last.
    MayBeUnused,
    /// From operations of `VolumeManager` and `StatsCollector`: where the driver of this name serves.
    Endpoint(String, RpcReplyPort<DriverEndpoint>),
    /// From operations of `VolumeManager`: the cluster could not attach a volume of this driver for lack of room. Lost, it
    /// comes again. From itself: so it was, while the limit was being read.
    LimitReached(String),
    /// From `NodeStatus`: the API server has the Node. Lost, it costs time: it is asked for after a while.
    NodeRegistered,
    /// From Root: someone who learns from here was started again.
    Repeat,
}

describe!(CsiManagerMsg);
