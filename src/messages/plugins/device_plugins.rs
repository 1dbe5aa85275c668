//! To `DevicePlugins`.

use std::collections::{BTreeMap, BTreeSet};

use ractor::RpcReplyPort;

use super::PluginNews;
use crate::logic::plugins::call_error::CallError;
use crate::logic::plugins::device_registration::{RegisterRefusal, Registration};
use crate::logic::plugins::device_sessions::DevicePluginView;
pub use crate::logic::resources::device_manager::calls::{DeviceUse, Preference};
use crate::logic::resources::device_manager::devices::{Device, DeviceGrant, PluginOptions};
use crate::messages::{Ended, Lost, describe};

/// Why a plugin did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceCallError {
    /// No plugin of this resource is registered, or its session has ended.
    #[error("endpoint {0} has been stopped")]
    Stopped(String),
    /// The call failed.
    #[error("{0}")]
    Call(CallError),
}

/// How the socket of registrations goes on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum SocketStep {
    /// It serves no more, and why.
    Closed(Result<String, Lost>),
    /// Time to open it again.
    OpenDue,
}

/// How the sessions with plugins go on.
#[derive(Debug, strum::IntoStaticStr)]
pub enum SessionStep {
    /// A plugin was asked which calls it wants.
    Connected {
        /// The session.
        session: u64,
        /// Its answer, or why there is none.
        outcome: Ended<PluginOptions, RegisterRefusal>,
    },
    /// A plugin told its devices: `None` when it tells no more.
    Listed {
        /// The session.
        session: u64,
        /// By name.
        outcome: Ended<Option<BTreeMap<String, Device>>, CallError>,
    },
    /// A call was made, and who asked for it has the answer.
    Called {
        /// The plugin's resource.
        resource: String,
        /// How it failed.
        outcome: Ended<(), CallError>,
    },
    /// `PluginWatcher`, which had no room for verdicts, gets them again.
    RetellDue,
    /// A wait is over.
    Due,
}

/// See the module. In the trace, a part of a group has its own name.
#[derive(Debug, strum::IntoStaticStr)]
pub enum DevicePluginsMsg {
    /// From `PluginWatcher`: a plugin came or is gone.
    Plugin(PluginNews),
    /// From `AllocationManager`: which devices are to be taken? (`GetPreferredAllocation`)
    Prefer(Preference, RpcReplyPort<Result<Vec<String>, DeviceCallError>>),
    /// From `AllocationManager`: these devices go to one container. (`Allocate`)
    Allocate(DeviceUse, RpcReplyPort<Result<DeviceGrant, DeviceCallError>>),
    /// From a `PodWorker`: a container with these devices is about to start. Nothing is called where the plugin does not want
    /// it. (`PreStartContainer`)
    PreStart(DeviceUse, RpcReplyPort<Result<(), DeviceCallError>>),
    /// From the server: a plugin registers by the agent's socket.
    Register(Registration, RpcReplyPort<Result<(), RegisterRefusal>>),
    /// From `AllocationManager`: the resources that an earlier run of the agent knew. The answer is the inventory.
    Remembered(BTreeSet<String>),
    /// From itself: the socket of registrations goes on.
    #[strum(transparent)]
    Socket(SocketStep),
    /// From itself: the sessions with plugins go on.
    #[strum(transparent)]
    Session(SessionStep),
    /// From the server: all plugins.
    List(RpcReplyPort<Vec<DevicePluginView>>),
    /// From Root: someone who learns from here was started again.
    Repeat,
}

describe!(DevicePluginsMsg);
