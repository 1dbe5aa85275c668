//! To `ShutdownManager`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::ids::PodUid;
use crate::logic::node::shutdown::times::ShutdownTimes;
use crate::messages::{Ended, Lost, describe};
use crate::platform::host::logind::LogindError;

/// How the watch over logind goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum LogindStep {
    /// logind says that the machine is about to go down, or is not any more.
    Prepare(bool),
    /// The watch has ended, and why.
    WatchEnded(Result<LogindError, Lost>),
    /// Time to watch again.
    WatchDue,
    /// A later shutdown is delayed from now on, or cannot be.
    Delayed(Ended<(), LogindError>),
}

/// How the file of the last shutdown goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum TimesStep {
    /// It was read, or could not be.
    Read(Ended<Option<ShutdownTimes>>),
    /// It was written, or could not be.
    Written(Ended<()>),
}

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ShutdownManagerMsg {
    /// From itself: the watch over logind goes on.
    #[strum(transparent)]
    Logind(LogindStep),
    /// From itself: the pods of the node that have not ended.
    PodsListed(Ended<Vec<Arc<Pod>>>),
    /// From itself: `PodManager` may answer by now.
    ListDue,
    /// From itself: `PodManager` may have room by now for orders that it refused.
    OrderAgain,
    /// From itself: the time of the group of this number is over.
    PeriodOver(u64),
    /// From itself: the file of the last shutdown goes on.
    #[strum(transparent)]
    Times(TimesStep),
    /// From `PodManager`: a pod has ended, and its volumes and cgroup are gone.
    PodOver(PodUid),
    /// From Root: someone who learns from here was started again.
    Repeat,
}

describe!(ShutdownManagerMsg, message => match message {
    ShutdownManagerMsg::PodOver(uid) => Some(uid),
    _ => None,
});
