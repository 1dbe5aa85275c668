//! To `DevicePlugins`.

use ractor::RpcReplyPort;

use super::PluginNews;
use crate::logic::plugins::call_error::CallError;
use crate::logic::resources::device_manager::devices::DeviceGrant;
use crate::messages::describe;

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
    /// From Root: someone who learns from here was started again.
    Repeat,
}

describe!(DevicePluginsMsg);

/// Devices of one resource for one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// As `vendor.com/gpu`.
    pub resource: String,
    /// The plugin's names of them.
    pub ids: Vec<String>,
}

/// A choice that the plugin may help with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// As `vendor.com/gpu`.
    pub resource: String,
    /// Devices that may be taken.
    pub available: Vec<String>,
    /// Devices that must be among them.
    pub required: Vec<String>,
    /// How many in all.
    pub count: usize,
}
