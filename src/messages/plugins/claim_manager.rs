//! To `ClaimManager`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use ractor::RpcReplyPort;

use super::PluginNews;
use crate::logic::model::ids::PodUid;
use crate::logic::plugins::claims::book::ClaimBook;
use crate::logic::plugins::claims::check::{ClaimCall, ClaimError};
use crate::logic::plugins::claims::health::DeviceHealth;
use crate::logic::plugins::claims::states::{Answer, Progress};
use crate::logic::plugins::plugin::Plugin;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::{Ended, Subscriber, describe};

/// Takes the end of a preparation, or of a release.
pub type ClaimReply = RpcReplyPort<Result<(), ClaimError>>;

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ClaimManagerMsg {
    /// From `PluginWatcher`: a driver came or is gone.
    Plugin(PluginNews),
    /// From a `PodWorker`: the pod's claims are to be prepared, before its sandbox is made.
    Prepare(Arc<Pod>, ClaimReply),
    /// From a `PodWorker`: the pod's containers have ended, so what it alone uses is to be released.
    Release(PodUid, ClaimReply),
    /// From a `PodWorker` whose question is not answered yet: what keeps it? `None` where nothing does.
    Progress(PodUid, RpcReplyPort<Option<Progress>>),
    /// From a `PodWorker`: the runtime's names for the devices of one container.
    Devices(Arc<Pod>, String, RpcReplyPort<Result<Vec<String>, ClaimError>>),
    /// From a `PodWorker`: the pod is as it is now; the subscriber hears of the health of its devices. Nothing for a pod
    /// that ended.
    Follow(PodUid, Option<(Arc<Pod>, Subscriber<PodWorkerMsg>)>),
    /// From the server and the metrics: all claims; nothing until the file was read.
    Claims(RpcReplyPort<Option<Arc<ClaimBook>>>),
    /// From itself: work on claims goes on.
    #[strum(transparent)]
    Claim(ClaimStep),
    /// From itself: something about drivers.
    #[strum(transparent)]
    Driver(DriverStep),
}

/// How work on claims goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ClaimStep {
    /// The files were read, or could not be.
    FilesRead(Ended<ClaimFiles>),
    /// The claims of a pod were read from the API server.
    ClaimsRead {
        /// Which pod.
        pod: PodUid,
        /// The work.
        attempt: u64,
        /// The claims, in the order in which they were asked for.
        outcome: Ended<Vec<ResourceClaim>, ClaimError>,
    },
    /// The book was written, or could not be.
    BookWritten(Ended<()>),
    /// A driver was called.
    CallEnded {
        /// For which pod.
        pod: PodUid,
        /// The work.
        attempt: u64,
        /// The driver.
        driver: String,
        /// Its answer.
        outcome: Ended<Answer, ClaimError>,
    },
    /// Time to read or write files again that could not be.
    FilesDue,
    /// Time to look for claims of pods that are no more.
    ReconcileDue,
    /// The pods that there are; nothing before all sources were heard.
    PodsKnown(Ended<Option<BTreeSet<PodUid>>>),
}

/// The content of the files.
#[derive(Debug)]
pub struct ClaimFiles {
    /// `dra_manager_state`.
    pub claims: Option<Vec<u8>>,
    /// `dra_health_state`.
    pub health: Option<Vec<u8>>,
}

/// Something about drivers.
#[derive(Debug, strum::IntoStaticStr)]
pub enum DriverStep {
    /// A connection to a driver stands by now, or has ended.
    Connected(Arc<Plugin>, bool),
    /// A driver told how devices are; nothing once its stream has ended.
    Health(Arc<Plugin>, Option<Vec<DeviceHealth>>),
    /// The watch over a driver has ended, which only its own failure does.
    WatchEnded(Arc<Plugin>, Ended<()>),
    /// A driver has been away for too long, or a word of health has become too old.
    Due,
    /// `PluginWatcher`, which had no room for verdicts, gets them again.
    RetellDue,
    /// ResourceSlices were deleted: those of a driver, or all.
    Wiped(Option<String>, Ended<()>),
    /// `dra_health_state` was written, or could not be.
    HealthWritten(Ended<()>),
}

/// The name of the work, as upstream's metrics have it.
pub fn operation(call: ClaimCall) -> &'static str {
    match call {
        ClaimCall::Prepare => "PrepareResources",
        ClaimCall::Unprepare => "UnprepareResources",
    }
}

describe!(ClaimManagerMsg, message => match message {
    ClaimManagerMsg::Release(uid, _)
    | ClaimManagerMsg::Progress(uid, _)
    | ClaimManagerMsg::Follow(uid, _)
    | ClaimManagerMsg::Claim(ClaimStep::ClaimsRead { pod: uid, .. } | ClaimStep::CallEnded { pod: uid, .. }) => Some(uid),
    _ => None,
});
