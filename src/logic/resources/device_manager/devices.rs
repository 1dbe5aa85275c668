//! Devices as their plugins tell of them, and the answer of a plugin to `Allocate`.

use std::collections::{BTreeMap, BTreeSet};

/// The devices that plugins tell of, by resource (`vendor.com/gpu`).
pub type Inventory = BTreeMap<String, ResourceDevices>;

/// Whether a device may be given `now` that could not be given `before`.
pub fn gained(before: &Inventory, now: &Inventory) -> bool {
    let is_healthy = |all: &Inventory, resource: &str, id: &str| {
        all.get(resource).and_then(|of| of.devices.get(id)).is_some_and(|device| device.health == Health::Healthy)
    };
    let all = now.iter().flat_map(|(resource, of)| of.devices.keys().map(move |id| (resource, id)));
    let mut all = all.filter(|(resource, id)| is_healthy(now, resource, id));
    all.any(|(resource, id)| !is_healthy(before, resource, id))
}

/// The devices of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDevices {
    /// By the plugin's name of the device. After the end of a session: the last ones that it listed, all unhealthy.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(resource: &str, devices: &[(&str, Health)]) -> Inventory {
        let device =
            |(id, health): &(&str, Health)| ((*id).to_owned(), Device { health: *health, nodes: BTreeSet::new() });
        let devices = devices.iter().map(device).collect();
        let of = ResourceDevices { devices, options: PluginOptions::default(), session: Session::Live };
        [(resource.to_owned(), of)].into()
    }

    #[test]
    fn only_devices_that_may_be_given_newly_are_a_gain() {
        let none = Inventory::new();
        let well = inventory("v.com/a", &[("1", Health::Healthy)]);
        let ill = inventory("v.com/a", &[("1", Health::Unhealthy)]);
        let more = inventory("v.com/a", &[("1", Health::Healthy), ("2", Health::Healthy)]);
        let other = inventory("v.com/b", &[("1", Health::Healthy)]);
        for (before, now, expected) in [
            (&none, &none, false),
            (&none, &ill, false),
            (&none, &well, true),
            (&well, &well, false),
            (&well, &ill, false),
            (&ill, &well, true),
            (&well, &more, true),
            (&more, &well, false),
            (&well, &other, true),
        ] {
            assert_eq!(gained(before, now), expected, "{before:?} {now:?}");
        }
    }
}
