//! What the agent and the runtime tell each other, in our own plain types.
//!
//! One type for each message of CRI v1 that a Linux node uses; names are the protocol's. Windows' messages have no
//! place on a Linux node and end in `convert`.

use std::collections::BTreeMap;
use std::fmt;

use crate::logic::ids::{ContainerId, SandboxId};
use crate::logic::time::Moment;

pub use crate::logic::runtime_pod::{ContainerState, SandboxState};

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;

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
    /// What the runtime as a whole can do.
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

/// What the runtime can do, whatever the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuntimeFeatures {
    /// `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
    /// User namespaces for pods on the host's network.
    pub user_namespaces_host_network: bool,
}

/// Who creates cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// systemd, asked over D-Bus.
    Systemd,
    /// The file system, written directly.
    Cgroupfs,
}

/// What makes a sandbox.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodSandboxConfig {
    /// Whose sandbox.
    pub metadata: PodSandboxMetadata,
    /// Empty on the host's network.
    pub hostname: String,
    /// Absolute directory of the pod's logs.
    pub log_directory: String,
    /// `resolv.conf` of the sandbox; `None` leaves the runtime's.
    pub dns: Option<DnsConfig>,
    /// Ports of all ordinary containers.
    pub port_mappings: Vec<PortMapping>,
    /// For lookups.
    pub labels: Labels,
    /// For the runtime's plugins.
    pub annotations: Labels,
    /// Linux' part.
    pub linux: LinuxPodSandboxConfig,
}

/// Name, namespace, UID and attempt of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodSandboxMetadata {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// Counts re-creations, from 0.
    pub attempt: u32,
}

/// The name resolution of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DnsConfig {
    /// Addresses of name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// `name:value` or `name`.
    pub options: Vec<String>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port of a container, and of the host where given.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PortMapping {
    /// Transport.
    pub protocol: Protocol,
    /// Inside.
    pub container_port: i32,
    /// On the host; 0 for none.
    pub host_port: i32,
    /// The host's address; empty for all.
    pub host_ip: String,
}

/// Linux' part of a sandbox's configuration.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinuxPodSandboxConfig {
    /// Cgroup below which the runtime puts the pod's containers.
    pub cgroup_parent: String,
    /// Users, namespaces, profiles.
    pub security_context: LinuxSandboxSecurityContext,
    /// Kernel parameters of the pod.
    pub sysctls: Labels,
    /// The pod's overhead.
    pub overhead: LinuxContainerResources,
    /// The pod's own sums.
    pub resources: LinuxContainerResources,
}

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

/// Whose namespace.
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

/// Limits and shares of a container. Zero means "not set", as on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinuxContainerResources {
    /// CFS period, µs.
    pub cpu_period: i64,
    /// CFS quota, µs in each period; -1 for none.
    pub cpu_quota: i64,
    /// Relative weight, 2..262144.
    pub cpu_shares: i64,
    /// Bytes.
    pub memory_limit_in_bytes: i64,
    /// -1000..1000.
    pub oom_score_adj: i64,
    /// List format, such as `0-1,4`.
    pub cpuset_cpus: String,
    /// List format.
    pub cpuset_mems: String,
    /// By page size, such as `2MB`, in bytes.
    pub hugepage_limits: Vec<(String, u64)>,
    /// Cgroup v2 files and their content.
    pub unified: Labels,
    /// Memory and swap together, bytes.
    pub memory_swap_limit_in_bytes: i64,
}

/// A line of `ListPodSandbox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSandbox {
    /// ID.
    pub id: SandboxId,
    /// Whose.
    pub metadata: PodSandboxMetadata,
    /// State.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Moment,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its handler.
    pub runtime_handler: String,
}

/// Which sandboxes to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodSandboxFilter {
    /// Only this one.
    pub id: Option<SandboxId>,
    /// Only in this state.
    pub state: Option<SandboxState>,
    /// Only with these labels.
    pub label_selector: Labels,
}

/// Answer of `PodSandboxStatus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSandboxStatus {
    /// ID.
    pub id: SandboxId,
    /// Whose.
    pub metadata: PodSandboxMetadata,
    /// State.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Moment,
    /// Addresses: the primary one, then the others; empty on the host's network.
    pub ips: Vec<String>,
    /// Whose network namespace it uses.
    pub network_mode: NamespaceMode,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its handler.
    pub runtime_handler: String,
}

/// Name and attempt of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ContainerMetadata {
    /// The container's name in its pod.
    pub name: String,
    /// The restart count at its creation.
    pub attempt: u32,
}

/// An image, as asked for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageSpec {
    /// Name or reference.
    pub image: String,
    /// The pod's annotations, for the runtime's plugins.
    pub annotations: Labels,
    /// The text of the pod's spec.
    pub user_specified_image: String,
    /// Handler for which it is pulled.
    pub runtime_handler: String,
    /// Reference of the image that is mounted, for image volumes.
    pub image_ref: String,
}

/// How mounts travel between host and container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MountPropagation {
    /// Not at all.
    #[default]
    Private,
    /// From the host into the container.
    HostToContainer,
    /// Both ways.
    Bidirectional,
}

/// A mount of a container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Mount {
    /// Inside; absolute.
    pub container_path: String,
    /// On the host; empty for an image.
    pub host_path: String,
    /// Read-only.
    pub readonly: bool,
    /// Give it the container's SELinux label.
    pub selinux_relabel: bool,
    /// Propagation.
    pub propagation: MountPropagation,
    /// UIDs, in a user namespace.
    pub uid_mappings: Vec<IdMapping>,
    /// GIDs, in a user namespace.
    pub gid_mappings: Vec<IdMapping>,
    /// Read-only for the mounts below, too.
    pub recursive_read_only: bool,
    /// The image to mount.
    pub image: Option<ImageSpec>,
    /// Path inside that image.
    pub image_sub_path: String,
}

/// A device of a container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Device {
    /// Inside.
    pub container_path: String,
    /// On the host.
    pub host_path: String,
    /// Of `r`, `w`, `m`.
    pub permissions: String,
}

/// What makes a container.
#[derive(Clone, PartialEq, Default)]
pub struct ContainerConfig {
    /// Name and attempt.
    pub metadata: ContainerMetadata,
    /// Image.
    pub image: ImageSpec,
    /// Replaces the image's entry point.
    pub command: Vec<String>,
    /// Replaces the image's arguments.
    pub args: Vec<String>,
    /// Replaces the image's directory.
    pub working_dir: String,
    /// Environment, in order. Values may be secret.
    pub envs: Vec<(String, Vec<u8>)>,
    /// Mounts, in order.
    pub mounts: Vec<Mount>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Names of CDI devices.
    pub cdi_devices: Vec<String>,
    /// For lookups.
    pub labels: Labels,
    /// What the agent wants to know again later.
    pub annotations: Labels,
    /// Relative to the sandbox' log directory.
    pub log_path: String,
    /// Keep standard input open.
    pub stdin: bool,
    /// Close it after the first session.
    pub stdin_once: bool,
    /// A terminal.
    pub tty: bool,
    /// Signal that stops it, by name; `None` for the image's.
    pub stop_signal: Option<String>,
    /// Limits and shares.
    pub resources: LinuxContainerResources,
    /// Users, capabilities, profiles.
    pub security_context: LinuxContainerSecurityContext,
}

impl fmt::Debug for ContainerConfig {
    /// Names of variables, never their values: they may come from Secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainerConfig")
            .field("metadata", &self.metadata)
            .field("image", &self.image.image)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("envs", &self.envs.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("mounts", &self.mounts)
            .field("log_path", &self.log_path)
            .finish_non_exhaustive()
    }
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

/// A line of `ListContainers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// ID.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox_id: SandboxId,
    /// Name and attempt.
    pub metadata: ContainerMetadata,
    /// Image, as asked for.
    pub image: String,
    /// Image, as found.
    pub image_ref: String,
    /// The image's ID, where the runtime tells it apart from the reference.
    pub image_id: String,
    /// State.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Moment,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
}

/// Which containers to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ContainerFilter {
    /// Only this one.
    pub id: Option<ContainerId>,
    /// Only in this state.
    pub state: Option<ContainerState>,
    /// Only in this sandbox.
    pub sandbox_id: Option<SandboxId>,
    /// Only with these labels.
    pub label_selector: Labels,
}

/// Answer of `ContainerStatus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStatus {
    /// ID.
    pub id: ContainerId,
    /// Name and attempt.
    pub metadata: ContainerMetadata,
    /// State.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Moment,
    /// When it was started; [`Moment::EPOCH`] before.
    pub started_at: Moment,
    /// When it ended; [`Moment::EPOCH`] before.
    pub finished_at: Moment,
    /// How it ended.
    pub exit_code: i32,
    /// Image, as the runtime names it.
    pub image: String,
    /// Image, by digest or ID.
    pub image_ref: String,
    /// The image's ID, where the runtime tells it apart from the reference.
    pub image_id: String,
    /// One word why it ended.
    pub reason: String,
    /// A sentence why it ended.
    pub message: String,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its mounts.
    pub mounts: Vec<Mount>,
    /// Its log file; absolute.
    pub log_path: String,
    /// Limits and shares in force, where told.
    pub resources: Option<LinuxContainerResources>,
    /// UID, GID and further GIDs of its first process, where told.
    pub user: Option<LinuxContainerUser>,
    /// Signal that stops it, where told.
    pub stop_signal: Option<String>,
}

/// Who a container's first process is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinuxContainerUser {
    /// UID.
    pub uid: i64,
    /// GID.
    pub gid: i64,
    /// Further GIDs.
    pub supplemental_groups: Vec<i64>,
}

/// What `ExecSync` gives.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ExecOutcome {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Exit code.
    pub exit_code: i32,
}

impl fmt::Debug for ExecOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecOutcome({}, {} bytes)", self.exit_code, self.stdout.len() + self.stderr.len())
    }
}

/// Which streams of a command or container are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Streams {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}

/// What happened to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerEventKind {
    /// Made.
    Created,
    /// Started.
    Started,
    /// Ended.
    Stopped,
    /// Removed.
    Deleted,
}

/// One event of the runtime's stream. The agent takes it as a hint to look, never as the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEvent {
    /// The container, or the sandbox itself.
    pub container_id: ContainerId,
    /// What happened.
    pub kind: ContainerEventKind,
    /// When.
    pub created_at: Moment,
    /// UID of the pod, where told.
    pub pod_uid: Option<String>,
}

/// An image of the node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Image {
    /// ID.
    pub id: String,
    /// Names.
    pub repo_tags: Vec<String>,
    /// Names with digests.
    pub repo_digests: Vec<String>,
    /// Bytes on disk.
    pub size: u64,
    /// UID of the image's user.
    pub uid: Option<i64>,
    /// Name of the image's user.
    pub username: String,
    /// Annotations it was pulled with.
    pub annotations: Labels,
    /// Handler for which it was pulled.
    pub runtime_handler: String,
    /// Never to be collected.
    pub pinned: bool,
}

/// Credentials of a registry.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct AuthConfig {
    /// User.
    pub username: String,
    /// Password.
    pub password: String,
    /// Both, base64.
    pub auth: String,
    /// Server.
    pub server_address: String,
    /// Identity token.
    pub identity_token: String,
    /// Registry token.
    pub registry_token: String,
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthConfig(for {:?}, masked)", self.server_address)
    }
}

/// Answer of `ImageFsInfo`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageFsInfo {
    /// File systems of images.
    pub image_filesystems: Vec<FilesystemUsage>,
    /// File systems of containers' writable layers.
    pub container_filesystems: Vec<FilesystemUsage>,
}

/// Use of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FilesystemUsage {
    /// When it was looked at.
    pub timestamp: Moment,
    /// Where it is mounted.
    pub mountpoint: String,
    /// Bytes, where told.
    pub used_bytes: Option<u64>,
    /// Inodes, where told.
    pub inodes_used: Option<u64>,
}
