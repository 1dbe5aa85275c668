//! To `EvictionManager`.

use super::{Ended, Lost, describe};
use ractor::RpcReplyPort;

use crate::cri::ImageFsInfo;
use crate::logic::eviction::EvictionSettings;
use crate::logic::eviction::layout::Devices;
use crate::logic::eviction::oom_kill::SystemOomKill;
use crate::logic::eviction::ranking::Candidate;
use crate::logic::eviction::record::EvictionRecord;
use crate::logic::eviction::signal::{MemoryUse, Observations};
use crate::logic::model::ids::PodUid;
use crate::platform::host::kernel_log::KernelLogError;
use crate::platform::statistics::AlarmError;

/// The findings of a look at the node.
#[derive(Debug)]
pub struct NodeLook {
    /// How much is left of everything.
    pub observations: Observations,
    /// The memory that groups with a signal of their own use.
    pub memory: Vec<MemoryUse>,
    /// The file systems.
    pub devices: Devices,
    /// The runtime's answer about its disks, if it was asked.
    pub disks: Option<ImageFsInfo>,
    /// Paths whose file systems do not answer.
    pub silent: Vec<String>,
    /// Pods with limits of local storage, and what they use; empty when no pod has one.
    pub limited: Vec<Candidate>,
}

/// A wait that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum EvictionWait {
    /// Before a look.
    LookDue,
    /// `PodManager` may have room by now for evictions that it refused.
    OrderAgain,
    /// Before the kernel's log is opened again.
    KernelLogDue,
}

/// News of the kernel's log.
#[derive(Debug, strum::IntoStaticStr)]
pub enum KernelNews {
    /// The machine ran out of memory, and the kernel killed a process.
    OomKilled(SystemOomKill),
    /// The log cannot be read any more.
    LogEnded(Result<KernelLogError, Lost>),
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum EvictionManagerMsg {
    /// From `Root`: somebody who has to know the pressure was restarted.
    Repeat,
    /// From the local socket: why pods of this namespace and name were evicted within the last hour.
    Why {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// Takes the decisions, the oldest first.
        reply: RpcReplyPort<Vec<EvictionRecord>>,
    },
    /// From itself: a wait is over.
    #[strum(transparent)]
    Due(EvictionWait),
    /// From Root: the configuration was read again.
    SettingsChanged(Box<EvictionSettings>),
    /// From itself: the kernel says that memory may run short, or cannot say so.
    MemoryRanShort(Ended<(), AlarmError>),
    /// From itself: a look ended.
    Looked(Ended<Box<NodeLook>>),
    /// From itself: what the node could give up is gone; what is left after that.
    Reclaimed(Ended<Box<NodeLook>>),
    /// From itself: the pods that may be evicted, and what they use.
    Measured(Ended<Vec<Candidate>>),
    /// From its own operation: news of the kernel's log.
    #[strum(transparent)]
    Kernel(KernelNews),
    /// From `PodManager`: a pod that the node itself ends has ended, and its volumes and cgroup are gone.
    PodOver(PodUid),
}

describe!(EvictionManagerMsg, message => match message {
    EvictionManagerMsg::PodOver(uid) => Some(uid),
    _ => None,
});
