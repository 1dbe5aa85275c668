//! Devices as their plugins tell of them, and the answer of a plugin to `Allocate`.

use std::collections::{BTreeMap, BTreeSet};

/// The devices that plugins tell of, by resource (`vendor.com/gpu`).
pub type Inventory = BTreeMap<String, ResourceDevices>;

/// The devices of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDevices {
    /// By the plugin's name of the device. After the end of a session: the last that were told, all unhealthy.
    pub devices: BTreeMap<String, Device>,
    /// Calls that the plugin wants.
    pub options: PluginOptions,
    /// Whether the plugin can be called.
    pub session: Session,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// In the plugin's words.
    pub health: Health,
    /// NUMA nodes near it; empty when the plugin does not say.
    pub nodes: BTreeSet<u32>,
}

/// The health of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum Health {
    /// It may be given.
    Healthy,
    /// It may not.
    Unhealthy,
}

/// Calls that a plugin wants (`DevicePluginOptions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginOptions {
    /// `PreStartContainer` before each start of a container.
    pub pre_start: bool,
    /// `GetPreferredAllocation` before a choice.
    pub preferred: bool,
}

/// How it is with the plugin of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// It sends its devices, and can be called.
    Live,
    /// It is gone. Its resource stays listed with the capacity that it had, for five minutes.
    Stopped,
    /// It is gone for longer: capacity and allocatable are 0.
    Forgotten,
}

/// Things that a plugin gives a container along with its devices (`ContainerAllocateResponse`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceGrant {
    /// Variables of the environment.
    pub envs: BTreeMap<String, String>,
    /// Files of the host that are mounted.
    pub mounts: Vec<DeviceMount>,
    /// Device nodes.
    pub devices: Vec<DeviceNode>,
    /// Annotations of the container in the runtime.
    pub annotations: BTreeMap<String, String>,
    /// Names of CDI devices, in the plugin's order.
    pub cdi_devices: Vec<String>,
}

/// A mount that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMount {
    /// In the container.
    pub container_path: String,
    /// On the host.
    pub host_path: String,
    /// The container may not write.
    pub read_only: bool,
}

/// A device node that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// In the container.
    pub container_path: String,
    /// On the host.
    pub host_path: String,
    /// Of `r`, `w` and `m`.
    pub permissions: String,
}
