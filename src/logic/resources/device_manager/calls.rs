//! Calls of a plugin that decisions ask for: plain data that `DevicePlugins` carries out.

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

/// One resource of one container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The container's name.
    pub container: String,
    /// As `vendor.com/gpu`.
    pub resource: String,
}
