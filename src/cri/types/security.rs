//! Namespaces, identities and confinement of sandboxes and containers.

/// Security context of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinuxSandboxSecurityContext {
    /// Which namespaces are whose.
    pub namespace_options: NamespaceOptions,
    /// SELinux label.
    pub selinux_options: Option<SeLinuxOption>,
    /// UID of the sandbox' process.
    pub run_as_user: Option<i64>,
    /// GID of the sandbox' process.
    pub run_as_group: Option<i64>,
    /// Root file system read-only.
    pub readonly_rootfs: bool,
    /// Further GIDs.
    pub supplemental_groups: Vec<i64>,
    /// How further GIDs and the image's mix.
    pub supplemental_groups_policy: SupplementalGroupsPolicy,
    /// Some container is privileged.
    pub privileged: bool,
    /// Seccomp profile.
    pub seccomp: Option<SecurityProfile>,
    /// AppArmor profile.
    pub apparmor: Option<SecurityProfile>,
}

/// Which namespaces a sandbox or container has.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NamespaceOptions {
    /// Network.
    pub network: NamespaceMode,
    /// Processes.
    pub pid: NamespaceMode,
    /// IPC.
    pub ipc: NamespaceMode,
    /// Container whose PID namespace is joined, with [`NamespaceMode::Target`].
    pub target_id: String,
    /// User namespace; `None` leaves the runtime's default.
    pub userns: Option<UserNamespace>,
}

/// The owner of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NamespaceMode {
    /// The pod's.
    #[default]
    Pod,
    /// The container's own.
    Container,
    /// The node's.
    Node,
    /// Another container's.
    Target,
}

/// A user namespace and its mappings.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UserNamespace {
    /// The pod's or the node's.
    pub mode: NamespaceMode,
    /// UIDs.
    pub uids: Vec<IdMapping>,
    /// GIDs.
    pub gids: Vec<IdMapping>,
}

/// A range of IDs inside and outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IdMapping {
    /// First on the host.
    pub host_id: u32,
    /// First in the container.
    pub container_id: u32,
    /// How many.
    pub length: u32,
}

/// How supplemental groups and the image's groups mix (KEP-3619).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SupplementalGroupsPolicy {
    /// Both.
    #[default]
    Merge,
    /// Only the pod's.
    Strict,
}

/// A seccomp or AppArmor profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityProfile {
    /// The runtime's own.
    RuntimeDefault,
    /// None.
    Unconfined,
    /// A file or name of the host.
    Localhost(String),
}

/// An SELinux label.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SeLinuxOption {
    /// User.
    pub user: String,
    /// Role.
    pub role: String,
    /// Type.
    pub kind: String,
    /// Level.
    pub level: String,
}

/// Security context of a container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinuxContainerSecurityContext {
    /// Capabilities to add.
    pub add_capabilities: Vec<String>,
    /// Capabilities to drop.
    pub drop_capabilities: Vec<String>,
    /// Ambient capabilities to add.
    pub add_ambient_capabilities: Vec<String>,
    /// All rights of the host.
    pub privileged: bool,
    /// Which namespaces are whose.
    pub namespace_options: NamespaceOptions,
    /// SELinux label.
    pub selinux_options: Option<SeLinuxOption>,
    /// UID.
    pub run_as_user: Option<i64>,
    /// GID.
    pub run_as_group: Option<i64>,
    /// User's name, where the UID is not known.
    pub run_as_username: String,
    /// Root file system read-only.
    pub readonly_rootfs: bool,
    /// Further GIDs.
    pub supplemental_groups: Vec<i64>,
    /// How further GIDs and the image's mix.
    pub supplemental_groups_policy: SupplementalGroupsPolicy,
    /// No new rights by exec.
    pub no_new_privs: bool,
    /// Hidden paths.
    pub masked_paths: Vec<String>,
    /// Read-only paths.
    pub readonly_paths: Vec<String>,
    /// Seccomp profile.
    pub seccomp: Option<SecurityProfile>,
    /// AppArmor profile.
    pub apparmor: Option<SecurityProfile>,
}

/// The user of a container's first process.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinuxContainerUser {
    /// UID.
    pub uid: i64,
    /// GID.
    pub gid: i64,
    /// Further GIDs.
    pub supplemental_groups: Vec<i64>,
}
