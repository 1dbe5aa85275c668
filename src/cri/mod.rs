//! The container runtime, as the agent sees it: two traits in our own words, and the adapter that speaks CRI v1.
//!
//! `types` holds the plain data, `grpc` the tonic adapter, `convert` the one place where wire types end. Nothing
//! outside this folder knows a wire type, so the simulator plays a runtime by implementing the same two traits.

mod convert;
pub mod grpc;
pub mod instrumented;
pub mod open_calls;
pub mod pod_mapping;
pub mod stats;
pub mod types;
#[doc(hidden)]
pub mod wire;

use std::borrow::Cow;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;

use crate::logic::model::ids::{ContainerId, SandboxId};
pub use stats::*;
pub use types::*;

/// The longest wait for the runtime to open a log anew: until it has, the log grows beyond its bound.
pub const REOPEN_LIMIT: Duration = Duration::from_secs(10);

/// Why a call to the runtime failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CriError {
    /// The runtime knows no such sandbox, container or image.
    #[error("{message}")]
    NotFound {
        /// The runtime's message.
        message: String,
    },
    /// The call did not end within its deadline.
    #[error("{call}: no answer within {}s", limit.as_secs_f64())]
    Deadline {
        /// The CRI method.
        call: &'static str,
        /// How long the call was given.
        limit: Duration,
    },
    /// The runtime's socket is missing, or the connection broke.
    #[error("{message}")]
    Unavailable {
        /// The connection's error.
        message: String,
    },
    /// The runtime does not have this call.
    #[error("{message}")]
    Unimplemented {
        /// The runtime's message.
        message: String,
    },
    /// The runtime answered, but the answer lacks what the protocol requires (CRI-03).
    #[error("{call}: {problem}")]
    InvalidAnswer {
        /// The CRI method.
        call: &'static str,
        /// The missing or wrong part, by field.
        problem: String,
    },
    /// Any other refusal; `message` is what upstream shows to the user.
    #[error("{message}")]
    Other {
        /// The gRPC status code's name, such as `Unknown`.
        code: &'static str,
        /// The runtime's message.
        message: String,
    },
}

impl CriError {
    /// Whether the same call may well succeed soon, with nothing changed but the runtime's own state.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Deadline { .. } | Self::Unavailable { .. })
    }

    /// The cause, without gRPC's own beginning: upstream tells it so where a container is made or started, and an image
    /// pulled.
    pub fn words(&self) -> Cow<'_, str> {
        match self {
            Self::Deadline { .. } => Cow::Borrowed("context deadline exceeded"),
            Self::InvalidAnswer { .. } => Cow::Owned(self.to_string()),
            Self::NotFound { message }
            | Self::Unavailable { message }
            | Self::Unimplemented { message }
            | Self::Other { message, .. } => {
                let told = message.strip_prefix("rpc error: code = ").and_then(|rest| rest.split_once(" desc = "));
                Cow::Borrowed(told.map_or(message.as_str(), |(_, words)| words))
            }
        }
    }

    /// Whether the runtime said that the thing does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// The result of a call to the runtime.
pub type CriResult<T> = Result<T, CriError>;

/// The runtime's own account of what happens to containers, as it happens.
pub type ContainerEvents = Pin<Box<dyn Stream<Item = CriResult<ContainerEvent>> + Send>>;

/// CRI's `RuntimeService`, whole. Every call has its deadline (CRI-02); dropping the future abandons the call.
#[async_trait]
pub trait RuntimeService: Send + Sync {
    /// `Version`: who the runtime is. Checked against CRI-01.
    async fn version(&self) -> CriResult<RuntimeVersion>;
    /// `Status`: conditions, handlers, features.
    async fn status(&self) -> CriResult<RuntimeStatus>;
    /// `RuntimeConfig`: the cgroup driver that the runtime uses; `None` where it does not tell. A runtime too old to be
    /// asked gives [`CriError::Unimplemented`] (CRI-05).
    async fn runtime_config(&self) -> CriResult<Option<CgroupDriver>>;
    /// `UpdateRuntimeConfig`: tells the node's pod CIDR.
    async fn update_runtime_config(&self, pod_cidr: &str) -> CriResult<()>;

    /// `RunPodSandbox`: creates and starts; gives the ID.
    async fn run_pod_sandbox(&self, config: &PodSandboxConfig, runtime_handler: &str) -> CriResult<SandboxId>;
    /// `StopPodSandbox`: stops the sandbox and what runs in it, frees its network. Absence is success.
    async fn stop_pod_sandbox(&self, id: &SandboxId) -> CriResult<()>;
    /// `RemovePodSandbox`: removes the sandbox and its containers. Absence is success.
    async fn remove_pod_sandbox(&self, id: &SandboxId) -> CriResult<()>;
    /// `PodSandboxStatus`.
    async fn pod_sandbox_status(&self, id: &SandboxId) -> CriResult<PodSandboxStatus>;
    /// `ListPodSandbox`, all states.
    async fn list_pod_sandboxes(&self, filter: &PodSandboxFilter) -> CriResult<Vec<PodSandbox>>;

    /// `CreateContainer` in the sandbox; gives the ID.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &PodSandboxConfig,
    ) -> CriResult<ContainerId>;
    /// `StartContainer`.
    async fn start_container(&self, id: &ContainerId) -> CriResult<()>;
    /// `StopContainer`: asks to stop, kills after `grace` (whole seconds count). Absence is success.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> CriResult<()>;
    /// `RemoveContainer`, running or not. Absence is success.
    async fn remove_container(&self, id: &ContainerId) -> CriResult<()>;
    /// `ListContainers`, all states.
    async fn list_containers(&self, filter: &ContainerFilter) -> CriResult<Vec<Container>>;
    /// `ContainerStatus`.
    async fn container_status(&self, id: &ContainerId) -> CriResult<ContainerStatus>;
    /// `UpdateContainerResources`.
    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxContainerResources,
        annotations: &Labels,
    ) -> CriResult<()>;
    /// `UpdatePodSandboxResources`.
    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxContainerResources,
        resources: &LinuxContainerResources,
    ) -> CriResult<()>;
    /// `ReopenContainerLog`: the runtime opens the log path anew, after a rotation. Given [`REOPEN_LIMIT`] at most.
    async fn reopen_container_log(&self, id: &ContainerId) -> CriResult<()>;
    /// `CheckpointContainer` into the archive `location`, given `limit` at least the runtime request timeout.
    async fn checkpoint_container(&self, id: &ContainerId, location: &str, limit: Duration) -> CriResult<()>;

    /// `ExecSync`: runs a command and waits; `timeout` zero means without end.
    async fn exec_sync(&self, id: &ContainerId, command: &[String], timeout: Duration) -> CriResult<ExecOutcome>;
    /// `Exec`: the URL where the command's streams are served.
    async fn exec(&self, id: &ContainerId, command: &[String], streams: Streams) -> CriResult<String>;
    /// `Attach`: the URL where the container's streams are served.
    async fn attach(&self, id: &ContainerId, streams: Streams) -> CriResult<String>;
    /// `PortForward`: the URL where the sandbox's ports are served.
    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> CriResult<String>;

    /// `ContainerStats`.
    async fn container_stats(&self, id: &ContainerId) -> CriResult<ContainerStats>;
    /// `ListContainerStats`.
    async fn list_container_stats(&self, filter: &StatsFilter) -> CriResult<Vec<ContainerStats>>;
    /// `PodSandboxStats`.
    async fn pod_sandbox_stats(&self, id: &SandboxId) -> CriResult<PodSandboxStats>;
    /// `ListPodSandboxStats`.
    async fn list_pod_sandbox_stats(&self, filter: &StatsFilter) -> CriResult<Vec<PodSandboxStats>>;
    /// `ListMetricDescriptors`.
    async fn list_metric_descriptors(&self) -> CriResult<Vec<MetricDescriptor>>;
    /// `ListPodSandboxMetrics`.
    async fn list_pod_sandbox_metrics(&self) -> CriResult<Vec<PodSandboxMetrics>>;

    /// `GetContainerEvents`: the runtime's event stream, without a deadline; ends when the connection does.
    async fn container_events(&self) -> CriResult<ContainerEvents>;
}

/// CRI's `ImageService`, whole.
#[async_trait]
pub trait ImageService: Send + Sync {
    /// `ListImages`.
    async fn list_images(&self, filter: Option<&ImageSpec>) -> CriResult<Vec<Image>>;
    /// `ImageStatus`: `None` when the image is not there.
    async fn image_status(&self, image: &ImageSpec) -> CriResult<Option<Image>>;
    /// `PullImage`: gives the reference to use for containers. No deadline: drop the future to cancel.
    async fn pull_image(
        &self,
        image: &ImageSpec,
        auth: Option<&AuthConfig>,
        sandbox_config: &PodSandboxConfig,
    ) -> CriResult<String>;
    /// `RemoveImage`.
    async fn remove_image(&self, image: &ImageSpec) -> CriResult<()>;
    /// `ImageFsInfo`: image and container file systems.
    async fn image_fs_info(&self) -> CriResult<ImageFsInfo>;
}
