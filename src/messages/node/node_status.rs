//! To `NodeStatus`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use ractor::RpcReplyPort;

use crate::cri::CriError;
use crate::logic::network::node_addresses::AddressFacts;
use crate::logic::node::node_startup::StartupDurations;
pub use crate::logic::node::node_status::NodeNews;
use crate::logic::node::node_status::{HostFacts, RuntimeAnswers};
use crate::messages::{Ended, Lost, describe};
use crate::platform::cluster::kube_api::ApiError;

/// The facts for one status.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// From the host.
    pub host: HostFacts,
    /// From the runtime; `None` when it was not asked this time, or did not answer in time.
    pub runtime: Option<RuntimeAnswers>,
}

/// A wait that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum NodeWait {
    /// Before a try to register.
    RegisterDue,
    /// Before the status is brought up to date.
    UpdateDue,
    /// The node is not ready yet: the runtime is looked at before its time.
    LookDue,
    /// Before the Node is watched again.
    WatchDue,
    /// Before the machine's size is looked at where no status is made.
    SizeDue,
}

/// News of the host or the runtime.
#[derive(Debug, strum::IntoStaticStr)]
pub enum NodeFinding {
    /// The host's addresses.
    HostRead(Result<AddressFacts, Lost>),
    /// The resolver configuration of the node as the agent starts.
    ResolvConfRead(Ended<String>),
    /// The facts of host and runtime for one status.
    Gathered(Result<Box<Gathered>, Lost>),
    /// The host, for the machine's size.
    SizeRead(Result<Box<HostFacts>, Lost>),
    /// The runtime got these pod CIDRs.
    CidrsTold(String, Ended<(), CriError>),
}

/// How a call of the API server for the Node ended.
pub type NodeAnswer = Ended<Box<Node>, ApiError>;

/// A call of the API server for the Node that ended.
#[derive(Debug, strum::IntoStaticStr)]
pub enum NodeAnswered {
    /// The Node was to be created.
    Created(NodeAnswer),
    /// The Node was to be read.
    Fetched(NodeAnswer),
    /// The Node was to be changed.
    Patched(NodeAnswer),
}

/// News of the Node.
#[derive(Debug, strum::IntoStaticStr)]
pub enum NodeWatch {
    /// The API server's newest Node.
    Watched {
        /// `None` when there is none any more.
        node: Option<Box<Node>>,
        /// It was listed, not told by a watch: so it is, whatever was known of it.
        is_listed: bool,
    },
    /// The watch of the Node ended, which it does by a panic alone.
    WatchEnded(Result<Infallible, Lost>),
}

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum NodeStatusMsg {
    /// From itself: a wait is over.
    #[strum(transparent)]
    Due(NodeWait),
    /// From `PodManager` and itself: pods use the host's addresses, and no Node says them: look what they are.
    HostDue,
    /// From itself: what host and runtime said.
    #[strum(transparent)]
    Found(NodeFinding),
    /// From itself: a call for the Node ended.
    #[strum(transparent)]
    Answered(NodeAnswered),
    /// From itself: what came of following the Node.
    #[strum(transparent)]
    Watch(NodeWatch),
    /// From Root: the configuration was read again.
    PeriodsChanged {
        /// `nodeStatusUpdateFrequency`.
        update: Duration,
        /// `nodeStatusReportFrequency`.
        report: Duration,
    },
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
