//! The runtime itself: its version, its state, what it can do.

/// Answer of `Version`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeVersion {
    /// Such as `containerd`; the prefix of container IDs in the API.
    pub runtime_name: String,
    /// The runtime's own version.
    pub runtime_version: String,
    /// The API's version, such as `v1`.
    pub runtime_api_version: String,
}

/// Answer of `Status`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeStatus {
    /// `RuntimeReady`, `NetworkReady`, and what else the runtime tells.
    pub conditions: Vec<RuntimeCondition>,
    /// Handlers, by name.
    pub handlers: Vec<RuntimeHandler>,
    /// The abilities of the runtime as a whole.
    pub features: RuntimeFeatures,
}

impl RuntimeStatus {
    /// The condition of this type, if told.
    pub fn condition(&self, kind: &str) -> Option<&RuntimeCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// One condition of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeCondition {
    /// Such as `RuntimeReady`.
    pub kind: String,
    /// Whether it holds.
    pub status: bool,
    /// One word why it does not.
    pub reason: String,
    /// A sentence why it does not.
    pub message: String,
}

/// A runtime handler (RuntimeClass) and what it can do.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeHandler {
    /// Empty for the default one.
    pub name: String,
    /// Read-only mounts that hold for the mounts below, too.
    pub recursive_read_only_mounts: bool,
    /// User namespaces.
    pub user_namespaces: bool,
}

/// The abilities of the runtime under any handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuntimeFeatures {
    /// `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
    /// User namespaces for pods on the host's network.
    pub user_namespaces_host_network: bool,
}

/// The creator of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// systemd, asked over D-Bus.
    Systemd,
    /// The file system, written directly.
    Cgroupfs,
}
