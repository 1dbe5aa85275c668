//! Containers: as asked for, listed and shown, their events and what they say.

use std::fmt;

use super::{ContainerState, IdMapping, ImageSpec, Labels, LinuxContainerSecurityContext, LinuxContainerUser};
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::time::Moment;

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

/// Name and attempt of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ContainerMetadata {
    /// The container's name in its pod.
    pub name: String,
    /// The restart count at its creation.
    pub attempt: u32,
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

/// The configuration of a container.
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
    /// Notes that the agent wants to read again later.
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
    /// Handler for which that was asked for; empty where the runtime does not tell.
    pub image_handler: String,
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

/// The result of `ExecSync`.
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

/// The kind of an event of a container.
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
    /// The kind of the event.
    pub kind: ContainerEventKind,
    /// When.
    pub created_at: Moment,
    /// UID of the pod, where told.
    pub pod_uid: Option<String>,
}
