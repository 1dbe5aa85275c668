//! To `NodeStatus`.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use ractor::RpcReplyPort;

use super::{Panicked, describe};
use crate::cri::CriResult;
use crate::logic::model::runtime_health::RuntimeHealth;
use crate::logic::node::node_startup::StartupDurations;
use crate::logic::node::node_status::{
    AddressFacts, DeviceResources, HostFacts, Pressure, RuntimeAnswers, RuntimeFact,
};
use crate::platform::cluster::kube_api::ApiError;

/// Something that the Node's status shows and that another actor knows. Each is told whole, whenever it changes.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeNews {
    /// Whether the runtime can be used; from `RuntimeMonitor`.
    Health(RuntimeHealth),
    /// What the runtime can do; from `RuntimeMonitor`.
    Runtime(RuntimeFact),
    /// Which resources run short; from the eviction manager.
    Pressure(Pressure),
    /// What device plugins offer, and whether their checkpoint was lost; from the resource manager.
    Devices {
        /// What they offer.
        offered: DeviceResources,
        /// There was no checkpoint when the agent started: what an earlier Node says of devices does not hold.
        lost: bool,
    },
    /// Attachable volumes in use, sorted; from the volume manager, once it knows.
    VolumesInUse(Vec<String>),
    /// Why volumes cannot be used yet; from whoever registers storage drivers.
    StorageProblem(Option<String>),
    /// Set while the machine is being shut down; from the shutdown manager. Reported at once.
    ShutdownProblem(Option<String>),
    /// What the host cannot enforce; from the resource manager.
    Unenforced(Option<String>),
}

/// What was found out for one status.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// From the host.
    pub host: HostFacts,
    /// From the runtime; `None` when it was not asked this time, or did not answer in time.
    pub runtime: Option<RuntimeAnswers>,
}

/// How a call of the API server for the Node ended.
pub type NodeAnswer = Result<Result<Box<Node>, ApiError>, Panicked>;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum NodeStatusMsg {
    /// From itself: the wait before a try to register is over.
    RegisterDue,
    /// From itself: time to bring the status up to date.
    UpdateDue,
    /// From itself: the node is not ready yet, so have the runtime looked at before its time.
    LookDue,
    /// From `PodManager` and itself: pods use the host's addresses, and no Node says them: look what they are.
    HostDue,
    /// From itself: the host's addresses.
    HostRead(Result<AddressFacts, Panicked>),
    /// From itself: what the node's resolver configuration says as the agent starts.
    ResolvConfRead(Result<Result<String, String>, Panicked>),
    /// From itself: what host and runtime said.
    Gathered(Result<Box<Gathered>, Panicked>),
    /// From itself: the Node was to be created.
    Created(NodeAnswer),
    /// From itself: the Node was to be read.
    Fetched(NodeAnswer),
    /// From itself: the Node was to be changed.
    Patched(NodeAnswer),
    /// From itself: the API server's newest Node.
    Watched {
        /// `None` when there is none any more.
        node: Option<Box<Node>>,
        /// It was listed, not told by a watch: so it is, whatever was known of it.
        is_listed: bool,
    },
    /// From itself: the watch of the Node ended, which it does by a panic alone.
    WatchEnded(Result<Infallible, Panicked>),
    /// From itself: time to watch again.
    WatchDue,
    /// From itself: the runtime was told these pod CIDRs.
    CidrsTold(String, Result<CriResult<()>, Panicked>),
    /// From `RuntimeMonitor` and others that know a part of the status: it changed.
    News(NodeNews),
    /// From Root: someone who learns from here was started again.
    Repeat,
    /// From the server: how long the node took to become ready.
    Startup(RpcReplyPort<StartupDurations>),
    /// From the server and from operations: the newest Node; the one to register with as long as there is no other.
    Node(RpcReplyPort<Option<Arc<Node>>>),
}

describe!(NodeStatusMsg);
